"""`trimtab clusters ls`: the names of config.toml, without asking any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from in_process import Trimtab
from simulated import small_spec

from core import paths
from core.cluster.known_names import check_name, known_names
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.server import SimulatorServer
from core.errors import ExitCode, UnreachableError

CONFIG = """
[clusters.staging]
bootstrap = "s1:9092"

[clusters.prod-eu]
bootstrap = "b1:9093,b2:9093"
command_config = "/etc/kafka/prod.properties"
read_only = true
timeout = "20s"
color = "red"
"""


@pytest.fixture
def config(trimtab: Trimtab) -> None:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(CONFIG)


@pytest.mark.usefixtures("config")
def test_clusters_are_listed_by_name(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("clusters", "ls")
    assert code == ExitCode.DONE
    _, prod, staging = out.splitlines()
    where = ["b1:9093,b2:9093", "/etc/kafka/prod.properties"]
    assert prod.split() == ["prod-eu", "read-only", "red", "-", *where]
    assert staging.split() == ["staging", "writable", "-", "-", "s1:9092", "-"]


@pytest.mark.usefixtures("config")
def test_json_lists_all_settings_of_each_cluster(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("clusters", "ls", "--json")
    prod, staging = json.loads(out)
    assert code == ExitCode.DONE
    assert (prod["name"], prod["read_only"], prod["timeout_s"]) == ("prod-eu", True, 20.0)
    assert (prod["color"], staging["color"]) == ("red", None)
    assert staging["command_config"] is None


def test_clusters_ls_without_clusters_shows_how_to_configure_one(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("clusters", "ls")
    assert code == ExitCode.DONE
    assert "[clusters.prod]" in out


def test_error_in_config_toml_is_reported(trimtab: Trimtab) -> None:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text("[clusters.x]\nbootstrp = 'b1:9092'\n")
    code, _, err = trimtab("clusters", "ls")
    assert code == ExitCode.USAGE
    assert "bootstrp" in err


# -- a name stays a cluster's ----------------------------------------------------------------------


@pytest.mark.usefixtures("config")
def test_name_that_now_reaches_another_cluster_is_refused_until_forgotten(
    trimtab: Trimtab,
) -> None:
    check_name("staging", "first")
    check_name("staging", "first")
    check_name("prod-eu", "second")
    with pytest.raises(UnreachableError, match="staging was cluster first .* second now") as caught:
        check_name("staging", "second")
    assert "trimtab clusters forget staging" in caught.value.next
    _, out, _ = trimtab("clusters", "ls", "--json")
    assert {cluster["name"]: cluster["cluster_id"] for cluster in json.loads(out)} == {
        "staging": "first",
        "prod-eu": "second",
    }
    code, _, _ = trimtab("clusters", "forget", "staging")
    assert code == ExitCode.DONE
    check_name("staging", "second")
    assert known_names() == {"staging": "second", "prod-eu": "second"}


@pytest.mark.usefixtures("config")
def test_only_a_name_that_was_used_can_be_forgotten(trimtab: Trimtab) -> None:
    code, _, err = trimtab("clusters", "forget", "staging")
    assert code == ExitCode.USAGE
    assert "clusters ls" in err


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("written", ["", "[]", '{"staging": 7}', "{"])
def test_invalid_file_of_known_names_is_treated_as_empty(written: str) -> None:
    paths.data_dir().mkdir(parents=True, exist_ok=True)
    paths.known_names_file().write_text(written)
    check_name("staging", "first")
    assert known_names() == {"staging": "first"}


@pytest.mark.usefixtures("config")
def test_cluster_is_accepted_even_if_its_known_name_cannot_be_stored() -> None:
    paths.data_dir().parent.mkdir(parents=True, exist_ok=True)
    paths.data_dir().write_text("no folder")
    check_name("staging", "first")
    assert known_names() == {}


def test_client_by_cluster_name_is_bound_to_the_remembered_cluster_id(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    server = SimulatorServer(SimulatedCluster(small_spec({"t": [(1,)]})), tmp_path / "s")
    server.start()
    try:
        paths.config_dir().mkdir(parents=True, exist_ok=True)
        paths.config_file().write_text(f'[clusters.sim]\nbootstrap = "sim:{tmp_path / "s"}"\n')
        assert trimtab("--cluster", "sim", "topics", "ls")[0] == ExitCode.DONE
        assert known_names() == {"sim": server.cluster.describe_cluster().cluster_id}
        paths.known_names_file().write_text('{"sim": "another"}')
        code, _, err = trimtab("--cluster", "sim", "topics", "ls")
    finally:
        server.stop()
    assert code == ExitCode.UNREACHABLE
    assert "sim was cluster another" in err
