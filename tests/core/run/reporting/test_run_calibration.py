"""What runs teach about estimates, from their journals: whole runs on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import MB, Run, ask, cluster, plan_of, set_config, spend, submitted

from core.cluster.configs import FOLLOWER_RATE, Resource
from core.cluster.observer import fetch_cluster_state
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.load import Load
from core.plan.copies import Side
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration, Lesson
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.estimate_json import format_estimate
from core.run.engine import preflight
from core.run.engine.executor import Executor
from core.run.engine.preflight import estimate_of_start
from core.run.journal.move_state import Outcome
from core.run.reporting.run_calibration import lesson_of
from core.run.reporting.runs import calibration
from core.units import UNLIMITED

RATE = 2 * MB
HOMES = [(3, 2), (1, 2)]


@pytest.fixture
def client() -> SimulatedCluster:
    return cluster({"t": [(1, 2)]}, size_bytes=80 * MB)


def begin(
    client: SimulatedCluster,
    rate: int = RATE,
    *,
    known: Calibration = NOTHING_LEARNED,
    **options: Any,
) -> Run:
    """Begin a run to where its partition is not."""
    state = fetch_cluster_state(client)
    (now,) = [state.replicas(row) for row in range(state.partition_count)]
    target = HOMES[0] if now == HOMES[1] else HOMES[1]
    plan = plan_of(client, {("t", 0): target})
    estimate = estimate_at(state, Load.unknown(state), plan, rate, calibration=known)
    run = Run(client, plan, rate=rate, estimate=format_estimate(estimate), **options)
    run.runner = Executor(run.journal, client, client.clock, learned=lambda: known)
    return run


def carried_out(client: SimulatedCluster, rate: int = RATE, **more: Any) -> Run:
    run = begin(client, rate, **more)
    assert run.to_the_end() is Outcome.DONE
    run.journal.close()
    return run


def lesson(run: Run) -> Lesson | None:
    run.restart_process()
    run_lesson = lesson_of(run.journal.records(), run.state)
    run.journal.close()
    return run_lesson


def test_undisturbed_run_yields_a_lesson_of_its_copying_time(client: SimulatedCluster) -> None:
    run_lesson = lesson(carried_out(client))
    assert run_lesson is not None
    assert (run_lesson.side, run_lesson.busiest_bytes) == (Side.LEADER, 80 * MB)
    assert run_lesson.estimated_seconds is not None
    assert run_lesson.range_seconds is not None
    assert run_lesson.took_seconds == pytest.approx(run_lesson.estimated_seconds, rel=0.1)
    assert run_lesson.range_seconds[0] < run_lesson.estimated_seconds < run_lesson.range_seconds[1]


def test_several_runs_yield_a_factor_that_corrects_the_estimates(
    client: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here each was estimated 1.2 times too short."""

    def too_short(*keys: Any) -> Any:
        estimate = estimate_of_start(*keys)
        assert estimate is not None
        least, most = (end / 1.2 for end in estimate["range_seconds"])
        return estimate | {"seconds": estimate["seconds"] / 1.2, "range_seconds": [least, most]}

    monkeypatch.setattr(preflight, "estimate_of_start", too_short)
    cluster_id = client.describe_cluster().cluster_id
    for count in range(3):
        assert calibration(cluster_id).sides == {}, count
        carried_out(client)
    learned = calibration(cluster_id).sides[Side.LEADER]
    assert learned.runs == 3
    assert learned.factor == pytest.approx(1.2, abs=0.1)


def test_lessons_are_based_on_the_uncalibrated_estimate(
    client: SimulatedCluster,
) -> None:
    cluster_id = client.describe_cluster().cluster_id
    for _ in range(3):
        carried_out(client)
    known = calibration(cluster_id)
    plain = lesson(carried_out(client))
    again = lesson(carried_out(client, known=known))
    assert known.sides[Side.LEADER].factor != 1.0
    assert plain is not None
    assert again is not None
    assert again.estimated_seconds == plain.estimated_seconds


def test_run_without_a_throttle_yields_the_copying_speed(client: SimulatedCluster) -> None:
    slow = cluster({"t": [(1, 2)]}, size_bytes=20_000 * MB)
    run = carried_out(slow, UNLIMITED)
    run_lesson = lesson(run)
    assert run_lesson is not None
    assert (run_lesson.side, run_lesson.estimated_seconds) == (None, None)
    speed = calibration(run.state.cluster_id).speed
    assert speed is not None
    assert speed.usual_bytes_per_s == pytest.approx(20_000 * MB / run_lesson.took_seconds)
    estimate = run.state.estimate
    assert estimate is not None
    for row in estimate["rows"]:
        row["bytes"] = None  # as of a replica of unknown size
    assert lesson_of([], run.state) is None


# -- what teaches nothing --------------------------------------------------------------------------


def _paused(run: Run) -> None:
    run.until(submitted)
    ask(run, "pause", floor=True)
    spend(run, 20)
    ask(run, "resume")


def _another_rate(run: Run) -> None:
    run.until(submitted)
    ask(run, "throttle", rate_bytes_per_s=4 * MB)


def _throttle_edited(run: Run) -> None:
    run.until(submitted)
    spend(run, 5)
    set_config(run.client, Resource.broker(3), FOLLOWER_RATE, "1000000")


def _cancelled(run: Run) -> None:
    run.until(submitted)
    run.cancel()


@pytest.mark.parametrize(
    "happens", [_paused, _another_rate, _throttle_edited, _cancelled], ids=lambda f: f.__name__[1:]
)
def test_disturbed_run_yields_no_lesson(
    client: SimulatedCluster, happens: Callable[[Run], None]
) -> None:
    run = begin(client)
    happens(run)
    run.to_the_end()
    assert lesson(run) is None


@pytest.mark.parametrize(
    ("rate", "options"),
    [(50 * MB, {}), (RATE, {"retention_ms": 3_600_000})],
    ids=["too short", "retention lowered"],
)
def test_run_that_is_not_comparable_yields_no_lesson(
    client: SimulatedCluster, rate: int, options: Any
) -> None:
    assert lesson(carried_out(client, rate, **options)) is None


def test_run_that_kept_a_lower_foreign_rate_yields_no_lesson(
    client: SimulatedCluster,
) -> None:
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "1000000")
    assert lesson(carried_out(client)) is None


def test_calibration_folds_each_journal_only_once(
    client: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_id = carried_out(client).runner.state.cluster_id
    for _ in range(2):
        carried_out(client)
    first = calibration(cluster_id)
    monkeypatch.setattr("core.run.reporting.runs.fold", None)
    assert calibration(cluster_id) == first
    assert first.sides
