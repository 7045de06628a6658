"""`trimtab doctor`: what it finds at a cluster, each with its own remedy."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulated import small_spec

from core.cli.cluster import doctor
from core.cli.cluster.doctor import (
    certificates,
    cluster,
    hidden_topics,
    properties,
    reachability,
    rights,
)
from core.cluster.access.hidden_topics import DENIED, HiddenLogDir, HiddenTopics
from core.cluster.configs import ConfigValue, Resource
from core.cluster.connect import Address
from core.cluster.kafka.connection.certificates import Certificate
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import LogDir
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError
from core.run.external.leftovers import find_left_probes
from core.run.reporting.runs import KnownRun


@pytest.mark.parametrize(
    ("error", "found", "remedy"),
    [
        (None, "yes", ""),
        ("CLUSTER_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "Allow DESCRIBE"),
        ("ECONNREFUSED", "broker 2 does not say: ECONNREFUSED", "Check that broker"),
    ],
)
def test_unavailable_log_dirs_have_the_remedy_for_their_cause(
    error: str | None, found: str, remedy: str
) -> None:
    logs = (BrokerLogs(1), BrokerLogs(2, error=error))
    finding, _ = rights(logs, dict)
    assert finding.found == found
    assert finding.remedy.startswith(remedy)


def test_a_log_dir_that_failed_is_a_finding() -> None:
    dirs = (LogDir("/a", 1, 1), LogDir("/b", error="KAFKA_STORAGE_ERROR"))
    _, finding, _ = rights((BrokerLogs(4, log_dirs=dirs),), dict)
    assert finding.found == "/b of broker 4 fails: KAFKA_STORAGE_ERROR"
    assert finding.remedy.startswith("Repair the disk, then restart the broker")


@pytest.mark.parametrize("whole", [True, False])
def test_denied_topic_configs_are_a_finding(*, whole: bool) -> None:
    def denied() -> dict[Resource, dict[str, ConfigValue] | Fault]:
        if whole:
            raise AccessDeniedError("The cluster says no: TOPIC_AUTHORIZATION_FAILED.")
        hidden = Fault("TOPIC_AUTHORIZATION_FAILED")
        return {Resource.topic("mine"): {}, Resource.topic("theirs"): hidden}

    _, fine = rights((), dict)
    assert (fine.found, fine.remedy) == ("yes", "")
    _, finding = rights((), denied)
    assert "TOPIC_AUTHORIZATION_FAILED" in finding.found
    assert finding.remedy == "Allow DESCRIBE_CONFIGS on all topics."
    assert finding.needed_for.startswith("runs")


def test_denied_cluster_access_is_reported_as_needed_for_everything() -> None:
    def connected() -> Any:
        raise AccessDeniedError("This user may not list reassignments.", next="Ask for the rights.")

    context: Any = SimpleNamespace(connected=connected, require_address=lambda: Address("b1:9092"))
    (finding,) = cluster(context)
    assert finding.found == "This user may not list reassignments."
    assert finding.remedy == "Ask for the rights."
    assert finding.needed_for == "the dashboard, show, plans, load, the timeline and runs"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("security.protocol=PLAINTEXT\n", "all are heeded"),
        ("retries=5\nrequest.timeout.ms=9\n", "request.timeout.ms, retries mean nothing here"),
    ],
)
def test_ignored_client_properties_are_reported(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    (finding,) = properties(Address("b:9092", path))
    assert (finding.found, finding.fine) == (found, True)
    assert not [*properties(Address("b:9092"))]


def test_misspelt_property_is_reported_with_the_intended_one(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protcol=SSL\nmy.own=1\n")
    (finding,) = properties(Address("b:9092", path))
    assert finding.found == "my.own, security.protcol mean nothing here"
    assert finding.remedy == "Write security.protocol for security.protcol."


def state_of(*places: str) -> Any:
    brokers = [
        SimpleNamespace(id=number, host=host, port=int(port), alive=True)
        for number, (host, _, port) in enumerate((p.rpartition(":") for p in places), 1)
    ]
    return SimpleNamespace(brokers=brokers)


def test_broker_with_an_unreachable_advertised_address_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        (finding,) = reachability(Address("b1:9092"), state_of(place))
    assert finding.found == f"broker 1 advertises {place}, which refuses connections"
    assert "advertised.listeners" in finding.remedy


@pytest.mark.parametrize(
    ("days", "found", "fine"),
    [
        (400, "none ends before", True),
        (29, "that of the key store ends on", False),
        (-1, "that of the key store ended on", False),
    ],
)
def test_certificate_that_has_expired_or_expires_soon_is_reported(
    monkeypatch: pytest.MonkeyPatch, days: int, found: str, *, fine: bool
) -> None:
    ends = datetime.now(UTC) + timedelta(days=days)
    both = [
        Certificate("broker b1:9092", ends + timedelta(days=90)),
        Certificate("the key store", ends),
    ]
    monkeypatch.setattr(doctor, "find_certificates", lambda *_: both)
    (finding,) = certificates(Address("b1:9092"), state_of("b1:9092"))
    assert finding.found.startswith(found)
    assert finding.fine is fine


@pytest.mark.parametrize(
    ("run", "living", "is_reported"), [("r1", True, False), ("r1", False, True), ("r2", True, True)]
)
def test_probe_topic_of_a_run_not_in_progress_is_reported(
    run: str, living: bool, is_reported: bool
) -> None:
    state = SimulatedCluster(
        small_spec({"__trimtab_probe-r1": [(1,)], "t": [(1,)]})
    ).describe_cluster()
    history: Any = SimpleNamespace(run_id=run)
    sentences = find_left_probes(state, [KnownRun(history, living)])
    assert (
        sentences
        == ("topic __trimtab_probe-r1 is of the probe of run r1, which is not in progress here",)
        * is_reported
    )


def test_line_break_in_a_cluster_name_forges_no_finding() -> None:
    from core.cli.cluster.doctor import Finding, _lines

    assert len(_lines(Finding("cluster", "C\n✓ right to see log dirs  yes"), 10).splitlines()) == 1


@pytest.mark.parametrize(
    ("hidden", "found", "remedy"),
    [
        (HiddenTopics(), "none", ""),
        (
            HiddenTopics(unknown_brokers=(2,)),
            "not known: broker 2 does not tell its",
            "Check that",
        ),
        (
            HiddenTopics(1, (HiddenLogDir(1, "/a", 1, 2, 50),)),
            "1 topic is hidden",
            "DESCRIBE on th",
        ),
        (HiddenTopics(0, (), (1,), DENIED), "not known", "Allow DESCRIBE on the cluster."),
    ],
)
def test_topics_that_are_hidden_are_a_finding(
    hidden: HiddenTopics, found: str, remedy: str
) -> None:
    finding = hidden_topics(hidden)
    assert found in finding.found
    assert remedy in finding.remedy
    assert finding.fine is not bool(remedy)
