"""When the next batch begins while the one before is in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    own,
    plan_of,
    set_config,
    spend,
    submitted,
)

from core.cli.runs.launch import LaunchOptions
from core.cluster.configs import FOLLOWER_LIST, LEADER_LIST, Resource
from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.load import Load
from core.plan.batch_schedule import WINDOW_SECONDS
from core.plan.batches import BatchInput
from core.plan.plan import Move, Plan
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.throttle_values import entries, joined
from core.run.launch import with_batches
from core.run.options import RunOptions
from core.run.steps import Step, Submit
from core.run.throttles.changes import batch_lists

SIZES = {0: 400, 1: 20, 2: 20}
"""In MB; the first takes minutes, the others seconds."""


def start_in_batches(start: Start, sizes: dict[int, int] = SIZES, **options: Any) -> Run:
    """Each partition is a batch, to a broker of its own."""
    client = cluster(
        {"t": [(1, 2), (2, 1), (1, 2)]},
        size_bytes={TopicPartition("t", p): size * MB for p, size in sizes.items()},
    )
    return start(
        client,
        {("t", 0): (1, 3), ("t", 1): (2, 4), ("t", 2): (1, 5)},
        rate=2 * MB,
        batches=((0,), (1,), (2,)),
        **options,
    )


def beginnings(run: Run) -> dict[int, tuple[float, frozenset[int]]]:
    """Carry the run to its end; return when each move began, and what was in flight then."""
    start_by_move = {}
    while run.state.ended is None:
        flying = frozenset(run.state.in_flight)
        step = run.runner.advance()
        if isinstance(step, Submit):
            start_by_move |= dict.fromkeys(step.moves, (run.client.elapsed_seconds, flying))
    return start_by_move


def test_next_batch_joins_the_one_in_flight_once_that_has_had_a_window(start: Start) -> None:
    run = start_in_batches(start)
    began = beginnings(run)
    assert run.state.ended is Outcome.DONE
    assert {index: flying for index, (_, flying) in began.items()} == {0: set(), 1: {0}, 2: {0}}
    assert WINDOW_SECONDS <= began[1][0] - began[0][0] < WINDOW_SECONDS + 5
    assert began[2][0] - began[1][0] >= WINDOW_SECONDS


@pytest.mark.parametrize(("long", "in_flight_with"), [(set(), {1}), ({0}, {0, 1})])
def test_third_batch_joins_two_in_flight_only_if_one_of_them_is_long(
    start: Start, long: set[int], in_flight_with: set[int]
) -> None:
    run = start_in_batches(start, {0: 60, 1: 300, 2: 20}, long=frozenset(long))
    assert beginnings(run)[2][1] == in_flight_with
    assert run.state.ended is Outcome.DONE


@pytest.mark.parametrize("paused", [True, False])
def test_a_pause_lets_no_further_batch_begin(start: Start, paused: bool) -> None:
    run = start_in_batches(start)
    run.until(lambda step: isinstance(step, Submit))
    if paused:
        run.journal.ask(run.client.now, "pause", {"who": "ann", "host": "here"})
    end = run.client.elapsed_seconds + WINDOW_SECONDS + 10
    while run.client.elapsed_seconds < end:
        run.runner.advance()
    assert run.state.moves[1].phase.in_flight is not paused


PARTITIONS = 6


def begun_in_batches(start: Start, *batches: tuple[int, ...]) -> Run:
    client = cluster({"t": [(1, 2)] * PARTITIONS}, size_bytes=4 * MB)
    return start(
        client, {("t", p): (1, 3) for p in range(PARTITIONS)}, rate=1 * MB, batches=batches
    )


def submissions(run: Run) -> list[set[int]]:
    """Carry the run on to its end; return which partitions are submitted together."""
    batches: list[set[int]] = []

    def record_submission(step: Step) -> bool:
        if isinstance(step, Submit):
            moves = run.state.moves
            batches.append({moves[index].move.tp.partition for index in step.moves})
        return run.state.ended is not None

    run.until(record_submission)
    return batches


def test_a_roll_back_goes_batch_by_batch_as_the_run_did(start: Start) -> None:
    run = begun_in_batches(start, (0,), (1, 2), (3, 4), (5,))
    run.until(lambda step: run.state.moves[4].phase is Phase.DONE)
    ask(run, "rollback")
    assert submissions(run) in ([{0}, {1, 2}, {3, 4}], [{0}, {1, 2}, {3, 4}, {5}])
    assert run.state.ended is Outcome.CANCELLED
    assert set(run.replicas().values()) == {(1, 2)}


def test_retried_moves_go_batch_by_batch_as_originally_planned(start: Start) -> None:
    run = begun_in_batches(start, (0,), (1, 2), (3, 4), (5,))
    ask(run, "skip", moves=[1, 2, 3, 5])
    run.until(lambda step: isinstance(step, Submit))
    ask(run, "retry", moves=[5, 1, 3, 2])
    again = submissions(run)
    assert run.state.ended is Outcome.DONE
    assert again == [{4}, {1, 2}, {3}, {5}]


SECONDS = 3


def two_leaders() -> SimulatedCluster:
    """Return a cluster in which brokers 1 and 2 lead eight partitions each."""
    client = cluster({"t": [(1 + i % 2,) for i in range(16)]})
    client.advance(20)
    return client


def all_to_3(client: SimulatedCluster) -> Plan:
    return plan_of(client, {("t", i): (3,) for i in range(16)})


def arrived_bytes(client: SimulatedCluster, moves: Sequence[Move], rate: int) -> int:
    """Submit these moves, throttled; return what is on broker 3 a little later."""
    for (topic, side), pairs in batch_lists(moves).items():
        for broker in {b for move in moves for b in (*move.before, *move.after)}:
            set_config(client, Resource.broker(broker), side.rate_config, str(rate))
        set_config(client, Resource.topic(topic), side.list_config, joined(pairs))
    client.alter_reassignments({move.tp: move.after for move in moves})
    client.advance(SECONDS)
    (logs,) = client.describe_log_dirs([3])
    return sum(log.size_bytes for log in logs.replicas)


@pytest.mark.parametrize("rate", [2 * MB, 3 * MB, 5 * MB, 10 * MB, 30 * MB])
def test_first_batch_brings_at_most_four_seconds_of_the_rate_in_three_seconds(rate: int) -> None:
    client = two_leaders()
    plan = all_to_3(client)
    state = with_log_dirs(client.describe_cluster(), client.describe_log_dirs(range(1, 7)))

    batches = (
        BatchInput.of(state, Load.unknown(state), plan).in_batches(rate_bytes_per_s=rate).batches
    )

    first = [plan.moves[i] for i in batches[0]]
    assert 0 < arrived_bytes(client, first, rate) <= 4 * rate


COUNT, SIZE, MOST = 6, 20 * MB, 50 * MB


def begun_bounded(start: Start, *batches: tuple[int, ...]) -> Run:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE)
    return start(
        client,
        {("t", p): (1, 3) for p in range(COUNT)},
        rate=2 * MB,
        batches=batches,
        max_extra_bytes=MOST,
    )


def most_at_a_time(run: Run) -> int:
    """Carry the run on to its end; return the most bytes that one broker was sent at a time."""
    most = 0

    def look(_: object) -> bool:
        nonlocal most
        arriving = Counter(b for r in run.client.fetch_reassignments().values() for b in r.adding)
        most = max(most, *(count * SIZE for count in arriving.values()), 0)
        return run.state.ended is not None

    run.until(look)
    return most


@pytest.mark.parametrize(
    "batches", [(range(COUNT),), ((0, 1), (2, 3), (4, 5))], ids=["one batch", "three"]
)
def test_no_broker_receives_more_than_the_extra_bytes_limit_at_a_time(
    start: Start, batches: tuple[tuple[int, ...], ...]
) -> None:
    run = begun_bounded(start, *map(tuple, batches))
    assert most_at_a_time(run) == 2 * SIZE <= MOST
    assert run.state.ended is Outcome.DONE
    assert run.view().done == COUNT


def test_rollback_sends_no_broker_more_than_the_extra_bytes_limit_at_a_time(start: Start) -> None:
    run = begun_bounded(start, tuple(range(COUNT)))
    done = lambda: sum(m.phase is Phase.DONE for m in run.state.moves)  # noqa: E731
    run.until(lambda _: done() >= 5)
    run.journal.ask(run.client.now, "rollback", {"who": "ann", "host": "here"})
    assert most_at_a_time(run) <= MOST
    assert run.state.ended is Outcome.CANCELLED


def test_move_larger_than_the_extra_bytes_limit_goes_alone(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)] * 2}, size_bytes=SIZE),
        {("t", p): (1, 3) for p in range(2)},
        batches=((0, 1),),
        max_extra_bytes=SIZE // 2,
    )
    first = run.until(lambda step: isinstance(step, Submit))
    assert isinstance(first, Submit)
    assert len(first.moves) == 1
    assert most_at_a_time(run) == SIZE
    assert run.state.ended is Outcome.DONE


TOPIC = Resource.topic("t")
LAST = TopicPartition("t", COUNT - 1)


def listed(run: Run) -> set[int]:
    """Return the partitions that the throttle lists name."""
    lists = [own(run.client, TOPIC, name) for name in (LEADER_LIST, FOLLOWER_LIST)]
    return {int(pair.split(":")[0]) for value in lists for pair in entries(value)}


def test_throttle_lists_name_only_partitions_that_are_submitted(start: Start) -> None:
    """From its first byte on, though its process dies at any time."""
    run = begun_bounded(start, tuple(range(COUNT)))
    while run.state.ended is None:
        step = run.runner.advance()
        flying = {tp.partition for tp in run.client.fetch_reassignments()}
        if submitted(step):
            assert flying == listed(run) != set()
        assert flying <= listed(run)
        assert len(listed(run)) <= 4, "those that end, and those that are about to begin"
        run.restart_process()
    run.restores(Outcome.DONE)


def test_restarted_follower_of_a_queued_partition_catches_up_unthrottled(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE, in_bytes_per_s={LAST: MB / 4}),
        {("t", p): (1, 3) for p in range(COUNT)},
        rate=MB,
        batches=(tuple(range(COUNT)),),
        max_extra_bytes=MOST,
    )
    run.until(submitted)
    run.client.stop_broker(2)
    spend(run, 40)
    assert not in_sync(run)
    run.client.start_broker(2)
    came = run.client.elapsed_seconds
    run.until(lambda _: in_sync(run))
    assert run.client.elapsed_seconds - came < 3
    assert LAST in {run.state.moves[i].move.tp for i in run.state.queued}
    assert run.to_the_end() is Outcome.DONE


def in_sync(run: Run) -> bool:
    state = run.client.describe_cluster()
    index = state.find(LAST)
    return index is not None and 2 in state.row(index).isr


def test_batches_are_cut_by_the_extra_bytes_limit() -> None:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE)
    state = fetch_cluster_state(client)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(COUNT)})
    options = RunOptions(100 * MB, max_extra_bytes=MOST)
    batched_options = with_batches(options, state, Load.unknown(state), plan)
    assert {len(batch) for batch in batched_options.batches} == {2}
    assert options.to_json()["most_extra_bytes"] == MOST
    assert LaunchOptions().max_extra_bytes is None
