"""`apply --max-extra`: what a broker receives at a time is bounded, through a whole run."""

from __future__ import annotations

from collections import Counter

import pytest
from run_help import MB, Run, Start, cluster, own, plan_of, spend, submitted, throttles

from core.cli.runs.launch import LaunchOptions
from core.cluster.configs import FOLLOWER_LIST, LEADER_LIST, Resource
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.errors import UsageError
from core.load.load import Load
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.throttle_values import entries
from core.run.launch import with_batches
from core.run.options import RunOptions
from core.run.steps import Submit
from core.units import parse_size

COUNT, SIZE, MOST = 6, 20 * MB, 50 * MB


def begun(start: Start, *batches: tuple[int, ...]) -> Run:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(COUNT)})
    return start(client, plan, rate=2 * MB, batches=batches, max_extra_bytes=MOST)


def most_at_a_time(run: Run) -> int:
    """Carry the run on to its end; return the most bytes that one broker was sent at a time."""
    most = 0

    def look(_: object) -> bool:
        nonlocal most
        arriving = Counter(b for r in run.client.fetch_reassignments().values() for b in r.adding)
        most = max(most, *(count * SIZE for count in arriving.values()), 0)
        return run.runner.state.ended is not None

    run.until(look)
    return most


@pytest.mark.parametrize(
    "batches", [(range(COUNT),), ((0, 1), (2, 3), (4, 5))], ids=["one batch", "three"]
)
def test_no_broker_receives_more_than_that_at_a_time(
    start: Start, batches: tuple[tuple[int, ...], ...]
) -> None:
    run = begun(start, *map(tuple, batches))
    assert most_at_a_time(run) == 2 * SIZE <= MOST
    assert run.runner.state.ended is Outcome.DONE
    assert run.view().done == COUNT


def test_nor_on_the_way_back(start: Start) -> None:
    run = begun(start, tuple(range(COUNT)))
    done = lambda: sum(m.phase is Phase.DONE for m in run.runner.state.moves)  # noqa: E731
    run.until(lambda _: done() >= 5)
    run.journal.ask(run.client.now, "rollback", {"who": "ann", "host": "here"})
    assert most_at_a_time(run) <= MOST
    assert run.runner.state.ended is Outcome.CANCELLED


def test_a_larger_move_goes_alone(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=SIZE)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(2)})
    run = start(client, plan, batches=((0, 1),), max_extra_bytes=SIZE // 2)
    first = run.until(lambda step: isinstance(step, Submit))
    assert isinstance(first, Submit)
    assert len(first.moves) == 1
    assert most_at_a_time(run) == SIZE
    assert run.runner.state.ended is Outcome.DONE


T = Resource.topic("t")
LAST = TopicPartition("t", COUNT - 1)


def listed(run: Run) -> set[int]:
    """Return the partitions that the throttle lists name."""
    lists = [own(run.client, T, name) for name in (LEADER_LIST, FOLLOWER_LIST)]
    return {int(pair.split(":")[0]) for value in lists for pair in entries(value)}


def test_only_what_is_submitted_is_listed(start: Start) -> None:
    """From its first byte on, though its process dies at any time."""
    run = begun(start, tuple(range(COUNT)))
    before = throttles(run.client)
    while run.runner.state.ended is None:
        step = run.runner.advance()
        flying = {tp.partition for tp in run.client.fetch_reassignments()}
        if submitted(step):
            assert flying == listed(run) != set()
        assert flying <= listed(run)
        assert len(listed(run)) <= 4, "those that end, and those that are about to begin"
        run.again()
    assert run.runner.state.ended is Outcome.DONE
    assert throttles(run.client) == before


def test_a_follower_of_a_partition_that_waits_comes_back_at_wire_speed(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE, in_bytes_per_s={LAST: MB / 4})
    plan = plan_of(client, {("t", p): (1, 3) for p in range(COUNT)})
    run = start(client, plan, rate=MB, batches=(tuple(range(COUNT)),), max_extra_bytes=MOST)
    run.until(submitted)
    client.stop_broker(2)
    spend(run, 40)
    assert not in_sync(run)
    client.start_broker(2)
    came = run.client.elapsed_seconds
    run.until(lambda _: in_sync(run))
    assert run.client.elapsed_seconds - came < 3
    assert LAST in {run.runner.state.moves[i].move.tp for i in run.runner.state.queued}
    assert run.to_the_end() is Outcome.DONE


def in_sync(run: Run) -> bool:
    state = run.client.describe_cluster()
    index = state.find(LAST)
    return index is not None and 2 in state.row(index).isr


def test_batches_are_cut_by_it() -> None:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=SIZE)
    state = fetch_cluster_state(client)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(COUNT)})
    options = RunOptions(100 * MB, max_extra_bytes=MOST)
    found = with_batches(options, state, Load.unknown(state), plan)
    assert {len(batch) for batch in found.batches} == {2}
    assert options.to_json()["most_extra_bytes"] == MOST
    assert LaunchOptions().max_extra_bytes is None


@pytest.mark.parametrize(
    ("text", "size"), [("50GB", 50_000_000_000), ("1.5 GiB", 1610612736), ("7b", 7)]
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "50", "50GB/s", "0GB", "-1", "many"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Not a size"):
        parse_size(text)
