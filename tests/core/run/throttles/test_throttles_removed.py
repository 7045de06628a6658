"""Throttles that somebody takes away in a rhythm: the rate is kept, or the run pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from clusters import NOON
from hypothesis import given
from hypothesis import strategies as st
from run_help import (
    MB,
    Run,
    Start,
    ask,
    begun_history,
    cluster,
    delete,
    move,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.balancers import STRIMZI, editor_remedy
from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigSource,
    Resource,
)
from core.cluster.metadata import PartitionRow
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run import audit
from core.run.audited_client import audited
from core.run.control import request
from core.run.engine.next_step import next_step
from core.run.journal.held_throttles import BatchThrottles
from core.run.journal.move_state import Outcome, Phase, RunMove
from core.run.journal.rates import RateBounds, RateControl, SideRate
from core.run.journal.records import Kind, Record
from core.run.journal.replay import fold_record
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import RateIntent
from core.run.reporting.views import RunStatus
from core.run.steps import Observation, Poll, Submit
from core.run.throttles.changes import sides
from core.run.throttles.external_removal import AHEAD_SECONDS, begins_within
from core.units import UNLIMITED

T, B3 = Resource.topic("t"), Resource.broker(3)
RATE = 2 * MB
PARTITIONS, SIZE = 40, 10 * MB
SECONDS = PARTITIONS * SIZE / RATE
MOST_RECORDS_PER_MOVE, MOST_RECORDS = 16, 150

Removes = Callable[[SimulatedCluster], None]


def lists(client: SimulatedCluster) -> None:
    delete(client, T, LEADER_LIST, FOLLOWER_LIST)


def rates(client: SimulatedCluster) -> None:
    delete(client, B3, FOLLOWER_RATE, LEADER_RATE)
    for broker in (1, 2):
        delete(client, Resource.broker(broker), LEADER_RATE)


def begun(start: Start, *topics: str, **options: object) -> Run:
    layout = {"t": [(1, 2)] * PARTITIONS, **{topic: [(1,)] for topic in topics}}
    client = cluster(layout, size_bytes=SIZE)
    client.set_speed(25)
    targets = {("t", p): (3, 2) for p in range(PARTITIONS)}
    batches = tuple(tuple(range(at, at + 6)) for at in range(0, PARTITIONS, 6))
    batches = (*batches[:-1], tuple(range(len(batches) * 6 - 6, PARTITIONS)))
    return start(client, targets, rate=RATE, batches=batches, **options)


def play(run: Run, every: float, removes: Removes, *, until: float = 3600) -> float:
    """Let a run go on while somebody takes throttles away; return how long it was at work."""
    client = run.client
    began, due = client.elapsed_seconds, client.elapsed_seconds + every
    while run.state.ended is None and client.elapsed_seconds < began + until:
        run.runner.advance()
        if client.elapsed_seconds >= due:
            removes(client)
            due += every
    return client.elapsed_seconds - began


@pytest.mark.parametrize("removes", [lists, rates])
@pytest.mark.parametrize("every", [20, 120])
def test_run_keeps_its_rate_while_throttles_are_removed_externally(
    start: Start, every: float, removes: Removes
) -> None:
    run = begun(start)
    took = play(run, every, removes)
    run.restores(Outcome.DONE)
    assert took == pytest.approx(SECONDS, rel=0.2)
    assert len(run.journal.records()) < MOST_RECORDS + MOST_RECORDS_PER_MOVE * PARTITIONS


def test_run_is_not_held_back_if_no_throttles_are_removed(start: Start) -> None:
    run = begun(start)
    took = play(run, 3600, lists)
    assert took == pytest.approx(SECONDS, rel=0.2)
    assert not run.state.guarded


@pytest.mark.parametrize("removes", [lists, rates])
def test_rate_of_one_large_partition_is_kept_while_throttles_are_removed(
    start: Start, removes: Removes
) -> None:
    """What came faster is waited out, and it is said why for as long as it lasts."""
    run = start(size_bytes=500 * MB, rate=RATE)
    took = play(run, 20, removes, until=60)
    assert run.state.held_back
    run.restart_process()
    took += play(run, 20, removes, until=140)
    why = run.view().why
    assert why.startswith("somebody takes this run's throttles away")
    assert editor_remedy("") in why
    took += play(run, 20, removes)
    assert run.state.ended is Outcome.DONE
    assert took == pytest.approx(500 * MB / RATE, rel=0.2)
    assert throttles(run.client) == run.found


@pytest.mark.parametrize(
    ("requests", "seconds"),
    [
        ((("throttle", {"rate_bytes_per_s": 10 * MB}),), 120),
        ((("pause", {}), ("resume", {})), 250),
        ((("pause", {"floor": True}), ("resume", {})), 250),
        ((("resume", {}),), 250),
    ],
    ids=["throttle", "pause", "pause on the floor", "resume"],
)
def test_requests_to_a_run_that_is_held_back_do_not_block_it_for_good(
    start: Start, requests: tuple[tuple[str, dict[str, Any]], ...], seconds: float
) -> None:
    run = start(size_bytes=500 * MB, rate=RATE)
    took = play(run, 20, lists, until=60)
    assert run.state.held_back
    for kind, options in requests:
        ask(run, kind, **options)
        took += play(run, 20, lists, until=5)
    took += play(run, 20, lists)
    assert run.state.ended is Outcome.DONE
    assert took == pytest.approx(seconds, rel=0.25)


def test_rate_changed_by_the_operator_does_not_count_as_removed(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    run.until(submitted)
    rates(run.client)
    spend(run, 30)
    assert run.state.removals == 1
    for rate in (9 * MB, 8 * MB, 7 * MB):
        set_config(run.client, B3, FOLLOWER_RATE, str(rate))
        spend(run, 30)
    assert run.state.removals == 1
    assert run.view().state is RunStatus.RUNNING


@pytest.mark.parametrize("every", [4, 12])
def test_throttle_removal_is_reported_from_the_second_time_on(start: Start, every: float) -> None:
    """However soon that comes: what is taken away again was put back in between."""
    run = start(size_bytes=2000 * MB, rate=RATE)
    run.until(submitted)
    lists(run.client)
    spend(run, every)
    assert (run.state.removals, run.view().why) == (1, "")
    lists(run.client)
    spend(run, every)
    assert run.view().why.startswith("somebody takes this run's throttles away")


@pytest.mark.parametrize("removes", [lists, rates])
def test_removed_throttles_are_always_reinstated_but_journalled_ever_more_rarely(
    start: Start, removes: Removes
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=400_000 * MB)
    trail = audited(client, client.describe_cluster().cluster_id, "r")
    run = start(client, {("t", 0): (3, 2)}, rate=RATE, through=trail)
    lines = []
    for _ in range(2):
        play(run, 15, removes, until=900)
        play(run, 3600, removes, until=3)
        assert all(throttles(client)[T][name].value for name in (LEADER_LIST, FOLLOWER_LIST))
        assert throttles(client)[B3][FOLLOWER_RATE].value
        lines.append(sum(1 for _ in audit.read()))
    assert run.state.ended is None
    assert lines[1] - lines[0] <= 20
    kinds = run.kinds
    assert kinds.count(Kind.DISTURBED) <= 16
    assert len(kinds) < 80


@pytest.mark.parametrize("topic", ["strimzi.cruisecontrol.metrics", "__strimzi_store_topic", ""])
def test_likely_remover_of_throttles_and_the_remedy_are_named(start: Start, topic: str) -> None:
    run = begun(start, *([topic] if topic else []), allow=("cruise-control",))
    play(run, 20, lists, until=100)
    (event_text, *_) = [e.text for e in run.view().events if e.kind == Kind.DISTURBED.value]
    assert (STRIMZI in event_text) is bool(topic)
    assert ("strimzi.io/pause-reconciliation" in event_text) is bool(topic)
    waits = [p["why"] for p in run.payloads(Kind.WAITING)]
    assert any("takes this run's throttles away" in why for why in waits)


def test_run_pauses_on_removed_throttles_if_configured_and_can_be_resumed(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    play(run, 20, lists, until=120)
    assert run.view().state is RunStatus.PAUSED
    assert run.view().paused_itself
    moved = sum(m.phase is Phase.DONE for m in run.state.moves)
    assert run.view().why.startswith("somebody takes this run's throttles away: paused")
    play(run, 3600, lists, until=300)
    assert sum(m.phase is Phase.DONE for m in run.state.moves) == moved < PARTITIONS
    request(run.state.cluster_id, run.path.stem, "resume")
    play(run, 3600, lists, until=2)
    assert run.view().state is RunStatus.RUNNING
    play(run, 3600, lists)
    run.restores(Outcome.DONE)


def test_run_that_paused_on_removed_throttles_can_be_rolled_back(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    play(run, 20, lists, until=120)
    assert run.view().why.startswith("somebody takes this run's throttles away: paused")
    assert any(m.phase is Phase.DONE for m in run.state.moves)
    ask(run, "rollback")
    play(run, 3600, lists)
    assert run.view().state is RunStatus.ROLLED_BACK
    assert set(run.replicas().values()) == {(1, 2)}
    assert throttles(run.client) == run.found


def test_lists_repeatedly_overwritten_during_a_run_end_as_found(start: Start) -> None:
    run = begun(start)
    set_config(run.client, T, LEADER_LIST, "99:1")
    before = throttles(run.client)

    def declared(client: SimulatedCluster) -> None:
        set_config(client, T, LEADER_LIST, "99:1")
        delete(client, T, FOLLOWER_LIST)

    play(run, 20, declared)
    assert run.state.ended is Outcome.DONE
    assert throttles(run.client) == before


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
    pauses=st.lists(st.floats(0, 600), min_size=1, max_size=30),
)
def test_moves_begun_in_any_interval_stay_within_the_rate_and_a_quota_window(
    sizes: list[int], pauses: list[float]
) -> None:
    """Whatever a run waits for: nothing is made up for what did not come meanwhile."""
    history, now = guarded(*sizes), 0.0
    begun: list[tuple[float, int]] = []
    for wait in pauses:
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
def test_moves_under_guard_begin_by_the_rate_in_force_on_each_side(
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


def test_backlog_is_counted_at_the_rates_that_were_in_force_over_time() -> None:
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
def test_rate_given_up_in_an_older_journal_is_reinstated_if_it_was_removed(
    value: str | None, due: bool
) -> None:
    """One that was taken away, not one that somebody has set."""
    key = (3, Side.FOLLOWER)
    history = guarded(MB)
    history.throttles.rates[key] = RateIntent(*key, None, ConfigSource.DEFAULT, RATE)
    lost = {"broker": 3, "side": "follower", "prior": value, "source": "BROKER", "mend": False}
    record(history, 5, Kind.DISTURBED, rates=[lost], lists=[])
    assert (key in history.throttles.rates_due) is due


@pytest.mark.parametrize(
    ("in_flight", "long", "begins"),
    [((), (), True), ((0,), (), True), ((0, 1), (), False), ((0, 1), (0,), True)],
    ids=["none", "one", "two", "two, one of them long"],
)
def test_explicit_batches_follow_one_another_under_guard_too(
    in_flight: tuple[int, ...], long: tuple[int, ...], begins: bool
) -> None:
    history = guarded(*[MB] * 4, explicit=True)
    for index in in_flight:
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
