"""How what brokers have counted becomes rates of partitions: reports, names, the split."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from core.cluster.metadata import Broker, PartitionRow, Topic
from core.cluster.state import ClusterState
from core.load.collector.counted import split
from core.load.samples import Method
from core.load.sources.metrics import known_topics
from core.load.sources.reports import MAX_AGE_MS, SETTLED_MS, Kind, ReportedValue, Reports

NAN = float("nan")
MINUTE = 60_000
NOW = 1_750_000_000_000


# -- split -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "growth", "messages", "shares", "method"),
    [
        (12.0, [4, 1, 1], [1, 1, 1], [8, 2, 2], Method.SPLIT),
        (12.0, [4, NAN, 1], [2, 1, 1], [6, 3, 3], Method.SPLIT),
        (12.0, [0, 0, 0], [2, 1, 1], [6, 3, 3], Method.SPLIT),
        (12.0, [4, NAN, 1], [2, NAN, 1], [4, 4, 4], Method.EVEN_SPLIT),
        (12.0, [0, 0, 0], [0, 0, 0], [4, 4, 4], Method.EVEN_SPLIT),
        (0.0, [4, 1, 1], [1, 1, 1], [0, 0, 0], Method.COUNTED),
        (NAN, [4, 1, 1], [1, 1, 1], [NAN, NAN, NAN], Method.NONE),
    ],
)
def test_topic_total_is_split_by_the_first_weight_known_for_all_partitions(
    total: float, growth: list[float], messages: list[float], shares: list[float], method: Method
) -> None:
    groups = np.array([0, 0, 0, -1], np.int64)
    weights = [np.array([*weight, 7.0], float) for weight in (growth, messages)]
    parts, how = split(groups, np.full(4, total), weights)
    np.testing.assert_allclose(parts, [*shares, NAN])
    assert how.tolist() == [method] * 3 + [Method.NONE]


def test_single_partition_gets_the_whole_count_without_a_split() -> None:
    parts, how = split(np.array([0]), np.array([5.0]), [np.array([NAN])])
    assert (parts.tolist(), how.tolist()) == ([5.0], [Method.COUNTED])


@given(
    groups=npst.arrays(np.int64, 12, elements=st.integers(-1, 3)),
    totals=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
    weights=st.lists(
        npst.arrays(float, 12, elements=st.one_of(st.just(NAN), st.floats(0, 1e12))), max_size=3
    ),
)
def test_split_neither_loses_nor_invents_bytes(
    groups: Any, totals: list[float], weights: Any
) -> None:
    of_group = np.where(groups >= 0, np.array(totals)[groups], NAN)
    shares, _ = split(groups, of_group, weights)
    assert (np.isnan(shares) == (groups < 0)).all()
    assert not (shares < 0).any()
    for group in set(groups[groups >= 0].tolist()):
        assert shares[groups == group].sum() == pytest.approx(totals[group])


# -- names -----------------------------------------------------------------------------------------


def state_of(*names: str) -> ClusterState:
    return ClusterState.build(
        cluster_id="c",
        fetched_at=datetime.now(UTC),
        brokers=[Broker(1), Broker(2)],
        topics=[Topic(name) for name in names],
        partitions=[PartitionRow(name, 0, leader=1, replicas=(1, 2), isr=(1, 2)) for name in names],
    )


@pytest.mark.parametrize(
    ("names", "reported", "topic"),
    [
        (("a.b.c",), "a_b_c", "a.b.c"),
        (("a.b.c",), "a.b.c", "a.b.c"),
        (("a_b",), "a_b", "a_b"),
        (("a.b", "a_b"), "a_b", None),
        (("a.b", "a_b"), "a.b", "a.b"),
        (("a.b",), "a.c", None),
    ],
)
def test_dots_in_reported_topic_names_are_restored_from_existing_topics(
    names: tuple[str, ...], reported: str, topic: str | None
) -> None:
    assert known_topics(state_of(*names)).get(reported) == topic


# -- reports ---------------------------------------------------------------------------------------


def values(at_ms: int, rate: float, *sizes: float) -> list[ReportedValue]:
    """Return one report of broker 1: a rate of topic t, and sizes of its partitions."""
    return [
        ReportedValue(Kind.TOPIC_IN, 1, at_ms, "t", -1, rate),
        *(ReportedValue(Kind.SIZE, 1, at_ms, "t", p, size) for p, size in enumerate(sizes)),
    ]


def reports_of(*broker_reports: list[ReportedValue]) -> Reports:
    reports = Reports()
    for report in broker_reports:
        for value in report:
            reports.add(value, value.topic)
    return reports


def test_growth_is_measured_between_two_reports_of_the_same_broker() -> None:
    reports = reports_of(values(NOW, 1.0, 600, 100), values(NOW + MINUTE, 3.0, 1200, 40))
    (counted,) = reports.take(NOW + 2 * MINUTE).values()
    assert counted.topic_in == {"t": 2.0}
    assert counted.size == {"t": {0: 1200, 1: 40}}
    assert counted.growth == {"t": {0: 10.0}}, "nobody knows how much came to a log that shrank"


def test_each_take_averages_the_reports_since_the_previous_one() -> None:
    reports = reports_of(values(NOW, 1.0, 0), values(NOW + MINUTE, 3.0, 600))
    reports.take(NOW + 2 * MINUTE)
    again = reports.take(NOW + 2 * MINUTE + 1)[1]
    assert (again.topic_in, again.growth) == ({"t": 3.0}, {"t": {0: 10.0}})
    for report in (values(NOW + 2 * MINUTE, 5.0, 1800), values(NOW + 3 * MINUTE, 7.0, 3000)):
        for value in report:
            reports.add(value, value.topic)
    newest = reports.take(NOW + 4 * MINUTE)[1]
    assert (newest.topic_in, newest.growth) == ({"t": 6.0}, {"t": {0: 20.0}})


def test_report_counts_only_after_it_has_settled() -> None:
    reports = reports_of(values(NOW, 1.0, 0), values(NOW + MINUTE, 3.0, 600))
    assert reports.take(NOW + MINUTE + SETTLED_MS - 1)[1].topic_in == {"t": 1.0}
    assert reports.take(NOW + MINUTE + SETTLED_MS)[1].topic_in == {"t": 3.0}


def test_broker_without_recent_reports_is_dropped() -> None:
    reports = reports_of(values(NOW, 1.0, 0))
    assert reports.take(NOW + MAX_AGE_MS + SETTLED_MS)
    assert not reports.take(NOW + MAX_AGE_MS + SETTLED_MS + 1)
    assert not reports._reports, "nothing is kept of one that is gone"


def test_largest_log_size_reported_for_a_replica_counts() -> None:
    reports = reports_of(
        [ReportedValue(Kind.SIZE, 1, NOW, "t", 0, size) for size in (10.0, 90.0, 20.0)]
    )
    assert reports.take(NOW + SETTLED_MS)[1].size == {"t": {0: 90.0}}


def test_only_reports_still_needed_are_kept() -> None:
    reports = Reports()
    for minute in range(50):
        for value in values(NOW + minute * MINUTE, 1.0, minute):
            reports.add(value, value.topic)
        reports.take(NOW + (minute + 1) * MINUTE)
    assert len(reports._reports[1]) == 2
    for value in values(NOW, 1.0, 0):
        reports.add(value, value.topic)
    assert len(reports._reports[1]) == 2, "what was read anew after a pause is not taken again"
