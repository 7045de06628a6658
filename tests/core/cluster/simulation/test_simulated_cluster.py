"""The simulated cluster lives as a real one does: load, faults, reassignments, configs, disks."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from effort import effort
from simulated import small_spec

from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    Resource,
)
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.cluster.simulation.spec import GroupSpec
from core.cluster.state import ClusterState

MB = 1_000_000
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def three(**options: object) -> SimulatedCluster:
    """Return brokers 1 to 4 with t-0 on 1,2,3 and t-1 on 2,3,1."""
    return SimulatedCluster(
        small_spec({"t": [(1, 2, 3), (2, 3, 1)]}, brokers=(4,), **options)  # type: ignore[arg-type]
    )


def look(client: ClusterClient) -> ClusterState:
    """Return the state with sizes and lags."""
    state = client.describe_cluster()
    return with_log_dirs(state, client.describe_log_dirs([b.id for b in state.brokers if b.alive]))


def sizes(client: ClusterClient, tp: TopicPartition) -> dict[int, int]:
    state = look(client)
    index = state.find(tp)
    assert index is not None
    at = state.replica_slice(index)
    return dict(zip(state.replica_broker[at].tolist(), state.size_bytes[at].tolist(), strict=True))


def row(client: ClusterClient, tp: TopicPartition):  # type: ignore[no-untyped-def]
    state = client.describe_cluster()
    index = state.find(tp)
    assert index is not None
    return state.row(index)


# -- time and load ---------------------------------------------------------------------------------


def test_sleeping_on_the_simulated_clock_advances_the_cluster() -> None:
    cluster = three(in_bytes_per_s=1.0 * MB, size_bytes=0)
    began = cluster.clock.now()
    cluster.clock.sleep(10)
    assert cluster.clock.now() - began == timedelta(seconds=10)
    assert cluster.clock.monotonic() == pytest.approx(10)
    assert sizes(cluster, T0) == {b: pytest.approx(10 * MB) for b in (1, 2, 3)}


def test_cluster_is_the_same_for_equal_seeds_and_differs_for_other_seeds() -> None:
    def outcome(seed: int) -> tuple[list[int], list[int], str]:
        cluster = SimulatedCluster(demo_spec(seed, 6, 200), seed)
        cluster.advance(30)
        state = look(cluster)
        return (
            state.size_bytes.tolist(),
            state.replica_broker.tolist(),
            str(cluster.describe_groups()),
        )

    assert outcome(1) == outcome(1)
    assert outcome(1)[0] != outcome(2)[0]


@pytest.mark.parametrize(
    ("config", "value", "left"),
    [("retention.ms", "60000", 60), ("retention.bytes", str(30 * MB), 30)],
)
def test_retention_deletes_whole_old_segments(config: str, value: str, left: int) -> None:
    cluster = three(
        in_bytes_per_s=1.0 * MB,
        size_bytes=0,
        topic_configs={"t": {"segment.bytes": str(5 * MB)}},
    )
    cluster.advance(200)
    assert cluster.fetch_offsets([T0], OffsetAt.EARLIEST)[T0] == pytest.approx(
        cluster.fetch_offsets([T0], OffsetAt.LATEST)[T0] - 200_000, abs=2
    )
    changes = [ConfigChange(Resource.topic("t"), config, ConfigOp.SET, value)]
    assert not any(cluster.alter_configs(changes).values())
    cluster.advance(20)
    assert left * MB <= sizes(cluster, T0)[1] <= (left + 16) * MB
    assert len(set(sizes(cluster, T0).values())) == 1


def test_slow_copy_has_no_negative_size_while_its_leader_expires_segments() -> None:
    cluster = three(
        in_bytes_per_s=5.0 * MB,
        size_bytes=60 * MB,
        topic_configs={"t": {"segment.bytes": str(5 * MB), "retention.bytes": str(30 * MB)}},
    )
    slowly = [
        ConfigChange(Resource.topic("t"), FOLLOWER_LIST, ConfigOp.SET, "0:4"),
        ConfigChange(Resource.broker(4), FOLLOWER_RATE, ConfigOp.SET, str(MB)),
    ]
    assert not any(cluster.alter_configs(slowly).values())
    assert not any(cluster.alter_reassignments({T0: (1, 2, 4)}).values())
    for _ in range(30):
        cluster.advance(10)
        assert sizes(cluster, T0)[4] >= 0


def test_active_group_keeps_up_and_empty_group_falls_behind() -> None:
    cluster = three(
        in_bytes_per_s=1.0 * MB,
        groups=(GroupSpec("reads", ("t",), 2, 1.0), GroupSpec("gone", ("t",), 0, 1.0)),
    )
    cluster.advance(60)
    gone, reads = cluster.describe_groups()
    end = cluster.fetch_offsets([T0], OffsetAt.LATEST)[T0]
    assert end - reads.committed[T0] == pytest.approx(1_000, abs=2)
    assert end - gone.committed[T0] == pytest.approx(61_000, abs=2)
    assert (reads.state, gone.state) == ("stable", "empty")
    assert sorted(tp for m in reads.members for tp in m.assignment) == [T0, T1]


# -- reassignments ---------------------------------------------------------------------------------


def test_move_to_a_stopped_broker_is_accepted_and_hangs_until_the_broker_is_back() -> None:
    cluster = three()
    cluster.stop_broker(4)
    assert cluster.alter_reassignments({T0: (4, 2, 3)}) == {T0: None}
    cluster.advance(60)
    assert T0 in cluster.fetch_reassignments()
    cluster.start_broker(4)
    cluster.advance(5)
    assert row(cluster, T0).replicas == (4, 2, 3)


def test_deleting_a_topic_removes_its_reassignment_in_flight_and_its_configs() -> None:
    cluster = three()
    cluster.alter_reassignments({T0: (4, 2, 3)})
    cluster.delete_topic("t")
    assert cluster.fetch_reassignments() == {}
    assert cluster.describe_cluster().partition_count == 0
    answer = cluster.describe_configs([Resource.topic("t")])[Resource.topic("t")]
    assert isinstance(answer, Fault)
    assert answer.name == "UNKNOWN_TOPIC_OR_PARTITION"
    cluster.advance(20)


# -- faults ----------------------------------------------------------------------------------------


def test_leaders_move_within_the_isr_and_return_only_by_election() -> None:
    cluster = three(in_bytes_per_s=1.0 * MB)
    cluster.stop_broker(1)
    state = cluster.describe_cluster()
    assert [b.alive for b in state.brokers] == [False, True, True, True]
    assert (row(cluster, T0).leader, set(row(cluster, T0).isr)) == (2, {2, 3})
    cluster.advance(30)
    cluster.start_broker(1)
    assert 1 not in row(cluster, T0).isr
    cluster.advance(5)
    assert set(row(cluster, T0).isr) == {1, 2, 3}
    assert row(cluster, T0).leader == 2
    assert cluster.elect_leaders([T0]) == {T0: None}
    assert row(cluster, T0).leader == 1


def test_partition_is_offline_without_its_only_in_sync_replica() -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1,)]}, in_bytes_per_s=1.0 * MB))
    cluster.stop_broker(1)
    assert row(cluster, T0).leader == -1
    assert cluster.fetch_offsets([T0], OffsetAt.LATEST) == {}
    cluster.advance(60)
    cluster.start_broker(1)
    assert row(cluster, T0).leader == 1
    assert sizes(cluster, T0)[1] == 100 * MB


def test_nothing_is_written_below_min_insync_replicas() -> None:
    cluster = three(in_bytes_per_s=1.0 * MB, topic_configs={"t": {"min.insync.replicas": "2"}})
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    before = cluster.fetch_offsets([T0], OffsetAt.LATEST)
    cluster.advance(30)
    assert cluster.fetch_offsets([T0], OffsetAt.LATEST) == before


def test_a_follower_that_stops_fetching_leaves_the_isr_after_thirty_seconds_of_lag() -> None:
    cluster = three(in_bytes_per_s=1.0 * MB)
    cluster.pause_replication(3)
    cluster.advance(29)
    assert 3 in row(cluster, T0).isr
    cluster.advance(2)
    assert 3 not in row(cluster, T0).isr
    cluster.resume_replication(3)
    cluster.advance(5)
    assert 3 in row(cluster, T0).isr


def test_sick_replica_stays_out_of_the_isr_until_its_broker_restarts() -> None:
    cluster = three(sick={T0: (3,)}, in_bytes_per_s=1.0 * MB)
    cluster.advance(60)
    assert set(row(cluster, T0).isr) == {1, 2}
    cluster.stop_broker(3)
    cluster.start_broker(3)
    cluster.advance(5)
    assert set(row(cluster, T0).isr) == {1, 2, 3}


def test_a_full_log_dir_goes_offline_with_its_replicas() -> None:
    cluster = three(in_bytes_per_s=1.0 * MB)
    first = cluster.describe_log_dirs([1])[0]
    lost = {r.topic + str(r.partition) for r in first.replicas if r.log_dir.endswith("/0")}
    assert lost == {"t0"}
    cluster.fill_disk(1)
    answer = cluster.describe_log_dirs([1])[0]
    assert [d.error for d in answer.log_dirs] == ["KAFKA_STORAGE_ERROR", None]
    assert [(r.topic, r.partition) for r in answer.replicas] == [("t", 1)]
    assert (row(cluster, T0).leader, set(row(cluster, T0).isr)) == (2, {2, 3})
    assert set(row(cluster, T1).isr) == {1, 2, 3}


def test_a_disk_that_fills_up_stops_the_copy_and_the_move_hangs() -> None:
    cluster = three(disk_bytes={4: 60 * MB})
    change(cluster, Resource.topic("t"), FOLLOWER_LIST, ConfigOp.SET, "*")
    change(cluster, Resource.broker(4), FOLLOWER_RATE, ConfigOp.SET, str(10 * MB))
    cluster.alter_reassignments({T0: (4, 2, 3)})
    cluster.advance(30)
    assert [d.error for d in cluster.describe_log_dirs([4])[0].log_dirs] == [
        "KAFKA_STORAGE_ERROR",
        None,
    ]
    assert T0 in cluster.fetch_reassignments()
    assert set(row(cluster, T0).isr) == {1, 2, 3}


def test_a_broker_without_log_dirs_shuts_down() -> None:
    cluster = three()
    for path in ("/var/lib/kafka/0", "/var/lib/kafka/1"):
        cluster.fill_disk(1, path)
    assert not cluster.describe_cluster().brokers[0].alive
    assert cluster.describe_log_dirs([1])[0].error is not None
    cluster.free_disk(1)
    cluster.start_broker(1)
    cluster.advance(5)
    assert set(row(cluster, T0).isr) == {1, 2, 3}


# -- configs ---------------------------------------------------------------------------------------


def value(cluster: SimulatedCluster, resource: Resource, name: str) -> tuple[str | None, object]:
    values = cluster.describe_configs([resource], [name])[resource]
    assert isinstance(values, dict)
    config = values.get(name)
    return (config.value, config.source) if config else (None, None)


def change(
    cluster: SimulatedCluster, resource: Resource, name: str, op: ConfigOp, text: str | None = None
) -> Fault | None:
    return cluster.alter_configs([ConfigChange(resource, name, op, text)])[resource]


def test_deleting_a_broker_rate_reveals_the_default_that_it_overrode() -> None:
    cluster = three(static_configs={1: {LEADER_RATE: "7000000"}})
    broker, default = Resource.broker(1), Resource.broker(1)._replace(name="")
    assert value(cluster, broker, LEADER_RATE) == ("7000000", ConfigSource.STATIC)
    assert value(cluster, Resource.broker(2), LEADER_RATE) == (None, None)
    change(cluster, default, LEADER_RATE, ConfigOp.SET, "8000000")
    assert value(cluster, broker, LEADER_RATE) == ("8000000", ConfigSource.BROKER_DEFAULT)
    change(cluster, broker, LEADER_RATE, ConfigOp.SET, "9000000")
    assert value(cluster, broker, LEADER_RATE) == ("9000000", ConfigSource.BROKER)
    change(cluster, broker, LEADER_RATE, ConfigOp.DELETE)
    assert value(cluster, broker, LEADER_RATE) == ("8000000", ConfigSource.BROKER_DEFAULT)


@pytest.mark.parametrize(
    ("resource", "name", "op", "text", "fault"),
    [
        (Resource.topic("t"), "no.such", ConfigOp.SET, "1", "INVALID_CONFIG"),
        (Resource.topic("t"), "retention.ms", ConfigOp.APPEND, "1", "INVALID_CONFIG"),
        (Resource.topic("t"), LEADER_LIST, ConfigOp.SET, "what", "INVALID_CONFIG"),
        (Resource.broker(1), LEADER_RATE, ConfigOp.SET, "fast", "INVALID_CONFIG"),
        (Resource.topic("none"), LEADER_LIST, ConfigOp.SET, "*", "UNKNOWN_TOPIC_OR_PARTITION"),
        (Resource.broker(9), LEADER_RATE, ConfigOp.SET, "1", "REQUEST_TIMED_OUT"),
        (Resource.topic("t"), FOLLOWER_LIST, ConfigOp.SET, "*", None),
    ],
)
def test_invalid_config_changes_are_refused_with_a_fault(
    resource: Resource, name: str, op: ConfigOp, text: str, fault: str | None
) -> None:
    refusal = change(three(), resource, name, op, text)
    assert (refusal.name if refusal else None) == fault


# -- log dirs --------------------------------------------------------------------------------------


def test_replicas_are_spread_over_two_log_dirs_and_disks_fill_by_their_sizes() -> None:
    (answer,) = three(disk_bytes=1000 * MB).describe_log_dirs([1])
    assert [d.total_bytes for d in answer.log_dirs] == [500 * MB, 500 * MB]
    assert [d.usable_bytes for d in answer.log_dirs] == [400 * MB, 400 * MB]
    assert sorted(r.log_dir for r in answer.replicas) == ["/var/lib/kafka/0", "/var/lib/kafka/1"]


def test_replica_moves_between_log_dirs_as_a_future_log_at_the_throttle_rate() -> None:
    cluster = three()
    change(cluster, Resource.broker(1), LOG_DIRS_RATE, ConfigOp.SET, str(10 * MB))
    moves = {(T0, 1): "/var/lib/kafka/1", (T0, 4): "/var/lib/kafka/1", (T0, 2): "/nowhere"}
    faults = {at: f.name if f else None for at, f in cluster.alter_log_dirs(moves).items()}
    assert list(faults.values()) == [None, "REPLICA_NOT_AVAILABLE", "LOG_DIR_NOT_FOUND"]
    cluster.advance(5)
    (future,) = [r for r in cluster.describe_log_dirs([1])[0].replicas if r.future]
    assert (future.log_dir, future.size_bytes) == ("/var/lib/kafka/1", pytest.approx(50 * MB))
    cluster.advance(6)
    places = {(r.topic, r.partition): r.log_dir for r in cluster.describe_log_dirs([1])[0].replicas}
    assert places["t", 0] == "/var/lib/kafka/1"


# -- the demo --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_demo_cluster_has_load_skew_leader_skew_and_out_of_sync_replicas(seed: int) -> None:
    cluster = SimulatedCluster(demo_spec(seed), seed)
    cluster.advance(1)
    state = look(cluster)
    assert (state.partition_count, len(state.brokers)) == (4180, 12)
    assert {b.rack for b in state.brokers} == {"a", "b", "c"}
    day = [cluster.now + timedelta(hours=hour) for hour in range(24)]
    rates = cluster.produced_bytes_per_s(day).mean(axis=0)
    led = np.bincount(state.leader, rates, 13)[1:]
    assert led.argmax() + 1 == 7
    assert 1.9 < led[6] / led.mean() < 2.4
    assert led.argmin() + 1 == 12
    leaders = np.bincount(state.leader, minlength=13)[1:]
    assert 1.3 < leaders[2] / leaders.mean() < 1.45
    out_of_sync = state.tp(int(state.partition_of_replica[~state.in_sync][0]))
    assert out_of_sync.topic == "audit"
    assert set(state.replica_broker[~state.in_sync].tolist()) == {7}
    for broker in state.brokers:
        for log_dir in broker.log_dirs:
            assert log_dir.total_bytes
            assert log_dir.usable_bytes
            assert 0.2 < 1 - log_dir.usable_bytes / log_dir.total_bytes < 0.95


def test_every_partition_of_the_demo_is_in_three_racks() -> None:
    state = SimulatedCluster(demo_spec(3, 6, 300)).describe_cluster()
    racks = {b.id: b.rack for b in state.brokers}
    assert all(len({racks[b] for b in r.replicas}) == 3 for r in state.rows())


def test_simulating_the_demo_takes_a_small_part_of_one_core() -> None:
    cluster = SimulatedCluster(demo_spec(0), 0)
    cluster.advance(5)
    took = effort(lambda: cluster.advance(60), times=1)
    assert took < 30, "three and a bit, of the 2,400 that a core has in a minute"
