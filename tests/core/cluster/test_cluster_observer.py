"""Looking at a cluster again and again, no faster than it likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from run_help import set_config
from simulated import small_spec

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics, hidden_topics_to_json
from core.cluster.configs import Resource
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import UNKNOWN, TopicPartition
from core.cluster.observer import Observer, fetch_cluster_state, find_hidden_topics
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UnreachableError

LAYOUT = {"orders": [(1, 2), (2, 3)], "audit": [(3, 1)]}
SIZE = 100_000_000


class Counting:
    """A client that counts calls, takes a given time over them, and can be cut off."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.calls: Counter[str] = Counter()
        self.seconds = 0.0
        self.took = 0.0
        self.cut_off = False

    def stopwatch(self) -> float:
        return self.seconds

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            self.seconds += self.took
            if self.cut_off:
                raise UnreachableError("gone")
            return getattr(self._cluster, name)(*arguments)

        return call


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(
        small_spec(LAYOUT, topic_configs={"orders": {"min.insync.replicas": "2"}})
    )


@pytest.fixture
def client(cluster: SimulatedCluster) -> Counting:
    return Counting(cluster)


@pytest.fixture
def observer(client: Counting, cluster: SimulatedCluster) -> Observer:
    return Observer(client, cluster.clock, client.stopwatch)  # type: ignore[arg-type]


def size(state: ClusterState, topic: str, partition: int, broker: int) -> int:
    row = state.find(TopicPartition(topic, partition))
    assert row is not None
    at = state.replica_slice(row)
    return int(state.size_bytes[at][state.replicas(row).index(broker)])


def test_fetched_cluster_state_joins_sizes_and_topic_configs(cluster: SimulatedCluster) -> None:
    state = fetch_cluster_state(cluster)
    assert size(state, "orders", 0, 2) == SIZE
    orders, audit = state.topic("orders"), state.topic("audit")
    assert orders is not None
    assert audit is not None
    assert (orders.min_insync, audit.min_insync) == (2, 1)
    assert orders.retention_ms == 604_800_000
    assert all(broker.log_dirs for broker in state.brokers)


def test_first_state_requests_only_metadata(observer: Observer, client: Counting) -> None:
    state = observer.first_state(client.describe_cluster)
    assert client.calls == {"describe_cluster": 1}
    assert size(state, "orders", 0, 1) == UNKNOWN
    assert observer.seconds_until_due() == 0
    state = observer.poll()
    assert client.calls == {"describe_cluster": 1, "describe_log_dirs": 1, "describe_configs": 1}
    assert size(state, "orders", 0, 1) == SIZE


