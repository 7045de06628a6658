"""What happens on real brokers is on the timeline a moment later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from waiting import eventually

from core.clock import SystemClock
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.topics import create_topics, delete_topics
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.state import TopicPartition
from core.watch.statelog.sources import find
from core.watch.statelog.zones import parse_zones
from core.watch.timeline.events import Kind
from core.watch.timeline.logged import Logs
from core.watch.timeline.recorder import Recorder
from core.watch.timeline.store import Timeline
from core.watch.timeline.words import told

TOPIC = "watched"


def test_a_topic_that_comes_moves_and_goes_is_told(sandbox: Sandbox, tmp_path: Path) -> None:
    settings = ConnectionSettings(sandbox.bootstrap)
    client = KafkaClient(settings)
    timeline = Timeline.write(tmp_path / "a.timeline")
    recorder = Recorder(client, SystemClock(), timeline)
    began = SystemClock().now()
    recorder.look()
    moved = TopicPartition(TOPIC, 0)
    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: create_topics(settings, {TOPIC: [(1, 2)]}), f"topic {TOPIC} was created"),
        (lambda: client.alter_reassignments({moved: (3, 2)}), f"{moved} "),
        (lambda: delete_topics(settings, [TOPIC]), f"topic {TOPIC} was deleted"),
    ]
    try:
        for change, expected in steps:
            change()
            seen: list[str] = []

            def is_told(expected: str = expected, seen: list[str] = seen) -> bool:
                seen += map(told, recorder.look())
                return any(text.startswith(expected) for text in seen)

            eventually(is_told, 10, every=0.2)
        assert recorder.look() == []
        then = timeline.state_at(SystemClock().now())
    finally:
        timeline.close()
        client.close()
    assert then is not None
    assert then.topic(TOPIC) is None
    here = parse_zones((f"{began.astimezone():%z}",))
    logs = Logs(find([sandbox.folder], here).sources, began, SystemClock().now())
    logs.align()
    leaders = [e for e in logs.events(Kind.LEADER) if e.tp == moved]
    # Two brokers log it in the same millisecond or so: which does first is chance.
    first = "log of broker 1: watched-0 leads from epoch 0"
    assert [e for e in leaders[:2] if told(e).startswith(first)]
    assert {broker for event in leaders for broker in event.brokers} == {1, 2, 3}
