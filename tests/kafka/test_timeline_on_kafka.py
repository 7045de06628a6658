"""What happens on real brokers is on the timeline a moment later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import eventually

from core.clock import SystemClock
from core.cluster.configs import LEADER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.watch.statelog.files import find_log_files
from core.watch.statelog.timestamps import parse_zones
from core.watch.timeline import event_sources as throttle_news
from core.watch.timeline.events import Event, Kind, Replicas
from core.watch.timeline.log_events import LogEvents
from core.watch.timeline.recorder import Recorder
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event
from tests.sandbox_data import delete_topics

TOPIC = "watched"


def test_creation_reassignment_and_deletion_of_a_topic_are_recorded(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    settings = ConnectionSettings(sandbox.bootstrap)
    client = KafkaClient(settings)
    timeline = Timeline.write(tmp_path / "a.timeline")
    recorder = Recorder(client, SystemClock(), timeline)
    began = SystemClock().now()
    recorder.look()
    moved = TopicPartition(TOPIC, 0)

    def at_its_target(event: Event) -> bool:
        after = event.after if event.tp == moved else None
        return isinstance(after, Replicas) and after == Replicas(after.leader, (3, 2), (3, 2))

    steps: list[tuple[Callable[[], object], Callable[[Event], bool]]] = [
        (
            lambda: create_topics(settings, {TOPIC: [(1, 2)]}),
            lambda event: format_event(event) == f"topic {TOPIC} was created",
        ),
        (lambda: client.alter_reassignments({moved: (3, 2)}), at_its_target),
        (
            lambda: delete_topics(settings, [TOPIC]),
            lambda event: format_event(event) == f"topic {TOPIC} was deleted",
        ),
    ]

    def at_rest() -> bool:
        """A look may ask a broker that has not heard of the deletion yet, and the next another."""
        new = recorder.look()
        then = timeline.state_at(SystemClock().now())
        return new == [] and then is not None and then.topic(TOPIC) is None

    try:
        for change, wanted in steps:
            change()

            def is_recorded(expected: Callable[[Event], bool] = wanted) -> bool:
                return any(map(expected, recorder.look()))

            eventually(is_recorded, every=0.2)
        eventually(at_rest, every=0.2)
    finally:
        timeline.close()
        client.close()
    here = parse_zones((f"{began.astimezone():%z}",))

    def logged() -> list[Event]:
        logs = LogEvents(find_log_files([sandbox.folder], here).sources, began, SystemClock().now())
        logs.align()
        return [e for e in logs.events(Kind.LEADER) if e.tp == moved]

    eventually(lambda: {b for event in logged() for b in event.brokers} == {1, 2, 3})
    leaders = logged()
    # Two brokers log it in the same millisecond or so: which does first is chance.
    first = "log of broker 1: watched-0 leads from epoch 0"
    assert [e for e in leaders[:2] if format_event(e).startswith(first)]


def test_throttle_set_and_removed_by_another_client_is_recorded(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle_news, "THROTTLES_SECONDS", 0.0)
    client = KafkaClient(ConnectionSettings(sandbox.bootstrap))
    state = client.describe_cluster()
    news = throttle_news.ThrottleEvents(client, state.cluster_id, SystemClock())
    news.news(state)
    two = Resource.broker(2)

    def is_recorded(expected: str) -> Callable[[], bool]:
        return lambda: f"broker 2: {LEADER_RATE} {expected}" in map(format_event, news.news(state))

    try:
        for op, value, wanted in (
            (ConfigOp.SET, "1000000", "set to 1.0 MB/s"),
            (ConfigOp.DELETE, None, "is set no more"),
        ):
            assert client.alter_configs([ConfigChange(two, LEADER_RATE, op, value)]) == {two: None}
            eventually(is_recorded(wanted), every=0.2)
    finally:
        client.close()
