"""What is left of a budget of time for a whole command, while others use the processor too."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from core.cli.plan.suggest import TimeBudget


class Machine:
    """Time by the clock, and what a process has had of the processor."""

    def __init__(self) -> None:
        self.now = self.used = 100.0

    def passes(self, seconds: float, *, had: float) -> None:
        self.now += seconds
        self.used += had

    def budget(self, seconds: float) -> TimeBudget:
        return TimeBudget(seconds, self.now, now=lambda: self.now, used=lambda: self.used)


def test_it_runs_by_the_clock_where_nobody_else_works() -> None:
    machine = Machine()
    left = machine.budget(10)
    assert left() == 10
    machine.passes(4, had=4)
    assert left() == pytest.approx(6)


def test_what_came_before_planning_counts_and_says_nothing_of_the_pace() -> None:
    machine = Machine()
    left = machine.budget(10)
    machine.passes(4, had=0)  # waiting for brokers
    assert left() == 6


def test_who_gets_half_of_the_processor_has_half_of_what_is_left_to_work_with() -> None:
    machine = Machine()
    left = machine.budget(60)
    left()
    machine.passes(20, had=10)
    assert left() == pytest.approx(20, rel=0.05)


def test_a_moment_without_the_processor_at_first_says_little() -> None:
    machine = Machine()
    left = machine.budget(10)
    left()
    machine.passes(0.02, had=0)
    assert left() == pytest.approx(8.3, abs=0.1)


def test_a_thread_that_got_more_than_the_clock_shows_has_no_more_than_that() -> None:
    machine = Machine()
    left = machine.budget(10)
    left()
    machine.passes(1, had=3)
    assert left() == 9


def test_a_process_knows_how_long_ago_it_was_started() -> None:
    script = "from core.daemons.process import age_seconds; print(age_seconds())"
    begun = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert 0 < float(answer.stdout) <= time.monotonic() - begun + 0.02  # it counts in ticks
