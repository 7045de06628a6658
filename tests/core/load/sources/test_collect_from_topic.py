"""The collector that takes bytes from a metrics topic, on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from metric_records import (
    TOPIC_IN,
    CruiseControlReporters,
    FakeTopic,
    automq_record,
    cruise_control_record,
    relative_errors,
)
from simulated import small_spec

from core.cluster.client import ForwardingClient
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import BrokerSpec, ClusterSpec, PartitionSpec, TopicSpec
from core.errors import TrimtabError, UnreachableError
from core.load import load_paths as layout
from core.load import spool
from core.load.collector.collector import Collector, PollResult
from core.load.samples import Method
from core.load.sources import automq, cruise_control
from core.load.sources.metrics_topic import MAX_BAD_KEPT, Format, MetricsTopic

CRUISE_CONTROL = Format("cruise-control", cruise_control.TOPICS, cruise_control.decode)
AUTOMQ = Format("automq", automq.TOPICS, automq.decode)


def source_of(cluster: SimulatedCluster, topic: FakeTopic, format: Format) -> MetricsTopic:
    return MetricsTopic(format, lambda _: topic, cluster.clock)


def rows_of(polled: PollResult) -> list[dict[str, Any]]:
    return pq.ParquetFile(polled.segment).read().to_pylist()


def small_cluster() -> SimulatedCluster:
    return SimulatedCluster(
        small_spec(
            {
                "a.hot": [(1, 2), (1, 2), (2, 1)],
                "quiet": [(1, 2), (1, 2)],
                "__CruiseControlMetrics": [(1,)],
                "__auto_balancer_metrics": [(2,)],
            },
            in_bytes_per_s={
                TopicPartition("a.hot", p): 1e6 * rate for p, rate in enumerate((4, 1, 2))
            },
        )
    )


def test_collected_bytes_are_those_that_brokers_counted(tmp_path: Path) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    reporters = CruiseControlReporters(cluster, topic)
    collector = Collector(
        cluster, cluster.clock, tmp_path, metrics=source_of(cluster, topic, CRUISE_CONTROL)
    )
    reporters.advance(180)
    collector.poll()
    reporters.advance(60)
    rows = {(r["topic"], r["partition"], r["broker_id"]): r for r in rows_of(collector.poll())}
    hot = rows["a.hot", 0, 1]
    assert (hot["source"], hot["in_method"], hot["out_method"]) == ("cruise-control", 4, 4)
    assert hot["in_bytes"] / 60 == pytest.approx(4e6, rel=0.01)
    assert hot["out_bytes"] / 60 == pytest.approx(8e6, rel=0.01)
    assert rows["a.hot", 1, 1]["in_bytes"] / 60 == pytest.approx(1e6, rel=0.01)
    alone = rows["a.hot", 2, 2]
    assert (alone["in_method"], alone["in_bytes"] / 60) == (1, pytest.approx(2e6, rel=0.01))
    followed = rows["a.hot", 0, 2]
    assert followed["in_bytes"] is None
    assert rows["quiet", 0, 1]["in_bytes"] == 0


def test_sizes_come_from_broker_reports_when_log_dirs_are_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    reporters = CruiseControlReporters(cluster, topic)
    source = source_of(cluster, topic, CRUISE_CONTROL)
    collector = Collector(cluster, cluster.clock, tmp_path, metrics=source)
    reporters.advance(120)
    with monkeypatch.context() as denied:
        denied.setattr(
            cluster, "describe_log_dirs", lambda ids: [BrokerLogs(i, error="denied") for i in ids]
        )
        collector.poll()
        cluster.advance(60)
        rows = {(r["topic"], r["partition"], r["broker_id"]): r for r in rows_of(collector.poll())}
    hot = rows["a.hot", 0, 1]
    assert hot["size_bytes"] > 100_000_000
    assert hot["size_delta"] / 60 == pytest.approx(4e6, rel=0.01)
    assert hot["in_bytes"] / 60 == pytest.approx(4e6, rel=0.01)
    assert (hot["in_method"], hot["log_dir"]) == (Method.SPLIT, None)


def cruise_control_broker(record: bytes) -> int:
    return int.from_bytes(record[11:15], "big")


def test_collector_keeps_its_own_measurement_where_a_broker_reports_nothing(tmp_path: Path) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    reporters = CruiseControlReporters(cluster, topic)
    source = source_of(cluster, topic, CRUISE_CONTROL)
    collector = Collector(cluster, cluster.clock, tmp_path, metrics=source)

    def without_broker_2(seconds: int) -> None:
        reporters.advance(seconds)
        topic.records[:] = [
            b"" if cruise_control_broker(r) == 2 and len(r) > 23 else r for r in topic.records
        ]

    without_broker_2(120)
    collector.poll()
    without_broker_2(60)
    rows = {(r["topic"], r["partition"]): r for r in rows_of(collector.poll()) if r["is_leader"]}
    assert rows["a.hot", 2]["in_method"] == Method.CLEAN_SIZE
    assert rows["a.hot", 2]["in_bytes"] / 60 == pytest.approx(2e6, rel=0.02)
    assert rows["a.hot", 0]["in_method"] == Method.SPLIT


def test_topic_without_new_messages_has_zero_bytes_despite_its_broker_meter(tmp_path: Path) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    at_ms = round(cluster.now.timestamp() * 1000)
    topic.records = [cruise_control_record(TOPIC_IN, at_ms, 1, 1e6, "quiet")]
    source = source_of(cluster, topic, CRUISE_CONTROL)
    collector = Collector(cluster, cluster.clock, tmp_path, metrics=source)
    for _ in range(2):
        cluster.advance(20)
        rows = rows_of(collector.poll())
    quiet = [row for row in rows if row["topic"] == "quiet" and row["is_leader"]]
    assert [row["in_bytes"] for row in quiet] == [0.0, 0.0]


def test_automq_brokers_count_bytes_per_partition(tmp_path: Path) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    collector = Collector(
        cluster, cluster.clock, tmp_path, metrics=source_of(cluster, topic, AUTOMQ)
    )
    for _ in range(3):
        at_ms = round(cluster.now.timestamp() * 1000)
        topic.records += [
            automq_record(at_ms, 1, {0: 7e6, 1: 3e6, 2: 5e9}, "a.hot", 0, rack="r"),
            automq_record(at_ms, 2, {0: 9.0, 1: 9.0, 2: 5e9}, "a.hot", 0),  # leads it no more
            automq_record(at_ms, 1, {3: 1.0, 6: 2.0}),
        ]
        cluster.advance(10)
        polled = collector.poll()
    hot = next(r for r in rows_of(polled) if r["topic"] == "a.hot" and r["is_leader"])
    assert (hot["source"], hot["in_method"], hot["out_method"]) == ("automq", 1, 1)
    assert (hot["in_bytes"], hot["out_bytes"]) == (7e7, 3e7)


def test_bad_records_are_counted_and_kept_with_their_reason(tmp_path: Path) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    now_ms = round(cluster.now.timestamp() * 1000)
    topic.records = [
        cruise_control_record(TOPIC_IN, now_ms, 1, 1e6, "a_hot"),
        b"rubbish",
        cruise_control_record(TOPIC_IN, now_ms, 1, 1e6, "a_hot", version=9),
        cruise_control_record(TOPIC_IN, now_ms + 120_000, 1, 1e6, "a_hot"),
        cruise_control_record(TOPIC_IN, now_ms, 1, 1e6, "nobody_knows_it"),
        *[b""] * MAX_BAD_KEPT,
    ]
    cluster.advance(20)
    source = source_of(cluster, topic, CRUISE_CONTROL)
    collector = Collector(cluster, cluster.clock, tmp_path, metrics=source)
    polled = collector.poll()
    assert polled.quarantined == {"length": 1 + MAX_BAD_KEPT, "version": 1, "future": 1}
    cluster_id = cluster.spec.cluster_id
    assert spool.quarantined_segments(tmp_path, cluster_id) == {"records": 1}
    (path,) = (layout.quarantine(tmp_path, cluster_id) / "records").glob("*.parquet")
    kept = pq.ParquetFile(path).read().to_pylist()
    assert len(kept) == MAX_BAD_KEPT
    assert kept[0] == {"partition": 0, "offset": 1, "reason": "length", "value": b"rubbish"}
    assert [row["reason"] for row in kept[1:3]] == ["version", "future"]
    cluster.advance(20)
    assert collector.poll().quarantined == {}


def forget_topics(cluster: SimulatedCluster, topic: FakeTopic) -> None:
    cluster.delete_topic("__CruiseControlMetrics")


def age(cluster: SimulatedCluster, topic: FakeTopic) -> None:
    cluster.advance(600)


@pytest.mark.parametrize(
    ("harm", "error", "title"),
    [
        (forget_topics, TrimtabError, "has no topic __CruiseControlMetrics"),
        (age, UnreachableError, "No broker has reported"),
    ],
)
def test_metrics_source_without_topic_or_recent_reports_is_reported(
    tmp_path: Path,
    harm: Callable[[SimulatedCluster, FakeTopic], None],
    error: type[TrimtabError],
    title: str,
) -> None:
    cluster, topic = small_cluster(), FakeTopic()
    CruiseControlReporters(cluster, topic).advance(60)
    harm(cluster, topic)
    source = source_of(cluster, topic, CRUISE_CONTROL)
    with pytest.raises(error, match=title):
        Collector(cluster, cluster.clock, tmp_path, metrics=source).poll()


# -- beside the truth ------------------------------------------------------------------------------


class DeniedLogDirs(ForwardingClient):
    """The cluster, for a user who may not describe log dirs."""

    def describe_log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        return tuple(BrokerLogs(broker, error="denied") for broker in brokers)


@pytest.mark.parametrize("may_see_log_dirs", [True, False])
def test_hot_partition_is_measured_where_an_even_split_underestimates_it(
    tmp_path: Path, may_see_log_dirs: bool
) -> None:
    """One of 12 partitions takes ten times what each other does; segments are deleted meanwhile."""
    brokers, minutes = (1, 2, 3, 4), 15
    hot = TopicSpec(
        "hot.topic",
        tuple(
            PartitionSpec(
                (brokers[p % 4], brokers[(p + 1) % 4]),
                size_bytes=round(rate * 300),
                in_bytes_per_s=rate,
            )
            for p, rate in enumerate([10e6] + [1e6] * 11)
        ),
        {"retention.ms": "300000", "segment.bytes": "100000000"},
        rhythm=0.3,
        jitter=0.3,
    )
    metrics = TopicSpec("__CruiseControlMetrics", (PartitionSpec((1,), 0, 0.0),))
    spec = ClusterSpec("c", tuple(BrokerSpec(b) for b in brokers), (hot, metrics))
    cluster, topic = SimulatedCluster(spec, seed=1), FakeTopic()
    reporters = CruiseControlReporters(cluster, topic)
    client = cluster if may_see_log_dirs else cast("SimulatedCluster", DeniedLogDirs(cluster))
    source = source_of(cluster, topic, CRUISE_CONTROL)
    collector = Collector(client, cluster.clock, tmp_path, metrics=source)
    reporters.advance(180)
    collector.poll()
    began = cluster._engine.logs.end.copy()
    ours, methods = np.zeros(12), set()
    for _ in range(minutes):
        reporters.advance(60)
        for row in rows_of(collector.poll()):
            if row["topic"] == "hot.topic" and row["is_leader"]:
                ours[row["partition"]] += row["in_bytes"]
                methods.add(row["in_method"])
    rows = cluster.describe_cluster().partitions_of("hot.topic")
    truth = (cluster._engine.logs.end - began)[rows.start : rows.stop]
    leader = np.array(brokers)[np.arange(12) % 4]
    # As Cruise Control's own model has it, and at its best: of each broker's exact count.
    even = np.array([truth[leader == broker].mean() for broker in leader])
    assert methods == {Method.SPLIT}
    assert np.median(relative_errors(ours, truth)) < 0.02
    assert relative_errors(ours, truth).max() < 0.05
    assert even[0] / truth[0] < 0.5
    assert relative_errors(even, truth).max() > 2
