"""The watch over groups beside the recorder: what it tells the timeline, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusters import tp

from core.cluster.client import ClusterClient
from core.cluster.groups import ActiveGroups, Group, Member
from core.cluster.kafka_errors import Fault
from core.errors import AccessDeniedError, TrimtabError, UnreachableError
from core.watch.timeline import group_changes as group_watch
from core.watch.timeline.events import Kind, Note
from core.watch.timeline.group_changes import (
    DENIED_SECONDS,
    RETRY_SECONDS,
    GroupEvents,
    watch_groups,
    watch_in_thread,
)
from core.watch.timeline.publisher import Publisher
from core.watch.timeline.store import Timeline


class Time:
    """A clock that goes on only when somebody sleeps, or works."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 3, tzinfo=UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class ScriptedGroups:
    """A cluster that answers one look after another, each after so many seconds."""

    def __init__(self, clock: Time, answers: Iterator[ActiveGroups | TrimtabError]) -> None:
        self.clock, self.answers, self.seconds = clock, answers, 0.0
        self.at: list[float] = []

    def describe_active_groups(self, most: int) -> ActiveGroups:
        self.at.append(self.clock.at)
        self.clock.at += self.seconds
        answer = next(self.answers)
        if isinstance(answer, TrimtabError):
            raise answer
        return answer


def group(*members: str, id: str = "g") -> Group:
    return Group(
        id,
        "stable",
        "range",
        1,
        tuple(Member(m, m, "/h", (tp(f"t-{n}"),)) for n, m in enumerate(members)),
        {},
    )


def groups_of(*groups: Group, **more: Any) -> ActiveGroups:
    return ActiveGroups(groups, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "of.timeline"


def watch(
    path: Path, answers: Sequence[ActiveGroups | TrimtabError], seconds: float = 0.0
) -> ScriptedGroups:
    """Watch until there is no answer left."""
    clock = Time()
    scripted = ScriptedGroups(clock, iter(answers))
    scripted.seconds = seconds
    with Publisher("of", path) as publisher:
        watch = GroupEvents(cast(ClusterClient, scripted), clock, publisher)
        watch_groups(watch, clock, lambda: len(scripted.at) < len(answers))
    return scripted


def events(path: Path) -> list[str]:
    timeline = Timeline.read(path)
    try:
        notes = list(timeline.notes(kinds=Kind.GROUP))
    finally:
        timeline.close()
    return [f"{e.after.by}: {e.after.text}" for e in notes if isinstance(e.after, Note)]


def test_rebalances_of_a_group_are_recorded_on_the_timeline(path: Path) -> None:
    watch(
        path,
        [
            groups_of(),
            groups_of(group("a")),
            groups_of(group("a", "b")),
            groups_of(group("a", "b")),
            groups_of(),
        ],
    )
    assert events(path) == [
        "group g: was assigned: 1 member, 1 partition",
        "group g: rebalanced: 2 members, 1+1 partitions; b joined",
        "group g: lost its last member",
    ]


def test_error_in_the_group_watch_thread_is_raised_in_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the reader of what `tell` prints has gone."""
    monkeypatch.setattr(group_watch, "POLL_SECONDS", 0.01)
    scripted = ScriptedGroups(Time(), iter([groups_of(), groups_of(group("a"))]))

    def report(_: object) -> None:
        raise BrokenPipeError

    def watched() -> None:
        with watch_in_thread(cast(ClusterClient, scripted), "of", lambda: True, report) as going:
            until = time.monotonic() + 30
            while going():
                assert time.monotonic() < until
                time.sleep(0.01)

    with pytest.raises(BrokenPipeError):
        watched()


def test_group_event_has_its_topic_and_the_time_of_its_poll(path: Path) -> None:
    watch(path, [groups_of(), groups_of(group("a"))])
    timeline = Timeline.read(path)
    (event,) = timeline.notes()
    timeline.close()
    assert (event.topic, event.at.second) == ("t", 1)


def test_groups_missing_from_an_incomplete_answer_are_not_reported_as_gone(path: Path) -> None:
    group_a, other = group("a"), group("b", id="h")
    answers = [
        groups_of(group_a, other),
        groups_of(group_a, is_complete=False),
        groups_of(group_a, omitted_count=1),
        groups_of(group_a, other),
    ]
    watch(path, answers)
    assert events(path) == ["recorder: left out 1 of 2 groups with members"]


def test_departed_group_is_reported_and_replaced_when_groups_exceed_the_limit(path: Path) -> None:
    many = groups_of(group("a", id="f"), group("b", id="h"), omitted_count=3)
    answers = [
        many,
        # f goes, i is looked at now
        groups_of(group("b", id="h"), group("c", id="i"), omitted_count=2),
        many,  # f comes back, and i is left out again
        groups_of(group("a", id="f"), group("b", id="h"), group("d", id="i")),
        groups_of(group("a", id="f"), group("b", id="h"), group("d", "e", id="i")),
    ]
    watch(path, answers)
    assert events(path) == [
        "recorder: left out 3 of 5 groups with members",
        "group f: lost its last member",
        "group f: was assigned: 1 member, 1 partition",
        "group i: rebalanced: 2 members, 1+1 partitions; e joined",
    ]


def test_groups_are_polled_less_often_when_a_poll_is_slow(path: Path) -> None:
    none = [groups_of()] * 3
    assert watch(path, none, seconds=0.05).at == pytest.approx([0, 1, 2])
    assert watch(path, none, seconds=0.5).at == pytest.approx([0, 5.5, 11])


def test_failed_poll_of_groups_is_retried_and_no_rebalance_is_lost(path: Path) -> None:
    lost, denied = UnreachableError("nobody"), AccessDeniedError("no")
    answers = [groups_of(group("a")), lost, denied, groups_of(replace(group("a", "b")))]
    assert watch(path, answers).at == [0, 1, 1 + RETRY_SECONDS, 1 + RETRY_SECONDS + DENIED_SECONDS]
    assert events(path) == [
        "recorder: could not read consumer groups: no",
        "recorder: could read consumer groups again",
        "group g: rebalanced: 2 members, 1+1 partitions; b joined",
    ]


def test_denied_access_to_groups_is_reported_once(path: Path) -> None:
    watch(path, [AccessDeniedError("no"), UnreachableError("nobody"), AccessDeniedError("no")])
    assert events(path) == ["recorder: could not read consumer groups: no"]


def test_share_groups_without_known_assignments_are_reported_as_they_come_and_go() -> None:
    share = Group("work", "stable", "", 1, (), {}, protocol="share", fault=Fault("NO"))
    looks = [(), (share,), (share,), ()]
    event_texts: list[str] = []
    clock = Time()
    answers = (ActiveGroups((), other_groups=others) for others in looks)
    publisher = SimpleNamespace(
        publish_all=lambda events: event_texts.extend(e.after.text for e in events)
    )
    watch = GroupEvents(
        cast(ClusterClient, ScriptedGroups(clock, answers)), clock, cast(Publisher, publisher)
    )
    for _ in looks:
        watch.look()
    assert event_texts == [
        "share group has members; what they read is not known",
        "share group lost its last member",
    ]
