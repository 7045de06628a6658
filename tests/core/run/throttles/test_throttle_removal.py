"""Which moves of a run may begin while somebody keeps removing its throttles."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_help import MB, begun_history, move

from core.cluster.configs import ConfigSource
from core.cluster.metadata import PartitionRow
from core.plan.copies import Side
from core.run.engine.next_step import next_step
from core.run.journal.held_throttles import BatchThrottles
from core.run.journal.move_state import Phase, RunMove
from core.run.journal.rates import RateBounds, RateControl, SideRate
from core.run.journal.records import Kind, Record
from core.run.journal.replay import fold_record
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import RateIntent
from core.run.steps import Observation, Poll, Submit
from core.run.throttles.changes import sides
from core.run.throttles.external_removal import AHEAD_SECONDS, begins_within
from core.units import UNLIMITED

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RATE = 2 * MB


def guarded(*sizes: int, **more: Any) -> RunState:
    """Return a run with one move from broker 1 to broker 3 for each of these sizes, guarded."""
    moves = [
        RunMove(move("t", p, (1, 2), (3, 2)), batch=p, size_bytes=size, leader=1)
        for p, size in enumerate(sizes)
    ]
    options = {"moves": moves, "batch_size": 1, "guarded_since": NOON, **more}
    return begun_history(RATE, NOON, **options)


def record(history: RunState, at: float, what: Kind, /, **payload: Any) -> None:
    fold_record(history, Record(0, NOON + timedelta(seconds=at), what, payload))


def submit(history: RunState, at: float, *moves: int) -> None:
    record(history, at, Kind.SUBMITTING, moves=list(moves))


def may_begin(history: RunState, at: float) -> tuple[int, ...]:
    queued = tuple(history.queued)
    return begins_within(history, NOON + timedelta(seconds=at), queued)


@given(
    sizes=st.lists(st.integers(0, 60 * MB), min_size=1, max_size=20),
    waits=st.lists(st.floats(0, 600), min_size=1, max_size=30),
)
def test_in_no_time_more_begins_than_a_rate_and_a_quota_window_bring(
    sizes: list[int], waits: list[float]
) -> None:
    """Whatever a run waits for: nothing is made up for what did not come meanwhile."""
    history, now = guarded(*sizes), 0.0
    begun: list[tuple[float, int]] = []
    for wait in waits:
        now += wait
        moves = may_begin(history, now)
        submit(history, now, *moves)
        begun += [(now, sizes[index]) for index in moves]
    for first, (since, _) in enumerate(begun):
        for last in range(first, len(begun)):
            until, newest = begun[last]
            before = sum(size for _, size in begun[first : last + 1]) - newest
            assert before <= RATE * (until - since + AHEAD_SECONDS) + 1 + 1e-3 * RATE


@pytest.mark.parametrize(
    ("now", "moves"),
    [(0, 2), (7.9, 2), (8.1, 3), (18.1, 4), (3600, 2 + 2)],
    ids=["at once", "too early", "one is due", "another is due", "a long wait earns nothing"],
)
def test_moves_begin_as_the_rate_allows(now: float, moves: int) -> None:
    history = guarded(*[20 * MB] * 9)
    submit(history, 0, *may_begin(history, 0))
    if now:
        submit(history, now, *may_begin(history, now))
    assert len(history.in_flight) == moves


ADAPTIVE: dict[str, Any] = {
    "rate_control": RateControl(50 * MB, RateBounds(MB, 50 * MB)),
    "rate_bytes_per_s": 50 * MB,
}


@pytest.mark.parametrize(
    ("rate_control", "rate"),
    [
        (ADAPTIVE, MB),
        (ADAPTIVE | {"in_force": 10 * MB}, 10 * MB),
        (ADAPTIVE | {"in_force": UNLIMITED}, 50 * MB),
        ({}, RATE),
        ({"in_force": MB // 2, "kept": True}, MB // 2),
        ({"in_force": 1}, RATE),
        (ADAPTIVE | {"in_force": 1}, MB),
    ],
    ids=[
        "adaptive, none set",
        "adaptive",
        "adaptive, theirs",
        "fixed",
        "fixed, a lower one kept",
        "fixed, on its way from the floor",
        "adaptive, on its way from the floor",
    ],
)
def test_a_side_is_held_to_the_rate_that_is_in_force(
    rate_control: dict[str, Any], rate: int
) -> None:
    """An adaptive run's greatest rate is not what it goes at."""
    more = dict(rate_control)
    in_force, kept = more.pop("in_force", None), more.pop("kept", False)
    history = guarded(*[MB] * 900, **more)
    if in_force is not None:
        sides = ((1, Side.LEADER), (3, Side.FOLLOWER))
        for key in sides if kept else ():
            history.throttles.rates[key] = RateIntent(
                *key, str(in_force), ConfigSource.BROKER, None
            )
        rates = {key: SideRate(in_force, NOON) for key in sides}
        history.rate_control = replace(history.rate_control, rates=rates)
    begun = len(may_begin(history, 0)) * MB
    assert AHEAD_SECONDS * rate <= begun <= AHEAD_SECONDS * rate + MB


