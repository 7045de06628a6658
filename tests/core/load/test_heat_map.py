"""Heat maps: what each broker carries of each topic, how far off its fair share, and verdicts."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import numpy as np
import pytest
from clusters import cluster, load_of
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import small_spec

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import Broker, LogDir
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view import heat as heat_module
from core.load.view.heat import (
    ABOVE,
    BELOW,
    PALE,
    SMALL,
    Metric,
    Order,
    ReplicaRole,
    deviation_levels,
    fair_parts,
    heat_map,
    partition_map,
    replica_roles,
)
from core.load.view.text import heat_text
from core.load.view.totals import broker_totals
from core.load.view.verdicts import Weight, verdicts
from core.plan.effect import compute_effect
from core.plan.plan import Plan

MB = 1e6


def spread(leaders: list[int], rates: list[float], topic: str = "t") -> tuple[ClusterState, Load]:
    """Return a topic whose n-th partition is led by the n-th broker and carries the n-th rate."""
    state = cluster(
        {f"{topic}-{n}": [leader] for n, leader in enumerate(leaders)}, brokers=[1, 2, 3, 4]
    )
    return state, load_of(state, {f"{topic}-{n}": rate for n, rate in enumerate(rates)})


def test_in_metric_sums_bytes_produced_to_the_leaders_on_each_broker() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1], "t-2": [1, 3]})
    load = load_of(state, {"t-0": 5 * MB, "t-1": 3 * MB, "t-2": 1 * MB})
    heat = heat_map(state, load, Metric.IN)
    assert heat.values.tolist() == [[6 * MB, 3 * MB, 0.0]]
    assert heat.total.tolist() == [9 * MB]


def test_out_metric_includes_follower_fetches_from_the_leader() -> None:
    state = cluster({"t-0": [1, 2, 3]})
    load = load_of(state, {"t-0": 2 * MB})
    load = replace(load, out_bytes_per_s=np.array([5 * MB]))
    assert heat_map(state, load, Metric.OUT).values.tolist() == [[5 * MB + 2 * 2 * MB, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("metric", "cells"),
    [
        (Metric.LEADERS, [[2.0, 1.0, 0.0]]),
        (Metric.REPLICAS, [[3.0, 2.0, 1.0]]),
        (Metric.SIZE, [[300.0, 200.0, 100.0]]),
    ],
)
def test_cells_count_leaders_replicas_and_bytes_per_broker(
    metric: Metric, cells: list[list[float]]
) -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1], "t-2": [1, 3]}, size_bytes=100)
    assert heat_map(state, Load.unknown(state), metric).values.tolist() == cells


def test_cell_with_an_unknown_rate_is_unknown_and_not_zero() -> None:
    state = cluster({"t-0": [1], "t-1": [2], "u-0": [1]})
    heat = heat_map(state, load_of(state, {"t-0": MB}), Metric.IN)
    cells = dict(zip(heat.topics, heat.values.tolist(), strict=True))
    assert cells["t"][0] == MB
    assert np.isnan(cells["t"][1])
    assert np.isnan(heat.total[heat.topics.index("u")])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1e9)), min_size=1, max_size=40),
    st.sampled_from([Metric.IN, Metric.OUT, Metric.LEADERS]),
)
def test_cells_rows_and_brokers_add_up(partitions: list[tuple[int, float]], metric: Metric) -> None:
    state, load = spread([leader for leader, _ in partitions], [rate for _, rate in partitions])
    heat, totals = heat_map(state, load, metric), broker_totals(state, load)
    assert np.nansum(heat.values) == pytest.approx(heat.total.sum())
    assert np.nansum(totals.values[metric]) == pytest.approx(heat.total.sum())
    assert totals.fair[metric].sum() == pytest.approx(heat.total.sum())


def test_fair_share_leaves_dead_brokers_out() -> None:
    state = cluster({"t-0": [1], "t-1": [2]}, brokers=[1, 2, 3], dead=[3])
    assert fair_parts(state, Metric.LEADERS).tolist() == [0.5, 0.5, 0.0]


def test_fair_share_follows_capacity_only_if_all_capacities_are_known() -> None:
    state = cluster({"t-0": [1], "t-1": [2]})
    big, small = state.brokers
    known = state.with_brokers(
        [
            replace(big, in_capacity_bytes_per_s=300.0),
            replace(small, in_capacity_bytes_per_s=100.0),
        ]
    )
    assert fair_parts(known, Metric.IN).tolist() == [0.75, 0.25]
    half = state.with_brokers([replace(big, in_capacity_bytes_per_s=300.0), small])
    assert fair_parts(half, Metric.IN).tolist() == [0.5, 0.5]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 5), st.one_of(st.just(np.nan), st.floats(0, 1e9))
        ),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([(), (2,), (1, 3)]),
    st.sampled_from([Metric.IN, Metric.LEADERS, Metric.REPLICAS]),
    st.sampled_from([1, 7, heat_module.BLOCK_CELLS]),
)
def test_level_skew_and_excess_match_the_cell_by_cell_definition(
    partitions: list[tuple[int, int, float]], dead: tuple[int, ...], metric: Metric, block: int
) -> None:
    """The definition of level, skew and excess, cell by cell, whatever is judged at a time."""
    names = [f"t{topic}-{n}" for n, (topic, _, _) in enumerate(partitions)]
    held = {name: [leader] for name, (_, leader, _) in zip(names, partitions, strict=True)}
    state = cluster(held, brokers=[1, 2, 3, 4, 5], dead=dead)
    load = load_of(state, {n: rate for n, (_, _, rate) in zip(names, partitions, strict=True)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heat_module, "BLOCK_CELLS", block)
        heat = heat_map(state, load, metric)
    enough = SMALL * np.nansum(heat.total) / (5 - len(dead))
    for row in range(len(heat.topics)):
        piece = heat.total[row] / heat.partitions[row]
        ratios, excess = [0.0], []
        for column, broker in enumerate(state.brokers):
            value, fair = heat.values[row, column], heat.fair[row, column]
            off, level = value - fair, 0
            if abs(off) >= piece * 0.999:
                ratio = value / fair if fair > 0 else 1.0
                level = bisect_right(ABOVE, ratio) if off > 0 else 0
                if off <= 0:
                    level = -sum(ratio <= below for below in BELOW)
                level = max(-PALE, min(PALE, level)) if abs(off) < enough else level
            assert heat.level[row, column] == level
            share = max(fair, piece)
            ratios += [value / share] if share > 0 and not np.isnan(value) else []
            excess += [off] if broker.alive and off >= piece * 0.999 else []
        known = not np.isnan(heat.total[row])
        assert heat.skew[row] == max(ratios) if known else np.isnan(heat.skew[row])
        assert heat.excess[row] == pytest.approx(sum(excess))


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (0.1, -4),
        (0.3, -3),
        (0.5, -2),
        (0.7, -1),
        (0.9, 0),
        (1.0, 0),
        (1.15, 0),
        (1.25, 1),
        (1.5, 2),
        (1.7, 3),
        (2.1, 4),
    ],
)
def test_colour_follows_the_ratio_to_fair_share(ratio: float, level: int) -> None:
    levels = deviation_levels(np.array([ratio]), np.array([1.0]), np.array([0.0]))
    assert levels.tolist() == [level]


def test_imbalance_that_moving_one_partition_cannot_fix_is_not_flagged() -> None:
    state, load = spread([1], [50 * MB])
    heat = heat_map(state, load, Metric.IN)
    assert heat.level.tolist() == [[0, 0, 0, 0]]
    assert heat.skew.tolist() == [1.0]
    assert heat.excess.tolist() == [0.0]


def test_a_tiny_topic_stays_pale_and_does_not_come_first() -> None:
    replicas = {f"big-{n}": [1 + n % 4] for n in range(40)} | {f"tiny-{n}": [1] for n in range(8)}
    state = cluster(replicas, brokers=[1, 2, 3, 4])
    rates = {f"big-{n}": (14 if n % 4 == 0 else 10) * MB for n in range(40)}
    load = load_of(state, rates | {f"tiny-{n}": 0.1 * MB for n in range(8)})
    heat = heat_map(state, load, Metric.IN)
    tiny, big = heat.topics.index("tiny"), heat.topics.index("big")
    assert heat.skew[tiny] > heat.skew[big]
    assert heat.order(Order.EXCESS).tolist() == [big, tiny]
    assert heat.order(Order.SKEW).tolist() == [tiny, big]
    assert abs(heat.level[tiny]).max() == 1


def test_partitions_come_hottest_first_or_by_number() -> None:
    state, load = spread([1, 2, 3], [1 * MB, 9 * MB, 4 * MB])
    hottest = partition_map(state, load, "t", Metric.IN, Order.EXCESS)
    assert state.partition[hottest.rows].tolist() == [1, 2, 0]
    assert partition_map(state, load, "t", Metric.IN, Order.NAME).rows.tolist() == [0, 1, 2]


def test_partition_in_reassignment_shows_the_role_of_each_replica() -> None:
    state = cluster(
        {"t-0": [1, 2, 3, 4]}, isr={"t-0": [1, 2]}, adding={"t-0": [4]}, removing={"t-0": [2]}
    )
    assert replica_roles(state, 0) == {
        1: ReplicaRole.LEADER,
        2: ReplicaRole.LEAVING,
        3: ReplicaRole.OUT_OF_SYNC,
        4: ReplicaRole.ARRIVING,
    }


# -- verdicts --------------------------------------------------------------------------------------


def sentences(state: ClusterState, load: Load | None = None) -> list[str]:
    return [v.sentence for v in verdicts(state, load or Load.unknown(state))]


def test_healthy_cluster_has_only_fine_verdicts() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1]}, racks={1: "a", 2: "b"})
    cluster_verdicts = verdicts(state, load_of(state, {"t-0": MB, "t-1": MB}))
    assert {verdict.weight for verdict in cluster_verdicts} == {Weight.FINE}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (cluster({"t-0": [1, 2]}, brokers=[1, 2, 9], dead=[9]), "b9 down"),
        (cluster({"t-0": [1, 2]}, leaders={"t-0": -1}), "1 without leader"),
        (cluster({"t-0": [1, 2]}, isr={"t-0": [1]}), "1 out of sync"),
        (cluster({"t-0": [1, 2]}, adding={"t-0": [2]}, isr={"t-0": [1]}), "1 moving"),
        (
            cluster({"t-0": [1, 2]}, brokers=[1, 2, 3], racks={1: "a", 2: "a", 3: "b"}),
            "1 share a rack",
        ),
        (cluster({"t-0": [1]}, disk_bytes=(100, 10)), "b1 disk 90%"),
    ],
)
def test_verdicts_name_each_cluster_problem(state: ClusterState, sentence: str) -> None:
    assert sentence in sentences(state)


@given(
    st.lists(st.sets(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=12),
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=6, max_size=6),
)
def test_rack_verdict_counts_partitions_that_avoidably_share_a_rack(
    held: list[set[int]], racks: list[str | None]
) -> None:
    named = {rack for rack in racks if rack is not None}
    state = cluster(
        {f"t-{n}": sorted(brokers) for n, brokers in enumerate(held)},
        brokers=range(1, 7),
        racks={n: rack for n, rack in enumerate(racks, 1) if rack is not None},
    )
    narrow = [
        brokers
        for brokers in held
        if len({racks[broker - 1] for broker in brokers}) < min(len(brokers), len(named))
    ]
    rack_sentences = {v.sentence for v in verdicts(state, Load.unknown(state)) if v.id == "racks"}
    if len(named) < 2:
        assert not rack_sentences
    else:
        assert rack_sentences == ({f"{len(narrow)} share a rack"} if narrow else {"racks"})


def test_fair_share_counts_brokers_that_hold_no_replicas() -> None:
    """kafbat's case: 3, 4, 1 and 0 replicas are 2 a broker, not 8/3 over those that hold some."""
    held = [1] * 3 + [2] * 4 + [3]
    state = cluster({f"t-{n}": [broker] for n, broker in enumerate(held)}, brokers=[1, 2, 3, 4])
    totals = broker_totals(state, Load.unknown(state))
    assert totals.values[Metric.REPLICAS].tolist() == [3, 4, 1, 0]
    assert totals.fair[Metric.REPLICAS].tolist() == [2, 2, 2, 2]
    assert totals.skew(Metric.REPLICAS) == 2.0


