"""What a move relieves is told beside the fair share of the brokers that are up."""

from __future__ import annotations

from dataclasses import replace

from clusters import MB, cluster, load_of, tp

from core.cluster.metadata import LogDir
from core.plan.move_order import find_reliefs, pressures
from core.plan.plan import Plan

GB = 1000 * MB
EVEN = {f"t-{n}": [1 + n % 3] for n in range(9)}


def test_a_broker_that_is_down_takes_no_share() -> None:
    state = cluster(EVEN, brokers=[1, 2, 3, 4], dead=[4], size_bytes=GB)
    plan = Plan().with_move(state, tp("t-0"), 1, 2)
    (found,) = find_reliefs(state, load_of(state, MB), plan)
    assert found is not None
    assert found.words == "b1 in 100% → 67%"


def test_what_a_broker_that_is_down_has_is_not_asked_for_shares_by_disk() -> None:
    state = cluster(EVEN, brokers=[1, 2, 3, 4], dead=[4], size_bytes=GB)
    sizes = {1: 20 * GB, 2: 10 * GB, 3: 10 * GB}
    state = state.with_brokers(
        [
            replace(b, log_dirs=(LogDir("/data", sizes[b.id], GB),) if b.alive else ())
            for b in state.brokers
        ]
    )
    pressure, _ = pressures(state, load_of(state, MB))
    assert [round(float(part), 3) for part in pressure[:, 2]] == [0.667, 1.333, 1.333, 0.0]
