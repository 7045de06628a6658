"""Whole plans: even within the band, few bytes, nothing worsened, the same for the same input."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, placed
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.formats.plan_file import format_plan_file
from core.plan.planner.model.measures import Measure
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan
from core.plan.planner.search.load_bounds import balanced_bounds

GB = 1000 * MB
SIX = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def lower_bound_bytes(state: ClusterState, band: float = 0.10) -> float:
    """Return what must be copied whatever the plan: disk above the band, or lacking below it."""
    stored = np.zeros(len(state.brokers))
    at = np.searchsorted(state.broker_ids, state.replica_broker)
    np.add.at(stored, at, state.size_bytes)
    mean = stored.mean()
    above = np.maximum(stored - (1 + band) * mean, 0).sum()
    below = np.maximum((1 - band) * mean - stored, 0).sum()
    return float(max(above, below))


@pytest.mark.parametrize("kind", ["new", "skew"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_six_measures_get_even_with_hardly_more_bytes_than_must_be_moved(
    kind: str, seed: int
) -> None:
    state, load = skewed(Shape(12, 2_000, kind, seed=seed))

    suggestion = suggest_plan(state, load, PlanRequest())

    assert suggestion.within(0.10)
    assert suggestion.bytes <= 1.25 * lower_bound_bytes(state)
    assert all(f.severity < Severity.UNSAFE for f in check_plan(state, load, suggestion.plan))


def test_the_same_input_gives_the_same_plan_byte_for_byte() -> None:
    state, load = skewed(Shape(12, 2_000, "skew"))
    assert format_plan_file(suggest_plan(state, load, PlanRequest()).plan) == format_plan_file(
        suggest_plan(state, load, PlanRequest()).plan
    )


def test_no_data_are_copied_where_leader_changes_alone_even_out_the_load() -> None:
    state = cluster(
        {f"t-{n}": [1, 2, 3] for n in range(9)}, brokers=[1, 2, 3], racks=SIX, size_bytes=GB
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert (suggestion.moves, suggestion.bytes) == (0, 0)
    assert suggestion.leader_moves == 6
    leaders = Counter(first for first, *_ in placed(state, suggestion.plan).values())
    assert leaders == {1: 3, 2: 3, 3: 3}


@pytest.mark.parametrize("leaders_only", [False, True])
def test_no_move_only_changes_the_order_of_followers(leaders_only: bool) -> None:
    state, load = skewed(Shape(12, 600, "skew", seed=4))
    suggestion = suggest_plan(state, load, PlanRequest(leaders_only=leaders_only))
    assert len(suggestion.plan)
    for move in suggestion.plan:
        assert move.before[0] != move.after[0] or set(move.before) != set(move.after), move


def test_leaders_only_request_copies_nothing_though_data_are_uneven() -> None:
    state, load = skewed(Shape(12, 2_000, "skew"))
    suggestion = suggest_plan(state, load, PlanRequest(leaders_only=True))
    assert (suggestion.moves, suggestion.bytes) == (0, 0)
    assert suggestion.leader_moves == len(suggestion.plan) > 0


def test_a_balanced_cluster_needs_no_plan() -> None:
    state = cluster({f"t-{n}": [1 + n % 3, 1 + (n + 1) % 3] for n in range(9)}, size_bytes=GB)
    assert not suggest_plan(state, load_of(state, MB), PlanRequest()).plan.moves


def test_a_drained_broker_holds_nothing_and_racks_stay_spread() -> None:
    state, load = skewed(Shape(12, 600, "skew"))
    suggestion = suggest_plan(state, load, PlanRequest(drain=(3,)))
    held = placed(state, suggestion.plan).values()
    assert all(3 not in replicas for replicas in held)
    assert all(len({b % 3 for b in replicas}) == 3 for replicas in held)
    assert all(3 in move.before for move in suggestion.plan)


def test_replicas_of_a_drained_broker_are_spread_over_the_emptiest_brokers() -> None:
    state = cluster({f"t-{n}": [1] for n in range(12)}, brokers=[1, 2, 3, 4], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(1,)))
    held = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    assert held == {2: 4, 3: 4, 4: 4}


def test_leaders_that_have_to_change_are_spread_and_no_other_leaders_change() -> None:
    held = {f"t-{n}": [4, 1] for n in range(12)} | {f"u-{n}": [2, 3] for n in range(3)}
    state = cluster(held, brokers=range(1, 5), size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(4,)))
    leaders = Counter(move.after[0] for move in suggestion.plan)
    assert leaders == {1: 5, 2: 2, 3: 5}
    assert {move.tp.topic for move in suggestion.plan} == {"t"}


def test_move_reasons_show_brokers_closer_to_balance_and_no_share_is_negative() -> None:
    reason_count = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        brokers = int(random.integers(3, 6))
        held = {
            f"t-{n}": random.choice(brokers, 1 + n % 2, replace=False).tolist()
            for n in range(int(random.integers(4, 12)))
        }
        sizes = {name: int(random.lognormal() * GB) for name in held}
        state = cluster(held, brokers=range(brokers), size_bytes=sizes)
        rates = {name: random.lognormal() * MB for name in held}
        suggestion = suggest_plan(state, load_of(state, rates), PlanRequest())
        for why in suggestion.reasons.values():
            assert abs(why.after - 1) < abs(why.before - 1), (seed, why.words)
            reason_count += 1
        assert suggestion.after.min() >= 0
    assert reason_count > 100


def test_reason_of_a_drain_move_names_the_broker_it_leaves_and_no_share() -> None:
    state = cluster({f"t-{n}": [4, 1] for n in range(3)}, brokers=range(1, 5), size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(4,)))
    assert {why.words for why in suggestion.reasons.values()} == {"leaves b4"}


@pytest.mark.parametrize(
    ("held", "plan_request", "words"),
    [
        ([1], PlanRequest(replicas=2), "from 1 to 2 replicas"),
        ([1, 2, 3], PlanRequest(replicas=2), "from 3 to 2 replicas"),
        ([1, 2], PlanRequest(racks_only=True), "rack a held 2"),
        ([1, 2], PlanRequest(racks_only=True, drain=(1,)), "leaves b1"),
        ([1, 2], PlanRequest(replicas=3, drain=(2,)), "leaves b2"),
    ],
)
def test_reason_of_a_mandatory_move_names_the_request_that_requires_it(
    held: list[int], plan_request: PlanRequest, words: str
) -> None:
    """Not what it does for evenness besides, which may be little, or the contrary."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    state = cluster({"t-0": held}, brokers=range(1, 5), racks=racks, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    assert [why.words for why in suggestion.reasons.values()] == [words]
    assert [move.reason for move in suggestion.plan] == [words]


