"""What a broker's disks have room for, alike for checks, for whole plans and for batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import MB, cluster, load_of, plan_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import LogDir, Topic
from core.cluster.state import ClusterState
from core.plan.batches import BatchInput
from core.plan.checks.brokers import arrivals
from core.plan.checks.check_plan import CheckedPlan, check_plan
from core.plan.disk_space import growth_bytes
from core.plan.effect import compute_effect, with_growth
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.plan_over_time import estimate_peak_usage
from core.plan.plan import Move, Plan
from core.plan.planner.model.problem import build_problem
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.planner import suggest_plan

ONE = LogDir("/d1", 1000 * MB, 300 * MB)
OTHER = LogDir("/d2", 1000 * MB, 350 * MB)
OFFLINE = LogDir("/bad", error="KAFKA_STORAGE_ERROR")
UNKNOWN = LogDir("/d3")

ROOMS: dict[str, tuple[tuple[LogDir, ...], int | None, int]] = {
    "one log dir": ((ONE,), 300, 200),
    "two disks": ((ONE, OTHER), 650, 450),
    "one of two log dirs offline": ((ONE, OFFLINE), 300, 200),
    "two log dirs on one disk": ((ONE, replace(ONE, path="/d2")), 300, 200),
    "two on one disk, one on another": ((ONE, replace(ONE, path="/d3"), OTHER), 650, 450),
    "two new disks of one make": (
        (LogDir("/d1", 1000 * MB, 950 * MB), LogDir("/d2", 1000 * MB, 950 * MB)),
        1900,
        1700,
    ),
    "one that does not tell": ((ONE, UNKNOWN), None, 0),
    "none known": ((), None, 0),
}
"""Log dirs of broker 3; what may come to it, and what a plan fills: MB, None where unknown."""


def disk_findings(state: ClusterState, *moves: Move) -> list[str]:
    findings = check_plan(state, load_of(state), Plan.of(moves))
    return [finding.sentence for finding in findings if finding.id == "disk"]


@pytest.mark.parametrize("name", ROOMS)
def test_checks_planner_and_batches_agree_on_the_room_of_a_brokers_log_dirs(name: str) -> None:
    dirs, free, filled = ROOMS[name]
    names = [f"t-{n}" for n in range(10)]

    def on_1(sizes: dict[str, int]) -> ClusterState:
        held = {name: [1] for name in sizes}
        return cluster(held, brokers=[1, 3], size_bytes=sizes, log_dirs={3: dirs})

    sizes = dict.fromkeys(names, (free or 10_000) * MB // 10)
    state, more = on_1(sizes), on_1(sizes | {"t-0": 100_000 * MB})
    moves = [Move(tp(n), (1,), (3,)) for n in names]
    assert disk_findings(state, *moves) == []
    assert bool(disk_findings(more, *moves)) == (free is not None)
    given = build_problem(state, load_of(state))
    room = given.room_bytes[given.ids.tolist().index(3)]
    assert room == (pytest.approx(filled * MB) if free is not None else float("inf"))
    # Two of 0.3 of what is free are more than a batch may bring: one at a time then.
    two = on_1(dict.fromkeys(names[:2], (free or 100) * MB * 3 // 10))
    schedule = BatchInput.of(two, load_of(two), Plan.of(moves[:2])).in_batches(
        rate_bytes_per_s=1000 * MB
    )
    assert len(schedule.batches) == (2 if free is not None else 1)


def in_flight(arrived: int | None, *, size: int = 100 * MB) -> ClusterState:
    """Return u-0 on its way from 1 to 3, `arrived` bytes of it there; 120 MB to fill at 3."""
    state = cluster(
        {"t-0": [1], "u-0": [1, 3]},
        brokers=[1, 3],
        isr={"u-0": [1]},
        adding={"u-0": [3]},
        removing={"u-0": [1]},
        size_bytes=size,
        log_dirs={3: (LogDir("/d", 1000 * MB, 220 * MB),)},
    )
    sizes = state.size_bytes.copy()
    sizes[state.adding] = -1 if arrived is None else arrived
    return replace(state, size_bytes=sizes)


@pytest.mark.parametrize(
    ("arrived", "size", "room"),
    [
        (0, 100 * MB, 20 * MB),
        (None, 100 * MB, 20 * MB),
        (60 * MB, 100 * MB, 80 * MB),
        (130 * MB, 100 * MB, 120 * MB),
        (0, 500 * MB, 0),
    ],
)
def test_bytes_still_arriving_by_reassignments_reduce_the_room(
    arrived: int | None, size: int, room: int
) -> None:
    given = build_problem(state := in_flight(arrived, size=size), load_of(state))
    assert given.room_bytes[1] == pytest.approx(room)


def test_plan_has_to_leave_room_for_reassignments_in_flight() -> None:
    (sentence,) = disk_findings(in_flight(0, size=150 * MB), Move(tp("t-0"), (1,), (3,)))
    assert sentence == (
        "Broker 3 has 220 MB free, and 150 MB are still coming by moves in flight; "
        "the plan brings 150 MB, growth meanwhile included."
    )
    assert not disk_findings(in_flight(149 * MB, size=150 * MB), Move(tp("t-0"), (1,), (3,)))


def test_bytes_of_a_planned_move_already_in_flight_count_once() -> None:
    """So a move that joins a run of the same plan is not refused for its own bytes."""
    again = Move(tp("u-0"), (1,), (3,))
    assert not disk_findings(in_flight(0, size=150 * MB), again)


def test_drain_fills_only_the_room_of_the_log_dir_that_is_online() -> None:
    dirs = {3: (LogDir("/d1", 1000 * MB, 220 * MB), OFFLINE)}
    held = {f"t-{n}": [1] for n in range(6)}
    state = cluster(held, brokers=[1, 3], size_bytes=100 * MB, log_dirs=dirs)
    suggestion = suggest_plan(state, load_of(state), PlanRequest(drain=(1,)))
    assert suggestion.bytes == 100 * MB
    assert suggestion.incomplete


HOUR_MS = 3_600_000


def state_of(size: int, **configs: object) -> ClusterState:
    """Return one partition of so many bytes on broker 1, with room for 1 GB on broker 2."""
    state = cluster(
        {"t-0": [1]},
        brokers=(1, 2),
        size_bytes={"t-0": size},
        disk_bytes=(1000 * MB, 1000 * MB),
    )
    topic = replace(Topic("t"), min_insync=1, **configs)  # type: ignore[arg-type]
    return state.with_topics({"t": topic})


DELETES = {"cleanup_policy": "delete", "retention_ms": -1, "retention_bytes": -1}


@pytest.mark.parametrize(
    ("size", "configs", "grows"),
    [
        (100, {}, 3600),
        (100, {"cleanup_policy": "compact", "retention_ms": HOUR_MS}, 3600),
        (100, DELETES, 3600),
        (3600, DELETES | {"retention_ms": HOUR_MS}, 0),
        (3000, DELETES | {"retention_ms": HOUR_MS}, 600),
        (9000, DELETES | {"retention_ms": HOUR_MS}, 0),
        (100, DELETES | {"retention_ms": 24 * HOUR_MS}, 3600),
        (100, DELETES | {"retention_bytes": 1100}, 1000),
        (1200, DELETES | {"retention_bytes": 1100, "retention_ms": 24 * HOUR_MS}, 0),
        (3000, {"cleanup_policy": "compact,delete", "retention_ms": HOUR_MS}, 600),
    ],
)
def test_partition_grows_only_up_to_the_retention_of_its_topic(
    size: int, configs: dict[str, object], grows: int
) -> None:
    """A megabyte a second, for an hour; sizes in MB."""
    if "retention_bytes" in configs and configs["retention_bytes"] != -1:
        configs = configs | {"retention_bytes": int(str(configs["retention_bytes"])) * MB}
    state = state_of(size * MB, **configs)
    load = load_of(state, {"t-0": 1e6})
    assert growth_bytes(state, load, 0, 3600.0) == grows * MB


def test_unknown_produce_rate_counts_as_no_growth() -> None:
    state = state_of(MB)
    assert growth_bytes(state, load_of(state), 0, 3600.0) == 0


@given(
    size=st.integers(0, 10**12),
    rate=st.floats(0, 1e9),
    seconds=st.floats(0, 1e6),
    kept_ms=st.one_of(st.none(), st.integers(-1, 10**10)),
)
def test_growth_is_never_negative_and_never_exceeds_what_is_produced(
    size: int, rate: float, seconds: float, kept_ms: int | None
) -> None:
    state = state_of(size, **(DELETES | {"retention_ms": kept_ms}))
    grows = growth_bytes(state, load_of(state, {"t-0": rate}), 0, seconds)
    assert 0 <= grows <= round(rate * seconds)


@pytest.mark.parametrize(
    ("configs", "refused"),
    [({}, True), (DELETES | {"retention_ms": HOUR_MS // 10}, False)],
    ids=["nothing known to be deleted", "holds all that it keeps"],
)
def test_disk_check_peak_usage_and_totals_use_the_same_growth(
    configs: dict[str, object], refused: bool
) -> None:
    """600 MB at 1.2 MB/s with 1.5 MB/s produced: the copy takes more than half an hour."""
    state = state_of(600 * MB, **configs)
    load = load_of(state, {"t-0": 1e6})
    plan = plan_of(state, {"t-0": (2,)})
    estimate = estimate_at(state, load, plan, int(1.5 * MB))
    assert estimate.seconds is not None
    grows = growth_bytes(state, load, 0, estimate.seconds)
    findings = CheckedPlan(state, load, plan).after(estimate.seconds, estimate.never)
    assert ("disk" in {finding.id for finding in findings}) is refused
    (arrival,) = arrivals(state, load, plan, estimate.seconds)[2]
    (extra,) = estimate_peak_usage(state, load, plan, estimate).extra
    plain = compute_effect(state, load, plan)
    more = with_growth(plain, state, load, plan, estimate.seconds).after.disk_used_bytes
    assert arrival.growth_bytes == grows
    assert extra.bytes == arrival.grown_bytes == 600 * MB + grows
    assert np.allclose(more - plain.after.disk_used_bytes, [0, grows])
    if refused:
        (disk,) = (finding for finding in findings if finding.id == "disk")
        assert disk.broker == 2
        assert "retention of t is not known" in disk.sentence
