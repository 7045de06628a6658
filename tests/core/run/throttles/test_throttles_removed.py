"""Throttles that somebody takes away in a rhythm: the rate is kept, or the run pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    delete,
    plan_of,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.balancers import STRIMZI, editor_remedy
from core.cluster.configs import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE, Resource
from core.cluster.simulation.cluster import SimulatedCluster
from core.run import audit
from core.run.audited_client import audited
from core.run.control import request
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.reporting.views import RunStatus

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
    return start(client, plan_of(client, targets), rate=RATE, batches=batches, **options)


def play(run: Run, every: float, removes: Removes, *, until: float = 3600) -> float:
    """Let a run go on while somebody takes throttles away; return how long it was at work."""
    client = run.client
    began, due = client.elapsed_seconds, client.elapsed_seconds + every
    while run.runner.state.ended is None and client.elapsed_seconds < began + until:
        run.runner.advance()
        if client.elapsed_seconds >= due:
            removes(client)
            due += every
    return client.elapsed_seconds - began


@pytest.mark.parametrize("removes", [lists, rates])
@pytest.mark.parametrize("every", [20, 120])
def test_the_rate_is_kept_whoever_takes_throttles_away(
    start: Start, every: float, removes: Removes
) -> None:
    run = begun(start)
    before = throttles(run.client)
    took = play(run, every, removes)
    assert run.runner.state.ended is Outcome.DONE
    assert took == pytest.approx(SECONDS, rel=0.2)
    assert throttles(run.client) == before
    assert len(run.journal.records()) < MOST_RECORDS + MOST_RECORDS_PER_MOVE * PARTITIONS


def test_nothing_is_held_back_where_nobody_takes_anything(start: Start) -> None:
    run = begun(start)
    took = play(run, 3600, lists)
    assert took == pytest.approx(SECONDS, rel=0.2)
    assert not run.runner.state.guarded


@pytest.mark.parametrize("removes", [lists, rates])
def test_the_rate_of_one_large_partition_is_kept(start: Start, removes: Removes) -> None:
    """What came faster is waited out, and it is said why for as long as it lasts."""
    client = cluster({"t": [(1, 2)]}, size_bytes=500 * MB)
    before = throttles(client)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), rate=RATE)
    took = play(run, 20, removes, until=60)
    assert run.runner.state.held_back
    run.again()
    took += play(run, 20, removes, until=140)
    why = run.view().why
    assert why.startswith("somebody takes this run's throttles away")
    assert editor_remedy("") in why
    took += play(run, 20, removes)
    assert run.runner.state.ended is Outcome.DONE
    assert took == pytest.approx(500 * MB / RATE, rel=0.2)
    assert throttles(client) == before


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
def test_what_is_asked_of_a_run_while_it_waits_does_not_hold_it_for_good(
    start: Start, requests: tuple[tuple[str, dict[str, Any]], ...], seconds: float
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=500 * MB)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), rate=RATE)
    took = play(run, 20, lists, until=60)
    assert run.runner.state.held_back
    for kind, options in requests:
        ask(run, kind, **options)
        took += play(run, 20, lists, until=5)
    took += play(run, 20, lists)
    assert run.runner.state.ended is Outcome.DONE
    assert took == pytest.approx(seconds, rel=0.25)


def test_a_rate_that_its_operator_changes_is_none_that_is_taken_away(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    run.until(submitted)
    rates(run.client)
    spend(run, 30)
    assert run.runner.state.removals == 1
    for rate in (9 * MB, 8 * MB, 7 * MB):
        set_config(run.client, B3, FOLLOWER_RATE, str(rate))
        spend(run, 30)
    assert run.runner.state.removals == 1
    assert run.view().state is RunStatus.RUNNING


@pytest.mark.parametrize("every", [4, 12])
def test_it_is_said_from_the_second_time_on(start: Start, every: float) -> None:
    """However soon that comes: what is taken away again was put back in between."""
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), rate=RATE)
    run.until(submitted)
    lists(client)
    spend(run, every)
    assert (run.runner.state.removals, run.view().why) == (1, "")
    lists(client)
    spend(run, every)
    assert run.view().why.startswith("somebody takes this run's throttles away")


@pytest.mark.parametrize("removes", [lists, rates])
def test_mends_have_no_end_but_their_records_grow_ever_more_seldom(
    start: Start, removes: Removes
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=400_000 * MB)
    trail = audited(client, client.describe_cluster().cluster_id, "r")
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), rate=RATE, through=trail)
    lines = []
    for _ in range(2):
        play(run, 15, removes, until=900)
        play(run, 3600, removes, until=3)
        assert all(throttles(client)[T][name].value for name in (LEADER_LIST, FOLLOWER_LIST))
        assert throttles(client)[B3][FOLLOWER_RATE].value
        lines.append(sum(1 for _ in audit.read()))
    assert run.runner.state.ended is None
    assert lines[1] - lines[0] <= 20
    kinds = [record.kind for record in run.journal.records()]
    assert kinds.count(Kind.DISTURBED) <= 16
    assert len(kinds) < 80


@pytest.mark.parametrize("topic", ["strimzi.cruisecontrol.metrics", "__strimzi_store_topic", ""])
def test_who_is_likely_and_what_helps_is_said(start: Start, topic: str) -> None:
    run = begun(start, *([topic] if topic else []), allow=("cruise-control",))
    play(run, 20, lists, until=100)
    (said, *_) = [e.text for e in run.view().events if e.kind == Kind.DISTURBED.value]
    assert (STRIMZI in said) is bool(topic)
    assert ("strimzi.io/pause-reconciliation" in said) is bool(topic)
    waits = [r.payload["why"] for r in run.journal.records() if r.kind is Kind.WAITING]
    assert any("takes this run's throttles away" in why for why in waits)


def test_it_pauses_where_that_was_chosen_and_is_resumed(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    before = throttles(run.client)
    play(run, 20, lists, until=120)
    assert run.view().state is RunStatus.PAUSED
    assert run.view().paused_itself
    moved = sum(m.phase is Phase.DONE for m in run.runner.state.moves)
    assert run.view().why.startswith("somebody takes this run's throttles away: paused")
    play(run, 3600, lists, until=300)
    assert sum(m.phase is Phase.DONE for m in run.runner.state.moves) == moved < PARTITIONS
    request(run.runner.state.cluster_id, run.path.stem, "resume")
    play(run, 3600, lists, until=2)
    assert run.view().state is RunStatus.RUNNING
    play(run, 3600, lists)
    assert run.runner.state.ended is Outcome.DONE
    assert throttles(run.client) == before


def test_one_that_paused_by_itself_can_be_rolled_back(start: Start) -> None:
    run = begun(start, pause_if_removed=True)
    before = throttles(run.client)
    play(run, 20, lists, until=120)
    assert run.view().why.startswith("somebody takes this run's throttles away: paused")
    assert any(m.phase is Phase.DONE for m in run.runner.state.moves)
    ask(run, "rollback")
    play(run, 3600, lists)
    assert run.view().state is RunStatus.ROLLED_BACK
    assert set(run.replicas().values()) == {(1, 2)}
    assert throttles(run.client) == before


def test_lists_are_put_back_as_somebody_left_them(start: Start) -> None:
    run = begun(start)
    set_config(run.client, T, LEADER_LIST, "99:1")
    before = throttles(run.client)

    def declared(client: SimulatedCluster) -> None:
        set_config(client, T, LEADER_LIST, "99:1")
        delete(client, T, FOLLOWER_LIST)

    play(run, 20, declared)
    assert run.runner.state.ended is Outcome.DONE
    assert throttles(run.client) == before