def test_draining_or_replacing_for_some_topics_leaves_other_topics_where_they_are() -> None:
    state = cluster({"a-0": [1, 2], "b-0": [1, 2]}, brokers=[1, 2, 3], size_bytes=GB)
    for wanted in (PlanRequest(drain=(2,), topics="a"), PlanRequest(replace=((2, 3),), topics="a")):
        suggestion = suggest_plan(state, load_of(state, MB), wanted)
        assert not suggestion.incomplete
        assert placed(state, suggestion.plan) == {"a-0": (1, 3), "b-0": (1, 2)}


def test_a_dead_broker_can_be_drained() -> None:
    state = cluster(
        {f"t-{n}": [1, 2] for n in range(4)},
        brokers=[1, 2, 3],
        dead=[2],
        isr={f"t-{n}": [1] for n in range(4)},
        size_bytes=GB,
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(2,)))
    assert all({*replicas} == {1, 3} for replicas in placed(state, suggestion.plan).values())


def test_new_brokers_are_filled_and_nothing_moves_between_old_ones() -> None:
    state, load = skewed(Shape(12, 2_000, "new"))
    suggestion = suggest_plan(state, load, PlanRequest(fill=(11,)))
    assert {b for move in suggestion.plan for b in move.adding} == {11}
    assert abs(suggestion.after[11, Measure.DISK] - 1) <= 0.10


def test_new_broker_is_not_filled_beyond_the_band_though_other_brokers_are_too_full() -> None:
    held = {f"t-{n}": [1 if n < 30 else 2 + n % 2] for n in range(40)}
    state = cluster(held, brokers=[1, 2, 3, 4], size_bytes=GB)
    wanted = PlanRequest(fill=(4,))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    ended = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    assert 9 <= ended[4] <= 11
    assert is_reached(suggestion, wanted)


def test_broker_filled_beyond_the_band_by_the_plan_does_not_count_as_filled() -> None:
    """Unless that is no doing of the plan's, or something has to move there."""
    state = cluster({f"t-{n}": [1] for n in range(4)}, brokers=[1, 2], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(fill=(2,)))
    assert suggestion.filled((2,), 0.10)
    fuller = replace(
        suggestion, after=np.where([[True], [False]], 0.8, np.full_like(suggestion.after, 1.2))
    )
    assert not fuller.filled((2,), 0.10)
    assert fuller.filled((2,), 0.10, or_more=True)
    assert replace(fuller, before=fuller.after).filled((2,), 0.10)