def test_skew_of_both_in_and_out_is_reported_once_in_words() -> None:
    replicas = {f"t-{n}": [1 if n < 5 else 2 + n % 3] for n in range(8)}
    state = cluster(replicas, brokers=[1, 2, 3, 4])
    load = load_of(state, {f"t-{n}": (3 if n < 5 else 1) * MB for n in range(8)})
    lines = sentences(state, replace(load, out_bytes_per_s=load.in_bytes_per_s * 2))
    assert lines[0] == "b1 in 3.3× fair share"
    assert lines[1] == "b1 leads 150% more"
    assert not any("out" in sentence for sentence in lines)


def test_verdicts_are_sorted_worst_first() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [1, 2], "t-2": [1, 2]}, isr={"t-0": [1]})
    weights_found = [v.weight for v in verdicts(state, Load.unknown(state))]
    assert weights_found == sorted(weights_found)
    assert weights_found[0] is Weight.ACT


def test_heat_map_text_contains_ids_values_and_verdicts() -> None:
    state, load = spread([1, 1, 2, 3, 4], [9 * MB, 8 * MB, 2 * MB, 2 * MB, 2 * MB])
    text = heat_text(state, load, width=120)
    assert "b1 in 3.0× fair share" in text
    assert any(
        line.split() == ["t", "23", "17+", "2", "2", "2", "3.0×"] for line in text.splitlines()
    ), text


