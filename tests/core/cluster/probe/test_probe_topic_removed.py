"""A probe's topic goes, though the broker that is asked to delete it dies as the run ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.clock import SystemClock
from core.cluster.kafka import admin as kafka_admin
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.probe import produce_latency as probing
from core.cluster.probe.produce_latency import AuditNote, ProduceProbe
from core.errors import TrimtabError


class Cluster:
    """An admin client whose topic is made, never led, and deleted as the answers say."""

    def __init__(self, *answers: int | None, creates: int | None = KafkaError._TIMED_OUT) -> None:
        self.answers, self.creates, self.asked = list(answers), creates, 0

    def close(self) -> None:
        """Nothing is left of it."""

    def create_topics(self, topics: Sequence[Any], **_: object) -> Mapping[str, Future[None]]:
        return {topics[0].topic: answered(self.creates)}

    def delete_topics(self, names: Sequence[str], **_: object) -> Mapping[str, Future[None]]:
        self.asked += 1
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {names[0]: answered(code)}


def answered(code: int | None) -> Future[None]:
    future: Future[None] = Future()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


def unnoted(what: str, **detail: object) -> None:
    """Keep no audit."""


def closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, note: AuditNote = unnoted
) -> ProduceProbe:
    """Return a probe that was opened on this cluster and has come to its end."""
    monkeypatch.setattr(kafka_admin, "create_admin_client", lambda settings: cluster)
    monkeypatch.setattr(probing, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(probing, "RETRY_SECONDS", 0.001)
    probe = ProduceProbe(ConnectionSettings("127.0.0.1:1"), "a", (1, 2), SystemClock(), note)
    probe.start()
    probe.close()
    return probe


LATE, LOST, DENIED = (
    *(KafkaError._TIMED_OUT, KafkaError._TRANSPORT),
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


@pytest.mark.parametrize(
    ("answers", "creates", "asked"),
    [
        ([LOST, LATE, None], LATE, 3),
        ([LOST, KafkaError.UNKNOWN_TOPIC_OR_PART], LATE, 2),
        ([DENIED], DENIED, 1),
    ],
    ids=["a dying broker did not do it", "gone by then", "never made"],
)
def test_a_topic_is_deleted_until_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, answers: list[int | None], creates: int, asked: int
) -> None:
    cluster = Cluster(*answers, creates=creates)
    assert closed(cluster, monkeypatch).leftover == ""
    assert cluster.asked == asked


def test_what_cannot_be_deleted_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(LOST)
    assert closed(cluster, monkeypatch).leftover == "the topic __trimtab_probe-a may be left"
    assert cluster.asked > 1


def test_what_a_probe_makes_and_deletes_is_noted_before_and_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[tuple[str, dict[str, Any]]] = []
    cluster = Cluster(KafkaError._TRANSPORT, None)
    closed(cluster, monkeypatch, lambda what, **detail: noted.append((what, detail)))
    topic = "__trimtab_probe-a"
    (made, of), *rest = noted
    assert made == "create topics"
    assert of["topics"][topic]["replicas"] == [[1, 2], [2, 1]]
    assert of["topics"][topic]["configs"]
    assert [(what, detail.get("to"), detail.get("taken")) for what, detail in rest] == [
        ("answer", "create topics", 0),
        ("delete topics", None, None),
        ("answer", "delete topics", 0),
        ("delete topics", None, None),
        ("answer", "delete topics", 1),
    ]
    assert list(rest[0][1]["faults"]) == [topic]


def test_what_cannot_be_noted_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(what: str, **detail: object) -> None:
        raise TrimtabError("The audit cannot be written.")

    cluster = Cluster(None, creates=None)
    monkeypatch.setattr(cluster, "create_topics", None)
    probe = closed(cluster, monkeypatch, full)
    assert cluster.asked == 0
    assert probe.trouble == "produce latency is not measured: The audit cannot be written."
    assert probe.leftover == "", "nothing was made"