def test_leadership_moves_only_to_the_brokers_being_filled() -> None:
    held = {f"t-{n}": [1, 2] for n in range(6)} | {f"u-{n}": [2, 3] for n in range(3)}
    state = cluster(held, brokers=[1, 2, 3], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(fill=(3,)))
    assert suggestion.leader_moves
    for move in suggestion.plan:
        assert 3 in move.after
    led = {name: first for name, (first, *_) in placed(state, suggestion.plan).items()}
    assert {name for name, first in led.items() if first != held[name][0]} == {
        name for name, first in led.items() if first == 3
    }
    assert not suggest_plan(state, load_of(state, MB), PlanRequest(fill=(1,))).leader_moves


def test_a_broker_is_replaced_in_place() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1], "t-2": [1, 3]}, brokers=[1, 2, 3, 4])
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replace=((1, 4),)))
    assert placed(state, suggestion.plan) == {"t-0": (4, 2), "t-1": (2, 4), "t-2": (4, 3)}


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_partitions_get_the_requested_replicas_in_as_many_racks(replicas: int) -> None:
    state, load = skewed(Shape(12, 300, "skew", replicas=2))
    suggestion = suggest_plan(state, load, PlanRequest(replicas=replicas))
    assert not suggestion.incomplete
    for name, held in placed(state, suggestion.plan).items():
        assert len({b % 3 for b in held}) == len(held) == replicas, name
    for move in suggestion.plan:
        assert move.after[0] == move.before[0]
        assert {*move.after} <= {*move.before} or {*move.before} <= {*move.after}
    there_and_back = suggest_plan(state, load, PlanRequest(replicas=2))
    assert not there_and_back.plan.moves


@pytest.mark.parametrize("held", [[0, 3, 1, 2], [3, 0, 1, 2]], ids=["a follower", "the leader"])
def test_no_rack_is_given_up_while_a_replica_without_a_rack_could_be_removed(
    held: list[int],
) -> None:
    racks = {0: "a", 1: "b", 2: "c"}
    state = cluster({"t-0": held}, brokers=range(4), racks=racks, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=3))
    assert placed(state, suggestion.plan) == {"t-0": (0, 1, 2)}


def test_second_replica_is_not_placed_in_the_rack_of_the_first() -> None:
    state = cluster({"t-0": [1]}, brokers=[1, 2, 3], racks={1: "a", 2: "a", 3: "b"}, dead=[3])
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2))
    assert not suggestion.plan.moves
    assert suggestion.incomplete


@pytest.mark.parametrize(
    "plan_request",
    [PlanRequest(drain=(1,)), PlanRequest(replace=((1, 4),)), PlanRequest(replicas=2)],
)
def test_mandatory_moves_keep_to_the_limit_on_moves(plan_request: PlanRequest) -> None:
    state = cluster({f"t-{n}": [1] for n in range(9)}, brokers=[1, 2, 3, 4], size_bytes=MB)
    suggestion = suggest_plan(
        state, load_of(state, MB), replace(plan_request, limits=Limits(max_moves=4))
    )
    assert suggestion.moves == 4
    assert suggestion.incomplete


def test_a_partition_that_is_out_of_sync_keeps_its_replicas() -> None:
    state = cluster({"t-0": [1, 2, 3]}, isr={"t-0": [1, 3]}, dead=[2], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2))
    assert not suggestion.plan.moves


def test_racks_only_request_repairs_rack_violations_and_moves_nothing_else() -> None:
    state = cluster(
        {"t-0": [1, 4, 2], "t-1": [1, 2, 3], "t-2": [3, 6, 4]},
        brokers=[1, 2, 3, 4, 5, 6],
        racks=SIX,
        size_bytes=GB,
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(racks_only=True))
    assert {str(move.tp) for move in suggestion.plan} == {"t-0", "t-2"}
    for replicas in placed(state, suggestion.plan).values():
        assert len({SIX[b] for b in replicas}) == 3