def test_each_call_has_its_own_polling_interval(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    observer.poll()
    for _ in range(120):
        cluster.clock.sleep(0.5)
        observer.poll()
    assert client.calls == {"describe_cluster": 61, "describe_log_dirs": 7, "describe_configs": 2}


@pytest.mark.parametrize(
    ("took", "pause"), [(0.05, 1.0), (0.1, 1.0), (0.2, 2.0), (3.0, 30.0), (25.0, 30.0)]
)
def test_slow_cluster_is_polled_less_often(
    observer: Observer, client: Counting, cluster: SimulatedCluster, took: float, pause: float
) -> None:
    client.took = took
    observer.poll()
    cluster.clock.sleep(pause - 0.01)
    observer.poll()
    assert client.calls["describe_cluster"] == 1
    cluster.clock.sleep(0.02)
    observer.poll()
    assert client.calls["describe_cluster"] == 2


def test_cluster_is_slow_only_after_two_slow_answers_in_a_row(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    """What it answers then is old, and it may hang again."""
    for took, pause in [(0.02, 1.0), (8.0, 1.0), (0.02, 1.0), (8.0, 1.0), (8.0, 30.0)]:
        client.took = took
        observer.poll(at_once=True)
        assert observer.metadata_interval_seconds == pause
        cluster.clock.sleep(pause)


def test_metadata_is_not_renewed_while_a_slow_call_lasts(
    observer: Observer, client: Counting
) -> None:
    observer.first_state(client.describe_cluster)
    assert observer.state_interval_seconds == 1.0
    client.took = 7.0
    observer.poll()  # sizes and configs
    assert client.calls["describe_cluster"] == 1
    assert observer.state_interval_seconds == 7.0


def test_slow_call_seconds_covers_only_calls_due_within_the_given_time(
    observer: Observer, client: Counting
) -> None:
    observer.first_state(client.describe_cluster)
    assert observer.slow_call_seconds(0.0) is None, "nobody knows yet how long they take"
    client.took = 7.0
    observer.poll()
    assert observer.slow_call_seconds(5.0) == 0.0
    assert observer.slow_call_seconds(100.0) == 7.0


def test_without_permission_to_read_topic_configs_everything_else_is_observed(
    client: Counting, cluster: SimulatedCluster, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> object:
        raise AccessDeniedError("The cluster says no: TOPIC_AUTHORIZATION_FAILED.")

    monkeypatch.setattr(cluster, "describe_configs", denied)
    for state in (fetch_cluster_state(cluster), observer.poll()):
        assert [(t.min_insync, t.retention_ms, t.cleanup_policy) for t in state.topics] == [
            (None, None, None)
        ] * 2
        assert size(state, "orders", 0, 2) == SIZE
    cluster.clock.sleep(1.0)
    observer.poll()
    assert client.calls["describe_configs"] == 1


def test_unreachable_cluster_is_retried_only_when_metadata_is_due(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    observer.poll()
    client.cut_off = True
    cluster.clock.sleep(1.0)
    with pytest.raises(UnreachableError):
        observer.poll()
    assert observer.seconds_until_due() == pytest.approx(1.0)
    client.cut_off = False
    cluster.clock.sleep(1.0)
    observer.poll()


def test_lost_cluster_raises_instead_of_giving_old_state_until_it_is_reachable(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    observer.poll()
    client.cut_off, client.took = True, 25.0
    cluster.clock.sleep(10.0)
    for _ in range(3):
        with pytest.raises(UnreachableError):
            observer.poll()
        cluster.clock.sleep(2.0)
    assert client.calls == {"describe_cluster": 2, "describe_log_dirs": 1, "describe_configs": 1}
    assert observer.seconds_until_due() == pytest.approx(24.0)
    client.cut_off = False
    assert observer.poll(at_once=True).fetched_at == cluster.clock.now()
    assert observer.metadata_interval_seconds == 1.0, "it waited for the cluster, which is back"


def test_metadata_time_is_unchanged_when_only_sizes_and_configs_are_fetched(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    client.took = 0.0
    client.seconds = 5.0
    observer.first_state(client.describe_cluster)
    client.seconds = 5.5
    observer.poll()
    assert client.calls == {"describe_cluster": 1, "describe_log_dirs": 1, "describe_configs": 1}
    assert observer.metadata_at == 5.0
    observer.poll(at_once=True)
    assert client.calls["describe_cluster"] == 2
    assert observer.metadata_at == 5.5


def test_sizes_of_a_broker_that_is_down_are_kept(
    observer: Observer, cluster: SimulatedCluster
) -> None:
    observer.poll()
    cluster.stop_broker(2)
    cluster.clock.sleep(10.0)
    state = observer.poll()
    assert not state.broker_by_id[2].alive
    assert size(state, "orders", 0, 2) == SIZE


def test_new_replica_assignment_gets_the_sizes_known_so_far(
    observer: Observer, cluster: SimulatedCluster
) -> None:
    observer.poll()
    tp = TopicPartition("orders", 0)
    assert cluster.alter_reassignments({tp: (2, 1)}) == {tp: None}
    cluster.clock.sleep(1.0)
    state = observer.poll()
    row = state.find(tp)
    assert row is not None
    assert state.replicas(row) == (2, 1)
    assert size(state, "orders", 0, 1) == SIZE


def test_recreated_topic_has_its_configs_fetched_at_once(
    cluster: SimulatedCluster,
    client: Counting,
    observer: Observer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observer.poll()
    described = cluster.describe_cluster()
    again = [replace(t, id="another") if t.name == "orders" else t for t in described.topics]
    monkeypatch.setattr(
        cluster, "describe_cluster", lambda: replace(described, topics=tuple(again))
    )
    set_config(cluster, Resource.topic("orders"), "min.insync.replicas", "3")
    set_config(cluster, Resource.topic("audit"), "min.insync.replicas", "3")
    for _ in range(3):
        cluster.clock.sleep(1.0)
        state = observer.poll()
    orders, audit = state.topic("orders"), state.topic("audit")
    assert orders is not None
    assert audit is not None
    assert (orders.min_insync, audit.min_insync) == (3, 1)  # audit: when all are due
    assert client.calls["describe_configs"] == 2


def test_topic_configs_are_kept_when_one_refresh_fails(
    cluster: SimulatedCluster, client: Counting, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer.poll()
    answers = dict.fromkeys([Resource.topic("orders"), Resource.topic("audit")], Fault("TIMEOUT"))
    monkeypatch.setattr(cluster, "describe_configs", lambda *_: answers)
    cluster.clock.sleep(61.0)
    orders = observer.poll().topic("orders")
    assert client.calls["describe_configs"] == 2
    assert orders is not None
    assert orders.min_insync == 2


def test_log_dirs_are_requested_only_from_live_brokers(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answer = cluster.describe_log_dirs

    def log_dirs(brokers: list[int]) -> tuple[BrokerLogs, ...]:
        asked.extend(brokers)
        return answer(brokers)

    cluster.stop_broker(3)
    cluster.clock.sleep(30.0)
    monkeypatch.setattr(cluster, "describe_log_dirs", log_dirs)
    fetch_cluster_state(cluster)
    assert asked == [1, 2]


def test_topics_without_describe_permission_are_counted_from_log_dirs(
    cluster: SimulatedCluster, observer: Observer
) -> None:
    assert fetch_cluster_state(cluster).hidden == HiddenTopics()
    cluster.hide_topics(["orders"])
    state = fetch_cluster_state(cluster)
    assert [topic.name for topic in state.topics] == ["audit"]
    hidden = state.hidden
    assert hidden is not None
    assert (hidden.topics, hidden.replicas, hidden.size_bytes) == (1, 4, 4 * SIZE)
    assert hidden.logs[0] == HiddenLogDir(1, hidden.logs[0].path, 1, 1, SIZE)
    assert dict(zip(state.broker_ids.tolist(), state.hidden_bytes.tolist(), strict=True)) == {
        1: SIZE,
        2: 2 * SIZE,
        3: SIZE,
    }
    assert state.hidden_replicas.tolist() == [1, 2, 1]
    assert observer.first_state(cluster.describe_cluster).hidden is None
    assert observer.poll().hidden == hidden
    cluster.stop_broker(2)
    cluster.clock.sleep(10.0)
    kept = observer.poll()
    assert kept.hidden_bytes.tolist() == [SIZE, 2 * SIZE, SIZE], "it holds what it held"
    assert kept.hidden == hidden
    down = fetch_cluster_state(cluster).hidden  # by who has not seen it before
    assert down is not None
    assert (down.count, down.unknown_brokers) == (1, (2,))
    assert down.sentence.startswith("At least 1 topic")
    cluster.hide_topics([])
    cluster.clock.sleep(10.0)
    assert observer.poll().hidden == HiddenTopics()
    unseen = fetch_cluster_state(cluster).hidden
    assert unseen is not None
    assert (unseen.count, unseen.is_complete, hidden_topics_to_json(unseen)["bytes"]) == (
        None,
        False,
        None,
    )  # type: ignore[index]
    assert unseen.advice == (
        "Whether topics are hidden is not known: broker 2 does not tell its log dirs."
    )


def test_denied_topic_name_is_requested_once_and_cached(
    observer: Observer, client: Counting, cluster: SimulatedCluster
) -> None:
    """Brokers log each denial."""
    for seconds, hidden, calls in (
        (0.0, ["orders"], 1),
        (10.0, ["orders"], 1),
        (10.0, ["orders", "audit"], 2),
        (10.0, ["audit"], 2),
        (10.0, ["orders", "audit"], 3),
        (1700.0, ["orders", "audit"], 3),
        (100.0, ["orders", "audit"], 4),
        (100.0, ["orders", "audit"], 4),
    ):
        cluster.clock.sleep(seconds)
        cluster.hide_topics(hidden)
        hidden_topics = observer.poll(at_once=True).hidden
        assert hidden_topics is not None
        assert (hidden_topics.count, client.calls["fetch_denied_topics"]) == (len(hidden), calls)


def test_topics_created_or_deleted_between_two_requests_are_not_hidden(
    cluster: SimulatedCluster,
) -> None:
    cluster.hide_topics(["orders"])
    before = cluster.describe_cluster()
    logs = cluster.describe_log_dirs([1, 2, 3])
    cluster.hide_topics(["secret"])  # orders may be seen by now
    assert find_hidden_topics(cluster.fetch_denied_topics, before, logs) == HiddenTopics()
    cluster.delete_topic("orders")
    assert find_hidden_topics(cluster.fetch_denied_topics, before, logs) == HiddenTopics()


DENIED = "CLUSTER_AUTHORIZATION_FAILED: no log dirs were told"


@pytest.mark.parametrize(
    ("errors", "untold", "count"),
    [
        ({1: DENIED, 2: DENIED, 3: DENIED}, (1, 2, 3), None),
        ({2: "timed out"}, (2,), 1),
        ({1: "timed out", 2: "timed out", 3: "timed out"}, (1, 2, 3), None),
        ({2: DENIED}, (2,), 1),
    ],
)
def test_hidden_topics_are_unknown_on_brokers_without_log_dir_answers(
    cluster: SimulatedCluster, errors: dict[int, str], untold: tuple[int, ...], count: int | None
) -> None:
    cluster.hide_topics(["orders"])
    logs = [
        BrokerLogs(answer.broker, error=errors[answer.broker])
        if answer.broker in errors
        else answer
        for answer in cluster.describe_log_dirs([1, 2, 3])
    ]
    hidden = find_hidden_topics(cluster.fetch_denied_topics, cluster.describe_cluster(), logs)
    assert (hidden.unknown_brokers, hidden.count) == (untold, count)
