"""What a run's options learn of the cluster before it starts."""

from __future__ import annotations

from clusters import MB, cluster, load_of, tp

from core.cluster.metadata import Broker
from core.plan.copies import Side
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.run.launch import with_batches
from core.run.options import RunOptions


def case():
    state = cluster({f"t-{i}": [1] for i in range(30)}, brokers=(1, 2), size_bytes=20 * MB)
    plan = Plan()
    for i in range(30):
        plan = plan.with_target(state, tp(f"t-{i}"), (2,))
    return state, load_of(state, MB), plan


def test_a_run_has_batches_of_all_its_moves() -> None:
    state, load, plan = case()
    options = with_batches(RunOptions(5 * MB, batch_size=8), state, load, plan)
    assert sorted(i for batch in options.batches for i in batch) == list(range(30))
    assert max(map(len, options.batches)) <= 8
    assert options.auto is None
    assert options.produced == dict.fromkeys(range(30), MB)


def test_an_adaptive_run_begins_in_batches_for_its_least_rate_and_knows_what_is_to_spare() -> None:
    state, load, plan = case()
    state = state.with_brokers([Broker(1, out_capacity_bytes_per_s=100e6), Broker(2)])
    auto = RateBounds(2 * MB, 100 * MB)
    options = with_batches(RunOptions(50 * MB, auto=auto), state, load, plan)
    assert len(options.batches[0]) == 1
    assert options.auto is not None
    assert options.auto.spare_bytes_per_s == {(1, Side.LEADER): 70e6}
