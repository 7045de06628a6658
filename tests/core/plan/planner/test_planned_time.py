"""How long a suggested plan is said to take, above all where no time is left to play it out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.state import ClusterState
from core.plan.estimate.rate_table import estimate_plan_time
from core.plan.plan import ANY, Move, Plan
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import explain_no_plan
from core.plan.planner.planner import suggest_plan

TB = 1_000_000 * MB
HURRY = 0.0
"""Seconds left: too few to play anything out."""
STATE = cluster({"t-0": [0, 1], "t-1": [1, 0]}, brokers=range(3), size_bytes=100 * MB)
LARGE = replace(
    STATE,
    size_bytes=np.where(STATE.partition_of_replica == 0, TB, STATE.size_bytes),
)
"""The first partition has 1 TB, the second 100 MB."""
ACROSS = Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))
"""A copy to another log dir of broker 0."""
BETWEEN = Move(tp("t-1"), (1, 0), (1, 2))


def hurried(
    state: ClusterState, *moves: Move, within: float | None = None, in_bytes_per_s: float = 0.0
) -> tuple[int, float | None]:
    """Return the rate and the seconds that are told when there is hardly any time left."""
    estimate = estimate_plan_time(
        state,
        load_of(state, in_bytes_per_s),
        Plan.of(moves),
        within,
        seconds_left=lambda: HURRY,
    )
    assert estimate is not None
    assert estimate.range_seconds is None
    return estimate.rate_bytes_per_s, estimate.seconds


def test_copies_between_log_dirs_alone_are_timed_by_their_bytes() -> None:
    rate, seconds = hurried(LARGE, ACROSS)
    assert rate == 20 * MB, "the slowest that copies 1 TB within a day"
    assert seconds == pytest.approx(TB / rate, abs=2)
    estimate = estimate_plan_time(
        LARGE, load_of(LARGE), Plan.of([ACROSS]), None, seconds_left=lambda: HURRY
    )
    assert estimate is not None
    assert estimate.total_bytes == TB


def test_plan_time_is_the_longer_of_log_dir_copies_and_broker_moves() -> None:
    assert hurried(LARGE, BETWEEN, ACROSS) == hurried(LARGE, ACROSS)
    small = replace(ACROSS, tp=tp("t-1"), before=(1, 0), after=(1, 0))
    huge = replace(BETWEEN, tp=tp("t-0"), before=(0, 1), after=(0, 2))
    assert hurried(LARGE, small, huge) == hurried(LARGE, huge)


def test_a_rate_that_never_catches_up_between_log_dirs_is_not_chosen() -> None:
    rate, seconds = hurried(STATE, ACROSS, in_bytes_per_s=30.0 * MB)
    assert rate == 50 * MB
    assert seconds == pytest.approx(100 / 20, abs=2)


def test_unknown_size_gives_no_planned_time_and_is_noted() -> None:
    unknown = replace(
        STATE,
        size_bytes=np.full_like(STATE.size_bytes, -1),
    )
    for move in (ACROSS, BETWEEN):
        for within in (None, 60.0):
            plan, load = Plan.of([move]), load_of(unknown)
            for left in (HURRY, 60.0):
                estimate = estimate_plan_time(
                    unknown, load, plan, within, seconds_left=lambda left=left: left
                )
                assert estimate is not None
                assert (estimate.seconds, estimate.never) == (None, None)
                assert estimate.note == f"The size of {move.tp} is not known."


def test_many_log_dir_copies_are_not_simulated_when_too_little_time_is_left() -> None:
    state = cluster({f"t-{n}": [0] for n in range(2000)}, brokers=range(1), size_bytes=MB)
    plan = Plan.of(
        Move(state.tp(row), (0,), (0,), None, ("/d2",), ("/data",))
        for row in range(state.partition_count)
    )
    estimates = [
        estimate_plan_time(state, load_of(state), plan, None, seconds_left=lambda left=left: left)
        for left in (0.05, 1.0)
    ]
    assert [
        estimate is not None and estimate.range_seconds is not None for estimate in estimates
    ] == [False, True]


def test_deadline_that_was_not_simulated_is_noted() -> None:
    load, plan = load_of(LARGE), Plan.of([ACROSS])
    estimate = estimate_plan_time(LARGE, load, plan, 3600.0, seconds_left=lambda: HURRY)
    assert estimate is not None
    assert (estimate.never, estimate.recommended_bytes_per_s) == (None, None)
    assert "may be too low" in estimate.note
    played = estimate_plan_time(LARGE, load, plan, 3600.0)
    assert played is not None
    assert played.note == ""
    no_deadline = estimate_plan_time(LARGE, load, plan, None, seconds_left=lambda: HURRY)
    assert no_deadline is not None
    assert no_deadline.note == "", "that it is the least time is said by its words"


@pytest.mark.parametrize("seconds", [1.0, 10.0])
def test_impossible_deadline_is_reported_as_never_without_a_simulation(seconds: float) -> None:
    estimate = estimate_plan_time(
        LARGE, load_of(LARGE), Plan.of([ACROSS]), seconds, seconds_left=lambda: HURRY
    )
    assert estimate is not None
    assert estimate.seconds is None
    assert estimate.never is not None
    assert estimate.never.startswith(f"No rate moves 1.0 TB in {seconds:g} s: ")


def test_time_budget_too_short_for_a_simulation_yields_the_minimum_time() -> None:
    state = cluster({f"t-{n}": [0, 1] for n in range(20)}, brokers=range(5), size_bytes=100 * MB)
    load = load_of(state, {f"t-{n}": 0.0 for n in range(20)})
    plan = suggest_plan(state, load, PlanRequest()).plan
    played = estimate_plan_time(state, load, plan, None, seconds_left=lambda: 60.0)
    least = estimate_plan_time(state, load, plan, None, seconds_left=lambda: 0.01)
    by_then = estimate_plan_time(state, load, plan, 3600.0, seconds_left=lambda: 0.01)
    assert played is not None
    assert played.range_seconds is not None
    assert least is not None
    assert least.range_seconds is None
    assert least.seconds is not None
    assert by_then is not None
    assert by_then.rate_bytes_per_s < 5 * MB
    assert by_then.seconds is not None
    assert by_then.seconds <= 3600


def test_time_without_a_simulation_is_at_least_what_the_links_need() -> None:
    """132 GB leave a broker that can send 100 MB/s."""
    homes = {f"t-{i}": [0] for i in range(3)}
    state = cluster(homes, brokers=range(4), size_bytes=44_000 * MB, can_send=1e8, can_take_in=1e9)
    moves = [Move(tp(f"t-{i}"), (0,), (i + 1,)) for i in range(3)]
    assert hurried(state, *moves, within=600.0)[1] is None
    assert hurried(state, *moves, within=7200.0) == (20 * MB, 6600.0)
    assert hurried(state, *moves, within=1400.0) == (100 * MB, 1320.0)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(), "No move helps."),
        (Limits(max_moves=7), "No move helps within these limits."),
        (Limits(seconds_left=lambda: 3.0), "No move helps within these limits."),
    ],
)
def test_explanation_of_an_empty_plan_mentions_limits_only_where_limits_are_set(
    limits: Limits, words: str
) -> None:
    wanted = PlanRequest(limits=limits)
    suggestion = suggest_plan(STATE, load_of(STATE, MB), replace(wanted, limits=Limits()))
    assert explain_no_plan(suggestion, wanted, "", reached=False) == words


def test_plan_whose_data_are_already_copied_has_no_time_estimate() -> None:
    """As in a plan that somebody has carried out meanwhile: it is stale, and answered."""
    state = cluster({"t-0": [0, 2]}, brokers=range(3), size_bytes=100 * MB)
    assert (
        estimate_plan_time(state, load_of(state), Plan.of([Move(tp("t-0"), (0, 1), (0, 2))]), None)
        is None
    )
