"""What clients feel as a real broker dies and returns is told, and the probe's topic taken away."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from waiting import eventually

from core import paths
from core.cluster.connect import Address, connect
from core.cluster.probe import round_trip as pinger
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import IncompleteError
from core.watch.client_health import probe_loop as following
from core.watch.client_health import probe_loop as probing
from core.watch.client_health.health_detector import Health
from core.watch.client_health.probe_loop import TOPIC, delete_probe_topic, run_probe
from core.watch.client_health.report import ProbeReport
from core.watch.timeline.events import Note
from core.watch.timeline.store import Timeline


@pytest.mark.usefixtures("library")
def test_death_and_return_of_a_broker_are_measured_and_reported_by_the_probe(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "timeline_file", lambda cluster_id: tmp_path / "a.timeline")
    connection = connect(Address(sandbox.bootstrap))
    reports: list[ProbeReport] = []
    messages: list[str] = []
    stop = threading.Event()

    def work() -> None:
        run_probe(
            connection,
            tmp_path,
            keep_on=lambda: not stop.is_set(),
            on_report=reports.append,
            say=messages.append,
        )

    def health(broker: int) -> Health | None:
        seen = reports[-1].of(broker) if reports else None
        return seen.health if seen is not None else None

    def event_texts() -> list[str]:
        return [event.text for report in list(reports) for event in report.events]

    worker = threading.Thread(target=work)
    worker.start()
    try:
        eventually(lambda: all(health(b) in (Health.FINE, Health.SLOW) for b in (1, 2, 3, 4)))
        eventually(lambda: all(seen.fetch.messages > 2 for seen in reports[-1].brokers))
        sandbox.kill(2)
        try:
            eventually(lambda: "broker 2: transport failure" in event_texts())
            assert health(2) in (Health.FAILING, Health.DOWN)
        finally:
            sandbox.start(2)
        eventually(
            lambda: any(text.startswith("broker 2: answers again") for text in event_texts())
        )
    finally:
        stop.set()
        worker.join()
        delete_probe_topic(connection.client, connection.client.describe_cluster())
        connection.client.close()
    assert messages == []
    for seen in reports[-1].brokers:
        if seen.produce.p50_ms is not None and seen.fetch.p50_ms is not None:
            assert 0 < seen.produce.p50_ms <= (seen.produce.p99_ms or 0)
            assert 0 < seen.fetch.p50_ms <= (seen.fetch.p99_ms or 0)
    timeline = Timeline.read(tmp_path / "a.timeline")
    kept = [e.after.text for e in timeline.events() if isinstance(e.after, Note)]
    timeline.close()
    assert kept == event_texts()
    eventually(lambda: TOPIC not in _topics(sandbox))


@pytest.mark.usefixtures("library")
def test_probe_whose_topic_is_deleted_ends_with_an_error_and_blames_no_broker(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "timeline_file", lambda cluster_id: tmp_path / "a.timeline")
    monkeypatch.setattr(probing, "ABSENT_SECONDS", 1.0)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.2)
    # librdkafka takes a topic for new, not for gone, for 30 s after it was first heard of.
    config = {**pinger.producer_config(pinger.TIMEOUT_SECONDS)}
    config["topic.metadata.propagation.max.ms"] = 0
    monkeypatch.setattr(pinger, "producer_config", lambda seconds: config)
    connection = connect(Address(sandbox.bootstrap))
    client = connection.client
    deadline = time.monotonic() + 60
    messages: list[str] = []

    def delete(report: ProbeReport) -> None:
        messages.extend(event.text for event in report.events)
        if any(seen.fetch.messages for seen in report.brokers):
            delete_probe_topic(client, client.describe_cluster())

    try:
        with pytest.raises(IncompleteError, match="somebody has deleted it"):
            run_probe(
                connection,
                tmp_path,
                keep_on=lambda: time.monotonic() < deadline,
                on_report=delete,
                say=messages.append,
            )
    finally:
        client.close()
    assert messages == [], "no broker is to blame"


def _topics(sandbox: Sandbox) -> set[str]:
    connection = connect(Address(sandbox.bootstrap))
    try:
        return {topic.name for topic in connection.client.describe_cluster().topics}
    finally:
        connection.client.close()
