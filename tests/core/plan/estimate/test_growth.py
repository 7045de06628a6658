"""What is produced while a plan is carried out, less what retention deletes: one value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import cluster, load_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.plan.checks.check_plan import CheckedPlan
from core.plan.checks.disks import arrivals
from core.plan.disk_space import growth_bytes
from core.plan.effect import compute_effect, with_growth
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.peak_usage import estimate_peak_usage
from core.plan.plan import Plan

MB = 1_000_000
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
def test_a_partition_grows_until_it_holds_what_its_topic_keeps(
    size: int, configs: dict[str, object], grows: int
) -> None:
    """A megabyte a second, for an hour; sizes in MB."""
    if "retention_bytes" in configs and configs["retention_bytes"] != -1:
        configs = configs | {"retention_bytes": int(str(configs["retention_bytes"])) * MB}
    state = state_of(size * MB, **configs)
    load = load_of(state, {"t-0": 1e6})
    assert growth_bytes(state, load, 0, 3600.0) == grows * MB


def test_what_is_not_known_to_be_produced_is_not_counted() -> None:
    state = state_of(MB)
    assert growth_bytes(state, load_of(state), 0, 3600.0) == 0


@given(
    size=st.integers(0, 10**12),
    rate=st.floats(0, 1e9),
    seconds=st.floats(0, 1e6),
    kept_ms=st.one_of(st.none(), st.integers(-1, 10**10)),
)
def test_it_never_shrinks_and_never_outgrows_what_is_produced(
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
def test_checks_extra_disk_and_totals_go_by_the_same_growth(
    configs: dict[str, object], refused: bool
) -> None:
    """600 MB at 1.2 MB/s with 1.5 MB/s produced: the copy takes more than half an hour."""
    state = state_of(600 * MB, **configs)
    load = load_of(state, {"t-0": 1e6})
    plan = Plan().with_target(state, tp("t-0"), (2,))
    estimate = estimate_at(state, load, plan, int(1.5 * MB))
    assert estimate.seconds is not None
    grows = growth_bytes(state, load, 0, estimate.seconds)
    found = CheckedPlan(state, load, plan).after(estimate.seconds, estimate.never)
    assert ("disk" in {one.id for one in found}) is refused
    (arrival,) = arrivals(state, load, plan, estimate.seconds)[2]
    (extra,) = estimate_peak_usage(state, load, plan, estimate).extra
    plain = compute_effect(state, load, plan)
    more = with_growth(plain, state, load, plan, estimate.seconds).after.disk_used_bytes
    assert arrival.growth_bytes == grows
    assert extra.bytes == arrival.grown_bytes == 600 * MB + grows
    assert np.allclose(more - plain.after.disk_used_bytes, [0, grows])
    if refused:
        (disk,) = (one for one in found if one.id == "disk")
        assert disk.broker == 2
        assert "retention of t is not known" in disk.sentence
