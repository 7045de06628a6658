"""The state-change logs of real brokers, merged, tell the story of a leader that was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from on_kafka import client_with
from waiting import eventually

from core.cluster.kafka.client import KafkaClient
from core.cluster.sandbox.sandbox import Sandbox
from core.watch.statelog.event import LogEvent, LogEventKind
from core.watch.statelog.files import find_log_files
from core.watch.statelog.merge import EventFilter, Merge
from core.watch.statelog.timestamps import TimeZones

TOPIC = "told-by-logs"
KILLED = 4


@pytest.fixture
def topic(sandbox: Sandbox) -> Iterator[KafkaClient]:
    with client_with(sandbox, {TOPIC: [(KILLED, 1, 2), (1, KILLED, 2)]}) as client:
        yield client
        sandbox.start(KILLED)


def topic_events(sandbox: Sandbox) -> list[LogEvent]:
    merge = Merge(find_log_files([sandbox.folder], TimeZones()).sources, EventFilter())
    events = [event for event in merge if event.change.topic == TOPIC]
    assert merge.tally.unknown == 0
    return events


def leads(event: LogEvent, partition: int, epoch: int) -> bool:
    change = event.change
    return (change.kind, change.partition, change.leader_epoch) == (
        LogEventKind.LEADER,
        partition,
        epoch,
    )


def test_state_change_logs_show_the_new_leader_after_a_leader_is_killed(
    sandbox: Sandbox, topic: KafkaClient
) -> None:
    eventually(lambda: any(leads(event, 0, 0) for event in topic_events(sandbox)))
    sandbox.kill(KILLED)
    eventually(lambda: any(leads(event, 0, 1) for event in topic_events(sandbox)))
    story = topic_events(sandbox)
    (first,) = (event for event in story if leads(event, 0, 0))
    (second,) = (event for event in story if leads(event, 0, 1))
    assert (first.broker, first.change.isr) == (KILLED, (KILLED, 1, 2))
    assert second.broker in (1, 2)
    assert set(second.change.isr or ()) == {1, 2}
    assert first.at_ms < second.at_ms
    assert [event.at_ms for event in story] == sorted(event.at_ms for event in story)
    followed = [
        event.change.leader
        for event in story
        if event.change.kind is LogEventKind.FOLLOWER
        and (event.change.partition, event.change.leader_epoch) == (0, 1)
    ]
    assert set(followed) <= {second.broker}
