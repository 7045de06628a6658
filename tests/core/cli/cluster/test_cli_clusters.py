"""`trimtab clusters ls`: the names of config.toml, without asking any of them."""

from __future__ import annotations

import json

import pytest
from in_process import Trimtab

from core import paths
from core.errors import ExitCode

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
    assert prod.split() == ["prod-eu", "read-only", "b1:9093,b2:9093", "/etc/kafka/prod.properties"]
    assert staging.split() == ["staging", "writable", "s1:9092", "-"]


@pytest.mark.usefixtures("config")
def test_as_json_all_is_told_that_is_said_of_them(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("clusters", "ls", "--json")
    prod, staging = json.loads(out)
    assert code == ExitCode.DONE
    assert (prod["name"], prod["read_only"], prod["timeout_s"]) == ("prod-eu", True, 20.0)
    assert (prod["color"], staging["color"]) == ("red", None)
    assert staging["command_config"] is None


def test_where_none_is_named_it_says_how(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("clusters", "ls")
    assert code == ExitCode.DONE
    assert "[clusters.prod]" in out


def test_what_config_toml_says_wrongly_is_told(trimtab: Trimtab) -> None:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text("[clusters.x]\nbootstrp = 'b1:9092'\n")
    code, _, err = trimtab("clusters", "ls")
    assert code == ExitCode.USAGE
    assert "bootstrp" in err
