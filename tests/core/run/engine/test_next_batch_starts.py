"""When the next batch begins while the one before is in flight."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Run, Start, cluster, plan_of

from core.cluster.metadata import TopicPartition
from core.plan.batch_schedule import WINDOW_SECONDS
from core.run.journal.move_state import Outcome
from core.run.steps import Submit

SIZES = {0: 400, 1: 20, 2: 20}
"""In MB; the first takes minutes, the others seconds."""


def begun(start: Start, sizes: dict[int, int] = SIZES, **options: Any) -> Run:
    """Each partition is a batch, to a broker of its own."""
    client = cluster(
        {"t": [(1, 2), (2, 1), (1, 2)]},
        size_bytes={TopicPartition("t", p): size * MB for p, size in sizes.items()},
    )
    plan = plan_of(client, {("t", 0): (1, 3), ("t", 1): (2, 4), ("t", 2): (1, 5)})
    return start(client, plan, rate=2 * MB, batches=((0,), (1,), (2,)), **options)


def beginnings(run: Run) -> dict[int, tuple[float, frozenset[int]]]:
    """Carry the run to its end; return when each move began, and what was in flight then."""
    found = {}
    while run.runner.state.ended is None:
        flying = frozenset(run.runner.state.in_flight)
        step = run.runner.advance()
        if isinstance(step, Submit):
            found |= dict.fromkeys(step.moves, (run.client.elapsed_seconds, flying))
    return found


def test_one_batch_may_fly_beside_another_once_that_has_flown_for_a_window(start: Start) -> None:
    run = begun(start)
    began = beginnings(run)
    assert run.runner.state.ended is Outcome.DONE
    assert {index: flying for index, (_, flying) in began.items()} == {0: set(), 1: {0}, 2: {0}}
    assert WINDOW_SECONDS <= began[1][0] - began[0][0] < WINDOW_SECONDS + 5
    assert began[2][0] - began[1][0] >= WINDOW_SECONDS


@pytest.mark.parametrize(("long", "beside"), [(set(), {1}), ({0}, {0, 1})])
def test_a_third_batch_flies_only_beside_what_is_long(
    start: Start, long: set[int], beside: set[int]
) -> None:
    run = begun(start, {0: 60, 1: 300, 2: 20}, long=frozenset(long))
    assert beginnings(run)[2][1] == beside
    assert run.runner.state.ended is Outcome.DONE


@pytest.mark.parametrize("paused", [True, False])
def test_a_pause_lets_no_further_batch_begin(start: Start, paused: bool) -> None:
    run = begun(start)
    run.until(lambda step: isinstance(step, Submit))
    if paused:
        run.journal.ask(run.client.now, "pause", {"who": "ann", "host": "here"})
    end = run.client.elapsed_seconds + WINDOW_SECONDS + 10
    while run.client.elapsed_seconds < end:
        run.runner.advance()
    assert run.runner.state.moves[1].phase.in_flight is not paused
