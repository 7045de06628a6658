"""A budget of time: the best plan so far, in time, and with time left to tell it."""

from __future__ import annotations

import numpy as np
import pytest
from bench.skewed import Shape, skewed

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.planner import plan_request as request
from core.plan.planner.model.measures import LEADER_MEASURES, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import PlanResult
from core.plan.planner.planner import suggest_plan


class Hourglass:
    """A clock that runs by being looked at: one grain a look."""

    def __init__(self, grains: int) -> None:
        self.left = grains

    def __call__(self) -> float:
        self.left -= 1
        return float(self.left)


@pytest.fixture(scope="module")
def uneven() -> tuple[ClusterState, Load]:
    return skewed(Shape(20, 4_000, "skew"))


@pytest.fixture(scope="module")
def clock_reads(uneven: tuple[ClusterState, Load]) -> int:
    """How often the clock is looked at when there is time for everything."""
    glass = Hourglass(1 << 40)
    suggest_plan(*uneven, PlanRequest(limits=Limits(seconds_left=glass)))
    return (1 << 40) - glass.left


def off(suggestion: PlanResult, loads: np.ndarray) -> float:
    known = [measure for measure in Measure if suggestion.active[measure]]
    return float((np.maximum(np.abs(loads[suggestion.counts][:, known] - 1) - 0.1, 0) ** 2).sum())


@pytest.mark.parametrize("part", [0.1, 0.3])
def test_best_plan_so_far_is_returned_within_the_time_budget(
    uneven: tuple[ClusterState, Load], clock_reads: int, part: float
) -> None:
    glass = Hourglass(round(part * clock_reads))
    suggestion = suggest_plan(*uneven, PlanRequest(limits=Limits(seconds_left=glass)))
    assert glass.left > -0.1 * part * clock_reads
    assert 0 < off(suggestion, suggestion.after) < 0.5 * off(suggestion, suggestion.before)
    assert any("--time-budget allows no more" in note for note in suggestion.notes)


def test_more_time_makes_a_better_plan(uneven: tuple[ClusterState, Load], clock_reads: int) -> None:
    suggestions = [
        suggest_plan(
            *uneven, PlanRequest(limits=Limits(seconds_left=Hourglass(round(part * clock_reads))))
        )
        for part in (0.0, 0.2, 0.5, 1.1)
    ]
    left = [off(suggestion, suggestion.after) for suggestion in suggestions]
    assert left == sorted(left, reverse=True)
    assert not suggestions[0].plan.moves
    assert left[-1] == 0


def test_planning_of_copies_leaves_time_for_choosing_leaders(
    uneven: tuple[ClusterState, Load], clock_reads: int
) -> None:
    given = PlanRequest(limits=Limits(seconds_left=Hourglass(round(0.5 * clock_reads))))
    suggestion = suggest_plan(*uneven, given)
    led = list(LEADER_MEASURES)
    before, after = (
        np.abs(loads[:, led] - 1).max() for loads in (suggestion.before, suggestion.after)
    )
    assert suggestion.leader_moves > suggestion.moves / 10
    assert after < before


def test_leaders_only_planning_returns_a_partial_plan_within_the_time_budget(
    uneven: tuple[ClusterState, Load],
) -> None:
    wanted = PlanRequest(leaders_only=True, limits=Limits(seconds_left=Hourglass(20)))
    partial = suggest_plan(*uneven, wanted)
    whole = suggest_plan(*uneven, PlanRequest(leaders_only=True))
    assert 0 < partial.leader_moves < whole.leader_moves


def test_planning_stops_while_there_is_time_left_to_report_its_result() -> None:
    on = Placement(build_problem(*skewed(Shape(6, 300, "skew"))))
    compared = request.ENDED_SECONDS + 300 * request.COMPARED_SECONDS
    for changes, left, is_up in (
        (0, 1.01 * compared, False),
        (0, 0.99 * compared, True),
        (1000, 1.01 * compared, True),
        (1000, 1.01 * compared + 1000 * request.REPORT_SECONDS, False),
    ):
        on.moved, on.leader_changes = changes // 4, changes - changes // 4
        assert Limits(seconds_left=lambda left=left: left).time_is_up(on) is is_up  # type: ignore[misc]


def test_reserved_time_is_a_share_of_the_time_left_at_the_start() -> None:
    on = Placement(build_problem(*skewed(Shape(6, 300, "skew"))))
    left = [100.0]
    short = Limits(seconds_left=lambda: left[0]).reserving(0.1)
    for left[0], is_up in ((100.0, False), (11.0, False), (9.0, True)):
        assert short.time_is_up(on) is is_up
    assert not Limits().reserving(0.1).time_is_up(on)