def test_what_is_to_come_is_counted_at_the_rates_that_were_in_force() -> None:
    history = guarded(*[20 * MB] * 9, rate_bytes_per_s=8 * MB, rate_control=RateControl(8 * MB))
    submit(history, 0, 0, 1, 2, 3)
    record(history, 5, Kind.REQUEST, seq=1, kind="throttle", rate_bytes_per_s=MB)
    key, now = (3, Side.FOLLOWER), NOON + timedelta(seconds=15)
    left = history.backlog.left_bytes(key, history.rate_in_force(key), now)
    assert left == (80 - 5 * 8 - 10 * 1) * MB
    cancelled = {"index": 3, "phase": Phase.CANCELLED.value, "why": "", "leader": None}
    record(history, 15, Kind.MOVED, moves=[cancelled], stop="")
    assert history.backlog.left_bytes(key, MB, now) == left - 20 * MB


@pytest.mark.parametrize(("value", "due"), [(None, True), ("3000000", False)])
def test_a_rate_that_an_older_journal_gave_up_is_put_back(value: str | None, due: bool) -> None:
    """One that was taken away, not one that somebody has set."""
    key = (3, Side.FOLLOWER)
    history = guarded(MB)
    history.throttles.rates[key] = RateIntent(*key, None, ConfigSource.DEFAULT, RATE)
    lost = {"broker": 3, "side": "follower", "prior": value, "source": "BROKER", "mend": False}
    record(history, 5, Kind.DISTURBED, rates=[lost], lists=[])
    assert (key in history.throttles.rates_due) is due


@pytest.mark.parametrize(
    ("flying", "long", "begins"),
    [((), (), True), ((0,), (), True), ((0, 1), (), False), ((0, 1), (0,), True)],
    ids=["none", "one", "two", "two, one of them long"],
)
def test_batches_that_were_asked_for_follow_one_another_under_guard_too(
    flying: tuple[int, ...], long: tuple[int, ...], begins: bool
) -> None:
    history = guarded(*[MB] * 4, explicit=True)
    for index in flying:
        history.moves[index].phase, history.moves[index].long = Phase.SUBMITTED, index in long
    history.moves[3].phase = Phase.DONE
    for m in history.moves:
        m.limited = True
    history.throttles.batches = {b: BatchThrottles((), (), set=True) for b in range(4)}
    kept = (
        RateIntent(b, s, "50", ConfigSource.BROKER, None) for b, s in sides(history.moves[0].move)
    )
    history.throttles.rates = {(rate.broker, rate.side): rate for rate in kept}
    rows = {
        m.move.tp: PartitionRow("t", m.move.tp.partition, 1, (1, 2), (1, 2)) for m in history.moves
    }
    step = next_step(history, Observation({}, rows, frozenset(range(1, 5)), {}, now=NOON))
    assert isinstance(step, Submit if begins else Poll), step