def test_brokers_of_a_small_rack_carry_the_replicas_that_their_rack_must_hold() -> None:
    state = cluster(
        {f"t-{n}": [[1, 3, 4], [2, 4, 3]][n % 2] for n in range(40)},
        racks={1: "a", 2: "a", 3: "b", 4: "c"},
        size_bytes=GB,
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert suggestion.bytes == 0
    assert suggestion.within(0.10)
    assert "Brokers 3,4 have to carry 133% of the mean" in suggestion.notes[0]


def test_topics_kept_and_brokers_excluded_are_left_alone() -> None:
    state, load = skewed(Shape(12, 2_000, "skew"))
    suggestion = suggest_plan(state, load, PlanRequest(keep=r"topic-00000.*", exclude=(0, 7)))
    assert suggestion.plan.moves
    for move in suggestion.plan:
        assert not move.tp.topic.startswith("topic-00000")
        assert not {0, 7} & ({*move.adding} | {*move.removing})


def test_limits_on_bytes_and_moves_are_kept_and_the_plan_still_improves_balance() -> None:
    state, load = skewed(Shape(12, 2_000, "skew"))
    whole = suggest_plan(state, load, PlanRequest())
    third = suggest_plan(state, load, PlanRequest(limits=Limits(max_bytes=whole.bytes / 3)))
    few = suggest_plan(state, load, PlanRequest(limits=Limits(max_moves=20)))
    assert 0 < third.bytes <= whole.bytes / 3
    assert few.moves <= 20
    for part in (third, few):
        assert part.after[:, Measure.DISK].std() < part.before[:, Measure.DISK].std()


def test_reason_of_each_move_names_the_broker_that_it_helps() -> None:
    state, load = skewed(Shape(12, 2_000, "new"))
    suggestion = suggest_plan(state, load, PlanRequest())
    assert suggestion.reasons.keys() == {move.tp for move in suggestion.plan}
    filled = [b for b in suggestion.reasons.values() if b.broker == 11]
    assert filled
    assert {b.before for b in filled} == {0.0}
    assert all(abs(b.after - 1) <= 0.10 for b in filled)


def test_unknown_load_is_reported_and_planned_for_by_size_and_count() -> None:
    state, _ = skewed(Shape(12, 2_000, "new"))
    suggestion = suggest_plan(state, Load.unknown(state), PlanRequest())
    assert "What is produced to 2,000 of 2,000 partitions is not known" in suggestion.notes[0]
    assert not suggestion.active[Measure.IN]
    assert abs(suggestion.after[11, Measure.DISK] - 1) <= 0.10


def test_one_huge_partition_is_reported() -> None:
    state = cluster(
        {"big-0": [1], **{f"t-{n}": [1 + n % 3] for n in range(30)}},
        size_bytes={"big-0": 100 * GB, **{f"t-{n}": GB for n in range(30)}},
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert any(
        "big-0 alone is 231% of a broker's share of disk" in note for note in suggestion.notes
    )


# -- laws ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 3), min_size=2, max_size=30))
def test_load_above_balanced_bounds_equals_load_missing_below_them(loads: list[float]) -> None:
    column = np.array(loads)[:, None] / max(np.mean(loads), 1e-9)
    bounds = balanced_bounds(
        column, np.ones(len(loads), np.bool_), 0.10, np.full_like(column, np.inf)
    )
    given_away = np.maximum(column - bounds.high, 0).sum()
    taken = np.maximum(bounds.low - column, 0).sum()
    inside = (bounds.low < 1.098).all() and (bounds.high > 0.902).all()
    assert not inside or given_away == pytest.approx(taken, abs=1e-6)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[ClusterState, Load]:
    brokers = draw(st.integers(3, 8))
    racks = draw(st.sampled_from([0, 1, 2, 3]))
    count = draw(st.integers(1, 25))
    ids = list(range(brokers))
    held = {
        f"t-{n}": draw(st.permutations(ids).map(lambda order: order[: 1 + len(order) % 3]))
        for n in range(count)
    }
    sizes = {name: draw(st.integers(0, 100)) * GB for name in held}
    state = cluster(
        held,
        brokers=ids,
        racks={b: f"r{b % racks}" for b in ids} if racks else None,
        dead=[0] if draw(st.booleans()) else [],
        size_bytes=sizes,
    )
    return state, load_of(state, {name: draw(st.integers(0, 50)) * MB for name in held})


@settings(max_examples=40)
@given(clusters())
def test_no_plan_is_unsafe_or_leaves_brokers_further_from_the_band(
    given_: tuple[ClusterState, Load],
) -> None:
    state, load = given_
    suggestion = suggest_plan(state, load, PlanRequest())
    assert all(f.severity < Severity.UNSAFE for f in check_plan(state, load, suggestion.plan))
    for move in suggestion.plan:
        assert len(move.after) == len(set(move.after)) == len(move.before)
    known = [m for m in Measure if suggestion.active[m]]
    off = [
        float((np.maximum(np.abs(loads[suggestion.counts][:, known] - 1) - 0.10, 0) ** 2).sum())
        for loads in (suggestion.before, suggestion.after)
    ]
    early, late = off
    assert late <= early + 1e-9
