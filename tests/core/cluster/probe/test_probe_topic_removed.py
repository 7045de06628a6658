"""A probe's topic goes, though the broker that is asked to delete it dies as the run ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from core.clock import SystemClock
from core.cluster.client import ClusterClient, NewTopic
from core.cluster.connect import Address
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka_errors import Fault
from core.cluster.probe import produce_latency as probing
from core.cluster.probe.produce_latency import ProduceProbe, start_probe
from core.errors import TrimtabError, UnreachableError
from core.run import audit
from core.run.audited_client import audited

LATE, LOST, DENIED, GONE = (
    *("REQUEST_TIMED_OUT", "unreachable", "TOPIC_AUTHORIZATION_FAILED"),
    "UNKNOWN_TOPIC_OR_PARTITION",
)


class Cluster:
    """A cluster whose topic is made and deleted as the answers say, or is not reached."""

    def __init__(self, *answers: str | None, creates: str | None = LATE) -> None:
        self.answers, self.creates = list(answers), creates
        self.made: list[NewTopic] = []
        self.asked = self.closed = 0

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, Fault | None]:
        self.made += topics
        return {topics[0].name: answered(self.creates)}

    def delete_topics(self, names: Sequence[str]) -> dict[str, Fault | None]:
        self.asked += 1
        name = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {names[0]: answered(name)}

    def close(self) -> None:
        self.closed += 1


def answered(name: str | None) -> Fault | None:
    if name == LOST:
        raise UnreachableError("Nobody answers.")
    return None if name is None else Fault(name)


def closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> ProduceProbe:
    """Return a probe that was opened on this cluster and has come to its end."""
    monkeypatch.setattr(probing, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(probing, "RETRY_SECONDS", 0.001)
    opened: list[ClusterClient] = []

    def open_client() -> ClusterClient:
        if opened:
            raise UnreachableError("The only server that was named is gone.")
        opened.append(cast(ClusterClient, cluster))
        return opened[0]

    settings = ConnectionSettings("127.0.0.1:1")
    probe = ProduceProbe(settings, open_client, "a", (1, 2), SystemClock())
    probe.start()
    probe.close()
    assert cluster.closed == 1
    return probe


@pytest.mark.parametrize(
    ("answers", "creates", "call_count"),
    [
        ([LOST, LATE, None], LOST, 3),
        ([LATE, GONE], LATE, 2),
        ([DENIED], DENIED, 1),
    ],
    ids=["a dying broker did not do it", "gone by then", "never made"],
)
def test_probe_topic_deletion_is_retried_until_no_topic_is_left(
    monkeypatch: pytest.MonkeyPatch, answers: list[str | None], creates: str, call_count: int
) -> None:
    cluster = Cluster(*answers, creates=creates)
    assert closed(cluster, monkeypatch).leftover == ""
    assert cluster.asked == call_count
    assert cluster.made[0].replicas == ((1, 2), (2, 1))


def test_topic_that_cannot_be_deleted_in_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(LOST)
    assert closed(cluster, monkeypatch).leftover == "the topic __trimtab_probe-a may be left"
    assert cluster.asked > 1


def test_probe_creates_no_topic_when_the_audit_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unaudited(Cluster):
        def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, Fault | None]:
            raise TrimtabError("The audit cannot be written.", next="Free that disk.")

        def delete_topics(self, names: Sequence[str]) -> dict[str, Fault | None]:
            raise TrimtabError("The audit cannot be written.", next="Free that disk.")

    probe = closed(Unaudited(None), monkeypatch)
    assert probe.trouble == "produce latency is not measured: The audit cannot be written."
    assert probe.leftover == "", "nothing was made"


def test_probe_topic_creation_and_deletion_are_audited_before_and_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(LATE, None)
    monkeypatch.setattr(probing, "connect", lambda address: SimpleNamespace(client=cluster))
    monkeypatch.setattr(probing, "RETRY_SECONDS", 0.001)
    by_audit = partial(audited, cluster_id="c", run="r")
    probe = start_probe(Address("127.0.0.1:1"), "a", (1, 2), SystemClock(), by_audit)
    assert probe is not None
    probe.close()
    topic = "__trimtab_probe-a"
    entries = [line.entry for line in audit.read() if line.entry is not None]
    assert {(entry["cluster_id"], entry["run"]) for entry in entries} == {("c", "r")}
    assert [(e["what"], e.get("to"), e.get("taken")) for e in entries] == [
        ("create topics", None, None),
        ("answer", "create topics", 0),
        ("delete topics", None, None),
        ("answer", "delete topics", 0),
        ("delete topics", None, None),
        ("answer", "delete topics", 1),
    ]
    made = entries[0]["topics"][topic]
    assert (made["replicas"], made["configs"]) == ([[1, 2], [2, 1]], {**probing.TOPIC_CONFIGS})
    assert list(entries[1]["faults"]) == [topic]
