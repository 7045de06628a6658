"""The limits and the time left that a run tells, after its rates have changed in mid-run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import MB, Run, Start, ask, cluster, own, plan_of, set_config, spend, submitted

from core.cluster.configs import FOLLOWER_RATE, LEADER_RATE, Resource
from core.run.reporting.views import BrokerProgress, MoveStatus

B3 = Resource.broker(3)
AUTO = {"least_bytes_per_s": 10 * MB, "most_bytes_per_s": 40 * MB}


def a_run(start: Start, rate: int = 5 * MB, megabytes: int = 800) -> Run:
    client = cluster({"t": [(1, 2)]}, size_bytes=megabytes * MB)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), rate=rate)
    run.until(submitted)
    spend(run, 15)
    return run


def told(run: Run) -> dict[tuple[int, str], BrokerProgress]:
    return {(b.broker, b.side): b for b in run.view().brokers}


CHANGES: dict[str, Callable[[Run], None]] = {
    "faster": lambda run: ask(run, "throttle", rate_bytes_per_s=40 * MB),
    "slower": lambda run: ask(run, "throttle", rate_bytes_per_s=1 * MB),
    "adaptive": lambda run: ask(run, "throttle", auto=AUTO),
    "held": lambda run: ask(run, "pause", floor=True),
    "by somebody else": lambda run: set_config(run.client, B3, FOLLOWER_RATE, "1000"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seconds", [2, 30])
def test_the_limits_told_are_those_in_force(start: Start, change: str, seconds: float) -> None:
    run = a_run(start, megabytes=4000)
    CHANGES[change](run)
    spend(run, seconds + 5)
    seen = told(run)
    assert seen[3, "receives"].limit_bytes_per_s == int(own(run.client, B3, FOLLOWER_RATE) or 0)
    sent = own(run.client, Resource.broker(1), LEADER_RATE)
    assert seen[1, "sends"].limit_bytes_per_s == int(sent or 0)


def test_a_rate_that_somebody_sets_in_mid_run_is_named_as_theirs(start: Start) -> None:
    run = a_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, "1000")
    spend(run, 10)
    assert told(run)[3, "receives"].why == "foreign quota 1.0 kB/s, kept"
    (move,) = run.view().moves
    assert (move.state, move.why) == (MoveStatus.MOVING, "b3 quota 1.0 kB/s, not ours")


def test_the_time_left_follows_a_faster_rate_and_waits_for_none_on_the_floor(start: Start) -> None:
    run = a_run(start)
    ask(run, "throttle", rate_bytes_per_s=40 * MB)
    spend(run, 20)
    asked_at, left = run.client.elapsed_seconds, run.view().left_seconds
    assert left is not None
    ask(run, "pause", floor=True)
    spend(run, 60)
    held = run.view().left_seconds
    assert held is not None
    assert held <= left, "told as of when it goes on, not at a byte a second"
    ask(run, "resume")
    run.to_the_end()
    took = run.client.elapsed_seconds - asked_at - 60
    assert 0.3 * took <= left <= 3 * took


@pytest.mark.parametrize("to", [{"rate_bytes_per_s": 40 * MB}, {"auto": AUTO}])
def test_the_time_left_is_told_from_the_pace_since_another_rate_was_asked_for(
    start: Start, to: dict[str, Any]
) -> None:
    run = a_run(start, megabytes=2000)
    spend(run, 60)
    ask(run, "throttle", **to)
    spend(run, 30)
    left, from_here = run.view().left_seconds, run.client.elapsed_seconds
    assert left is not None
    run.to_the_end()
    took = run.client.elapsed_seconds - from_here
    assert 0.6 * took <= left <= 1.4 * took


def test_the_time_left_follows_a_slower_rate_at_once(start: Start) -> None:
    run = a_run(start, rate=40 * MB, megabytes=4000)
    ask(run, "throttle", rate_bytes_per_s=5 * MB)
    spend(run, 3)
    view = run.view()
    left_bytes = view.total_bytes - view.moved_bytes
    assert view.left_seconds is not None
    assert view.left_range is not None
    assert view.left_seconds >= left_bytes / (5 * MB)
    assert view.left_range[0] <= view.left_seconds <= view.left_range[1]
