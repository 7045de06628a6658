"""A wall clock that jumps while a run works: its ages, its flows and its pace do not."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from run_help import MB, Run, Start, cluster, spend

from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run.engine.executor import Executor
from core.run.journal.move_state import Outcome
from core.run.steps import Submit

HOUR = timedelta(hours=1)


class Jumping:
    """The cluster's clock, but the time of day is set by somebody."""

    def __init__(self, client: SimulatedCluster) -> None:
        self._client, self.off = client, timedelta()

    def now(self) -> datetime:
        return self._client.now + self.off

    def monotonic(self) -> float:
        return self._client.elapsed_seconds

    def sleep(self, seconds: float) -> None:
        self._client.clock.sleep(seconds)


def begun(start: Start, **options: object) -> tuple[Run, Jumping]:
    run = start(size_bytes=3000 * MB, **options)
    clock = Jumping(run.client)
    run.runner = Executor(run.journal, run.client, clock)
    return run, clock


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
def test_wall_clock_jump_does_not_distort_the_times_of_samples_and_moves(
    start: Start, jump: timedelta
) -> None:
    run, clock = begun(start)
    run.until(lambda step: isinstance(step, Submit))
    spend(run, 5)
    clock.off = jump
    spend(run, 5)
    steps = [b.at - a.at for a, b in pairwise(run.journal.samples())]
    assert timedelta() < min(steps)
    assert max(steps) < timedelta(seconds=3)
    newest = run.journal.samples()[-1]
    (_, _, _, _, since), *_ = newest.payload["moves"]
    assert 0 <= newest.at.timestamp() - since < 5


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
def test_wall_clock_jump_makes_a_rate_rise_neither_faster_nor_slower(
    start: Start, jump: timedelta
) -> None:
    run, clock = begun(start)
    run.until(lambda step: isinstance(step, Submit))
    spend(run, 3)
    asked = {"rate_bytes_per_s": 50 * MB, "who": "ann", "host": "here"}
    run.journal.ask(clock.now(), "throttle", asked)
    end = run.client.elapsed_seconds + 6
    while run.client.elapsed_seconds < end:
        clock.off += jump
        run.runner.advance()
    rate = run.state.rate_control.rates[3, Side.FOLLOWER].rate_bytes_per_s
    assert 20 * MB < rate <= 35 * MB
    spend(run, 20)
    assert run.state.rate_control.rates[3, Side.FOLLOWER].rate_bytes_per_s == 50 * MB


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
def test_process_started_after_a_clock_jump_continues_after_the_last_record(
    start: Start, jump: timedelta
) -> None:
    run, clock = begun(start)
    run.until(lambda step: isinstance(step, Submit))
    spend(run, 20)
    before = run.view().elapsed_seconds
    clock.off = jump
    run.restart_process()
    run.runner = Executor(run.journal, run.client, clock)
    spend(run, 20)
    times = [r.at for r in run.journal.records()], [s.at for s in run.journal.samples()]
    assert all(list(at) == sorted(at) for at in times)
    view = run.view()
    ahead = max(jump, timedelta()).total_seconds()
    assert before + 10 < view.elapsed_seconds - ahead < before + 40
    assert view.bytes_per_s
    assert view.left_seconds


def test_scheduled_run_begins_by_the_wall_clock(start: Start) -> None:
    run, clock = begun(start, start_at=cluster({"t": [(1, 2)]}).now + HOUR)
    spend(run, 10)
    assert "begins at" in run.state.waiting
    clock.off = HOUR
    run.until(lambda step: isinstance(step, Submit), seconds=60)
    assert run.to_the_end() is Outcome.DONE
