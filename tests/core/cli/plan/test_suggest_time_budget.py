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


def test_budget_runs_by_the_clock_while_no_other_process_uses_the_processor() -> None:
    machine = Machine()
    left = machine.budget(10)
    assert left() == 10
    machine.passes(4, had=4)
    assert left() == pytest.approx(6)


def test_time_before_planning_counts_but_does_not_affect_the_pace() -> None:
    machine = Machine()
    left = machine.budget(10)
    machine.passes(4, had=0)  # waiting for brokers
    assert left() == 6


def test_half_of_the_processor_halves_the_remaining_budget() -> None:
    machine = Machine()
    left = machine.budget(60)
    left()
    machine.passes(20, had=10)
    assert left() == pytest.approx(20, rel=0.05)


def test_brief_initial_wait_for_the_processor_hardly_reduces_the_budget() -> None:
    machine = Machine()
    left = machine.budget(10)
    left()
    machine.passes(0.02, had=0)
    assert left() == pytest.approx(8.3, abs=0.1)


def test_more_processor_time_than_clock_time_does_not_extend_the_budget() -> None:
    machine = Machine()
    left = machine.budget(10)
    left()
    machine.passes(1, had=3)
    assert left() == 9


def test_age_of_a_process_is_the_time_since_its_start() -> None:
    script = "from core.daemons.process import age_seconds; print(age_seconds())"
    begun = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert 0 < float(answer.stdout) <= time.monotonic() - begun + 0.02  # it counts in ticks