def test_heat_map_text_reports_omitted_topics_and_brokers() -> None:
    state = cluster({f"t{n}-0": [n] for n in range(1, 31)})
    text = heat_text(state, Load.unknown(state), limit=5, width=80)
    assert "25 more topics" in text
    assert "more brokers" in text
    assert max(map(len, text.splitlines()[2:])) <= 80


@pytest.mark.parametrize("known", ["all", "in only", "nothing"])
def test_plan_effect_starts_from_the_totals_of_the_heat_map(known: str) -> None:
    """What the map shows of a broker and what a plan's impact says of it are the same numbers."""
    state = cluster({"t-0": [1, 2], "t-1": [2, 1], "u-0": [1, 3]}, size_bytes=100)
    load = load_of(state, {"t-0": 5 * MB, "t-1": 3 * MB, "u-0": MB})
    load = replace(load, out_bytes_per_s=load.in_bytes_per_s * 2)
    unknown = np.full(state.partition_count, np.nan)
    if known != "all":
        load = replace(load, out_bytes_per_s=unknown)
    if known == "nothing":
        load = replace(load, in_bytes_per_s=unknown)
    totals, before = broker_totals(state, load), compute_effect(state, load, Plan()).before
    for metric, values in (
        (Metric.IN, before.in_bytes_per_s),
        (Metric.OUT, before.out_bytes_per_s),
        (Metric.LEADERS, before.leaders),
        (Metric.REPLICAS, before.replicas),
    ):
        np.testing.assert_array_equal(totals.values[metric], values)
    np.testing.assert_array_equal(totals.disk_used, before.disk_fraction)


