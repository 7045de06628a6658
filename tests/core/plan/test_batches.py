"""Which moves go together, and in which order."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest
from clusters import MB, cluster, load_of, plan_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import LogDir
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.batches import Batches, BatchInput
from core.plan.copies import build_copies
from core.plan.estimate.fetch_simulation import Conditions, simulate_copies
from core.plan.move_order import find_reliefs, pressures
from core.plan.plan import Move, Plan
from core.units import UNLIMITED

BROKERS = (1, 2, 3, 4, 5)


def names(plan: Plan, batches: Batches) -> list[list[str]]:
    return [[str(plan.moves[i].tp) for i in batch] for batch in batches.batches]


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClusterState, Load, Plan]:
    """Return a random cluster, what is produced to it, and a plan of moves of every sort."""
    count = draw(st.integers(1, 40))
    rng = random.Random(draw(st.integers(0, 10_000)))
    replicas = {f"t-{i}": rng.sample(BROKERS, rng.randint(1, 3)) for i in range(count)}
    sizes = {name: rng.choice((0, 1, 5, 40, 600, 9_000)) * MB for name in replicas}
    unknown = rng.sample(sorted(replicas), rng.randint(0, count // 4))
    state = cluster(
        replicas,
        brokers=BROKERS,
        size_bytes={name: size for name, size in sizes.items() if name not in unknown},
        disk_bytes=draw(st.sampled_from([None, (10**12, 10**11), (10**12, 10**10)])),
    )
    load = load_of(state, {name: rng.choice((0.0, 0.3, 2.0)) * MB for name in replicas})
    targets = {
        name: rng.choice(
            (rng.sample(BROKERS, len(held)), held[::-1], held[:1], rng.sample(BROKERS, 4))
        )
        for name, held in replicas.items()
    }
    return state, load, plan_of(state, targets)


RATES = st.sampled_from([300_000, 2 * MB, 10 * MB, 200 * MB, UNLIMITED])


@given(case=cases(), rate=RATES, most=st.integers(1, 12))
def test_every_move_is_in_exactly_one_batch_of_bounded_count(case, rate, most):
    state, load, plan = case

    batches = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=rate, max_moves=most)

    assert sorted(i for batch in batches.batches for i in batch) == list(range(len(plan)))
    assert all(0 < len(batch) <= most for batch in batches.batches)
    again = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=rate, max_moves=most)
    assert again == batches


@given(case=cases(), rate=RATES)
def test_moves_that_copy_no_data_go_first_in_batches_of_their_own(case, rate):
    state, load, plan = case

    batches = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=rate).batches

    copies = [{plan.moves[i].moves_data for i in batch} for batch in batches]
    assert all(len(kinds) == 1 for kinds in copies)
    assert copies == sorted(copies, key=lambda kinds: True in kinds)


def arriving(state: ClusterState, plan: Plan, batch: Iterable[int]) -> dict[int, list[int]]:
    sizes_by_broker: defaultdict[int, list[int]] = defaultdict(list)
    for i in batch:
        row = state.find(plan.moves[i].tp)
        for broker in plan.moves[i].adding:
            sizes_by_broker[broker].append(max(0, int(state.partition_size_bytes[row])))
    return sizes_by_broker


@given(case=cases(), rate=RATES, extra=st.sampled_from([1, 50 * MB, 3_000 * MB]))
def test_batch_brings_no_broker_more_than_its_extra_bytes_unless_a_single_partition(
    case, rate, extra
):
    state, load, plan = case

    batches = BatchInput.of(state, load, plan).in_batches(
        rate_bytes_per_s=rate, max_extra_bytes=extra
    )

    for batch in batches.batches:
        for sizes in arriving(state, plan, batch).values():
            nonzero_sizes = [size for size in sizes if size]
            assert sum(nonzero_sizes) <= extra or len(nonzero_sizes) == 1


@given(case=cases(), rate=st.sampled_from([300_000, 2 * MB, 10 * MB]))
def test_the_first_fetches_of_a_destination_bring_no_more_than_a_second_of_its_rate(case, rate):
    state, load, plan = case
    known = {copy.tp for copy in build_copies(state, load, plan).copies}
    unknown = set(build_copies(state, load, plan).sizes_unknown)

    batches = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=rate)

    seen: set[int] = set()
    for batch in batches.batches:
        first: defaultdict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for i in batch:
            move = plan.moves[i]
            row = state.find(move.tp)
            if move.tp in known - unknown:
                for broker in set(move.adding) - seen:
                    size = min(int(state.partition_size_bytes[row]), 2**20)
                    first[broker][int(state.leader[row])].append(size)
        for flows in first.values():
            at_once = sum(min(sum(sizes), 10 * 2**20) for sizes in flows.values())
            partitions = sum(map(len, flows.values()))
            assert at_once <= rate or partitions == 1
        seen |= {broker for i in batch for broker in plan.moves[i].adding}


def test_destination_at_a_small_rate_begins_with_one_partition_per_mebibyte_a_second():
    state = cluster({f"t-{i}": [1] for i in range(20)}, brokers=(1, 2), size_bytes=20 * MB)
    plan = plan_of(state, {f"t-{i}": [2] for i in range(20)})

    batches = BatchInput.of(state, load_of(state), plan).in_batches(rate_bytes_per_s=5 * MB)

    assert len(batches.batches[0]) == 4
    assert len(batches.batches) < 10


def skewed(moves: int = 60, produced: float = 2.0) -> tuple[ClusterState, Load, Plan]:
    """Return a cluster where broker 1 is far too hot, and a plan that spreads what it leads.

    The other half of the plan evens out disks elsewhere; in its order the two are mixed.
    """
    rng = random.Random(3)
    replicas, sizes, rates, targets = {}, {}, {}, {}
    for i in range(moves):
        name = f"t-{i}"
        if i % 2:
            replicas[name], targets[name] = [1, 2], [3 + i // 2 % 3, 2]
            sizes[name], rates[name] = rng.choice((20, 60)) * MB, produced * MB
        else:
            replicas[name], targets[name] = [2, 4], [2, 3 + i // 2 % 3]
            sizes[name], rates[name] = rng.choice((60, 200)) * MB, 0.005 * produced * MB
    state = cluster(replicas, brokers=BROKERS, size_bytes=sizes)
    return state, load_of(state, rates), plan_of(state, targets)


def worst(state: ClusterState, load: Load) -> int:
    return int(state.broker_ids[pressures(state, load)[0].max(axis=1).argmax()])


def relieved_seconds(
    state: ClusterState,
    load: Load,
    plan: Plan,
    batches: Iterable[Sequence[int]],
    rate: int,
) -> tuple[float, float]:
    """Return when the worst broker has nine tenths of its relief, and when all is done.

    One batch at a time.
    """
    rates = load.in_bytes_per_s
    helps = {
        i: float(rates[state.find(plan.moves[i].tp)])
        for i, felt in enumerate(find_reliefs(state, load, plan))
        if felt is not None and felt.broker == worst(state, load)
    }
    now, left = 0.0, sum(helps.values())
    relieved = math.inf
    for batch in batches:
        what = build_copies(state, load, Plan.of(plan.moves[i] for i in batch))
        if what.copies:
            quotas = Conditions(float(rate))
            now += max(simulate_copies(what.copies, what.idle_seconds, quotas).ends)
        left -= sum(helps.get(i, 0.0) for i in batch)
        if left < 0.1 * sum(helps.values()):
            relieved = min(relieved, now)
    return relieved, now


def test_the_worst_broker_is_relieved_much_earlier_than_in_the_order_of_the_plan():
    state, load, plan = skewed(produced=0.2)
    rate = 40 * MB
    ours = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=rate).batches
    size = -(-len(plan) // len(ours))
    in_order = [range(at, min(at + size, len(plan))) for at in range(0, len(plan), size)]

    assert worst(state, load) == 1
    soon, whole = relieved_seconds(state, load, plan, ours, rate)
    late, as_planned = relieved_seconds(state, load, plan, in_order, rate)
    at_once = relieved_seconds(state, load, plan, [range(len(plan))], rate)[0]

    assert soon < 0.6 * late
    assert soon < 0.6 * at_once
    assert whole < 1.1 * as_planned


def test_plan_that_would_never_end_in_one_batch_ends_in_batches_of_less_inflow():
    state, load, plan = skewed()
    assert math.isinf(relieved_seconds(state, load, plan, [range(len(plan))], 80 * MB)[1])

    ours = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=80 * MB).batches

    assert math.isfinite(relieved_seconds(state, load, plan, ours, 80 * MB)[1])


def test_move_with_the_fewest_bytes_that_helps_the_worst_broker_comes_first():
    state = cluster(
        {"t-0": [1], "t-1": [1], "t-2": [2], "t-3": [3]},
        size_bytes={"t-0": 900 * MB, "t-1": 100 * MB, "t-2": 10 * MB, "t-3": 10 * MB},
    )
    load = load_of(state, {"t-0": 5.0 * MB, "t-1": 4.0 * MB, "t-2": MB, "t-3": MB})
    plan = plan_of(state, {"t-0": [2], "t-1": [3], "t-2": [3]})

    batches = BatchInput.of(state, load, plan).in_batches(rate_bytes_per_s=100 * MB, max_moves=1)

    assert names(plan, batches)[0] == ["t-1"]


def test_batches_spread_over_sources_and_destinations():
    replicas = {f"t-{i}": [1 if i < 20 else 2] for i in range(40)}
    state = cluster(replicas, brokers=(1, 2, 3, 4), size_bytes=100 * MB)
    plan = plan_of(state, {name: [3 if held == [1] else 4] for name, held in replicas.items()})

    batches = (
        BatchInput.of(state, load_of(state), plan).in_batches(rate_bytes_per_s=20 * MB).batches
    )

    assert len(batches) > 2
    for batch in batches[1:-1]:
        leaders = [plan.moves[i].before[0] for i in batch]
        assert leaders.count(1) == leaders.count(2)


def test_huge_partition_is_marked_long_and_starts_in_the_first_batch_with_other_moves():
    sizes = {f"t-{i}": 100 * MB for i in range(40)} | {"t-40": 6_000 * MB}
    replicas = {name: [1] for name in sizes} | {"t-40": [2]}
    state = cluster(replicas, brokers=(1, 2, 3, 4), size_bytes=sizes)
    plan = plan_of(state, {name: [3] for name in sizes} | {"t-40": [4]})

    batches = BatchInput.of(state, load_of(state), plan).in_batches(rate_bytes_per_s=20 * MB)

    huge = next(i for i, move in enumerate(plan) if move.tp == tp("t-40"))
    assert batches.long == {huge}
    assert huge in batches.batches[0]
    assert all(len(batch) > 1 for batch in batches.batches)


def test_many_batches_together_take_little_more_than_the_busiest_broker_needs():
    rng = random.Random(1)
    brokers = range(1, 41)
    replicas = {f"t-{i}": rng.sample(brokers, 2) for i in range(1500)}
    state = cluster(replicas, brokers=brokers, size_bytes=200 * MB)
    plan = Plan.of(
        Move(tp(name), tuple(held), tuple(rng.sample(brokers, 2)))
        for name, held in replicas.items()
    )

    batches = BatchInput.of(state, load_of(state), plan).in_batches(
        rate_bytes_per_s=50 * MB, max_moves=100
    )

    def busiest(moves: Iterable[int]) -> float:
        part = build_copies(state, load_of(state), Plan.of(plan.moves[i] for i in moves))
        return max((load.bytes for load in part.side_loads.values()), default=0.0)

    assert sum(map(busiest, batches.batches)) < 1.35 * busiest(range(len(plan)))


@pytest.mark.parametrize(("rate", "most"), [(0, 10), (-2, 10), (5, 0)])
def test_rate_or_batch_size_that_is_not_positive_is_refused(rate, most):
    state = cluster({"t-0": [1]}, brokers=(1, 2), size_bytes=MB)
    with pytest.raises(ValueError):
        BatchInput.of(state, load_of(state), Plan()).in_batches(
            rate_bytes_per_s=rate, max_moves=most
        )


def test_missing_partitions_and_partitions_of_unknown_size_are_in_batches_too():
    state = cluster({"t-0": [1], "t-1": [1]}, brokers=(1, 2))
    moves = [Move(tp(f"t-{i}"), (1,), (2,)) for i in range(3)]

    batches = BatchInput.of(state, Load.unknown(state), Plan.of(moves)).in_batches(
        rate_bytes_per_s=MB
    )

    assert sorted(i for batch in batches.batches for i in batch) == [0, 1, 2]


GB = 1000 * MB
EVEN = {f"t-{n}": [1 + n % 3] for n in range(9)}


def test_broker_that_is_down_takes_no_share_of_the_load() -> None:
    state = cluster(EVEN, brokers=[1, 2, 3, 4], dead=[4], size_bytes=GB)
    plan = Plan().with_move(state, tp("t-0"), 1, 2)
    (relief,) = find_reliefs(state, load_of(state, MB), plan)
    assert relief is not None
    assert relief.words == "b1 in 100% → 67%"


def test_shares_by_disk_do_not_need_the_disk_size_of_a_broker_that_is_down() -> None:
    dirs = {b: (LogDir("/data", size * GB, GB),) for b, size in ((1, 20), (2, 10), (3, 10))}
    state = cluster(EVEN, brokers=[1, 2, 3, 4], dead=[4], size_bytes=GB, log_dirs=dirs)
    pressure, _ = pressures(state, load_of(state, MB))
    assert [round(float(part), 3) for part in pressure[:, 2]] == [0.667, 1.333, 1.333, 0.0]