HIGHEST = 2**31 - 1


def test_a_broker_with_the_highest_id_takes_no_more_memory() -> None:
    """Counted by id, one verdict would take 16 GiB."""
    spec = small_spec({"t": [(1, HIGHEST), (1, 2)]}, racks={1: "a", 2: "a", HIGHEST: "b"})
    state = SimulatedCluster(spec).describe_cluster()
    behind = replace(state, in_sync=state.replica_broker != HIGHEST)
    verdict_by_id = {verdict.id: verdict for verdict in verdicts(behind, load_of(behind))}
    assert verdict_by_id["racks"].sentence == "1 share a rack"
    assert verdict_by_id["out-of-sync"].broker == HIGHEST


@pytest.mark.parametrize(
    ("used", "sentences"),
    [
        (0.5, {"b2 log dir failed"}),
        (0.97, {"b2 log dir failed", "b1 disk 97%"}),
    ],
)
def test_failed_log_dir_is_not_reported_as_a_fine_disk(used: float, sentences: set[str]) -> None:
    """Its sizes are unknown, so that by the others alone all disks would seem to be."""
    state = cluster({"t-0": [1, 2]}, size_bytes=1)
    full = LogDir("/a", 1_000, round(1_000 * (1 - used)))
    failed = LogDir("/b", error="KAFKA_STORAGE_ERROR")
    state = state.with_brokers([Broker(1, log_dirs=(full,)), Broker(2, log_dirs=(failed,))])
    disk_verdicts = [
        verdict for verdict in verdicts(state, load_of(state)) if verdict.id == "disks"
    ]
    assert {verdict.sentence for verdict in disk_verdicts} == sentences
    assert {verdict.weight for verdict in disk_verdicts} == {Weight.ACT}


@pytest.mark.parametrize(
    ("hidden", "ids"),
    [
        (None, ["disks", "racks"]),
        (HiddenTopics(), ["disks", "racks"]),
        (HiddenTopics(2, (HiddenLogDir(1, "/a", 2, 3, 500),)), ["skew-size", "hidden", "disks"]),
        (HiddenTopics(why_unknown="nobody told"), ["hidden", "disks"]),
    ],
)
def test_hidden_topics_are_reported_and_no_verdict_they_may_break_is_fine(
    hidden: HiddenTopics | None, ids: list[str]
) -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1]}, size_bytes=100, disk_bytes=(1_000, 500))
    brokers = [replace(b, rack="ab"[b.id - 1]) for b in state.brokers]
    state = replace(state.with_brokers(brokers), hidden=hidden)
    assert [verdict.id for verdict in verdicts(state, load_of(state))] == ids
