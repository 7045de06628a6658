"""Workloads: the demo's is skewed; each goes on with what can be produced until it is to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from run_help import Faulty
from simulated import small_spec

from core.cluster.configs import Resource
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox import workload
from core.cluster.sandbox.workload import ConsumerPool, create_topics
from core.cluster.sandbox.workload_spec import TopicLoad, skewed_workload
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import TrimtabError

SETTINGS = ConnectionSettings("127.0.0.1:1")


class FakeProducer:
    """Does with each message what `take` does; `polled` is called between them."""

    def __init__(self, take: Callable[[str, int], None], polled: Callable[[], None]) -> None:
        self.take, self.polled = take, polled

    def produce(self, topic: str, payload: bytes, *, partition: int) -> None:
        self.take(topic, partition)

    def poll(self, seconds: float) -> None:
        self.polled()

    def flush(self, seconds: float) -> None:
        pass


def produce_until(stop: Event, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "_create_producer", lambda settings: producer)
    monkeypatch.setattr(workload, "_TICK_SECONDS", 0.001)
    topics = [TopicLoad(name, ((1,), (1,)), (1e6, 1e6), 1_000) for name in ("gone", "stays")]
    workload._produce_until_stopped(SETTINGS, topics, stop, None, ConsumerPool(SETTINGS, ()))


def test_deleted_topic_is_skipped_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop, asked = Event(), Counter[tuple[str, int]]()

    def take(topic: str, partition: int) -> None:
        asked[topic, partition] += 1
        if asked["stays", 1] == 20:
            stop.set()
        if topic == "gone":
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))

    produce_until(stop, FakeProducer(take, lambda: None), monkeypatch)
    assert asked["gone", 0] == asked["gone", 1] == 1
    (message,) = capsys.readouterr().err.splitlines()
    assert "topic gone" in message
    assert "Unknown topic" in message


def test_workload_stops_on_request_while_no_broker_accepts_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, polls = Event(), 0

    def full(topic: str, partition: int) -> None:
        raise BufferError("Local: Queue full")

    def polled() -> None:
        nonlocal polls
        polls += 1
        assert polls < 10, "it does not look whether it is to stop"
        if polls == 3:
            stop.set()

    produce_until(stop, FakeProducer(full, polled), monkeypatch)
    assert stop.is_set()


# -- the demo's ------------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [(1, 2, 3, 4), (2, 5), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_skewed_workload_has_one_hot_and_one_quiet_broker(brokers: tuple[int, ...]) -> None:
    produced: Counter[int] = Counter()
    for topic in skewed_workload(brokers, bytes_per_s=1_000_000).topics:
        for replicas, rate in zip(topic.replicas, topic.bytes_per_s, strict=True):
            produced[replicas[0]] += round(rate)
    fair = 1_000_000 / len(brokers)
    assert produced[brokers[0]] > 1.3 * fair
    assert produced[brokers[-1]] < 0.5 * fair
    assert sum(produced.values()) == pytest.approx(1_000_000, rel=0.001)


def test_replicas_are_on_different_brokers() -> None:
    for topic in skewed_workload((1, 2, 3)).topics:
        assert all(len(set(replicas)) == 2 for replicas in topic.replicas)


def test_single_broker_holds_the_only_replica_of_every_partition() -> None:
    assert {r for t in skewed_workload((9,)).topics for r in t.replicas} == {(9,)}


def test_the_same_seed_gives_the_same_placement() -> None:
    assert skewed_workload((1, 2, 3, 4)) == skewed_workload((1, 2, 3, 4))
    assert skewed_workload((1, 2, 3, 4)) != skewed_workload((1, 2, 3, 4), seed=8)


def test_few_partitions_of_a_topic_carry_most_of_its_load() -> None:
    payments = skewed_workload((1, 2, 3, 4)).topics[0]
    rates = sorted(payments.bytes_per_s, reverse=True)
    assert sum(rates[:3]) > sum(rates[3:])


# -- its topics ------------------------------------------------------------------------------------


class Brokers:
    """A cluster that is asked through KafkaClient; its first descriptions are those of `earlier`.

    Brokers hear of a change a moment later.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = SimulatedCluster(small_spec({"old": [(1, 2)]}))
        self.earlier: list[Any] = []
        through = Faulty(self.cluster)
        through.replaced["describe_cluster"] = self._describe
        monkeypatch.setattr(workload, "KafkaClient", lambda settings: through)
        monkeypatch.setattr(workload, "_RETRY_SECONDS", 0.0)

    def _describe(self, real: Callable[[], Any]) -> Any:
        return self.earlier.pop() if self.earlier else real()

    def held(self, topic: str) -> list[tuple[int, ...]]:
        state = self.cluster.describe_cluster()
        return [state.replicas(row) for row in state.partitions_of(topic)]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_topics_are_created_with_exactly_the_requested_replicas_and_configs(
    brokers: Brokers,
) -> None:
    create_topics(SETTINGS, {"a": [(1, 2), (2, 1)], "b": [[2]]}, {"retention.ms": "1000"})
    assert (brokers.held("a"), brokers.held("b")) == ([(1, 2), (2, 1)], [(2,)])
    configs = brokers.cluster.describe_configs([Resource.topic("b")], ["retention.ms"])
    assert configs[Resource.topic("b")]["retention.ms"].value == "1000"  # type: ignore[index]


def test_a_topic_that_is_there_already_is_left_as_it_is(brokers: Brokers) -> None:
    create_topics(SETTINGS, {"old": [(2, 1)], "new": [(1,)]})
    assert (brokers.held("old"), brokers.held("new")) == ([(1, 2)], [(1,)])


@pytest.mark.parametrize("is_known", [False, True], ids=["not known yet", "not led yet"])
def test_topic_creation_returns_once_each_partition_has_a_leader(
    brokers: Brokers, is_known: bool
) -> None:
    before = SimulatedCluster(small_spec({"new": [(1,), (2,)]} if is_known else {}, brokers=(1, 2)))
    before.stop_broker(2)
    brokers.earlier = [before.describe_cluster()] * 3
    create_topics(SETTINGS, {"new": [(1,), (2,)]})
    assert brokers.earlier == []


def test_refused_topics_and_topics_without_leaders_are_reported(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrimtabError, match="^Topic a cannot be created: INVALID_REPLICA_ASSIGNM"):
        create_topics(SETTINGS, {"b": [(1,)], "a": [(1, 99)]})
    monkeypatch.setattr(workload, "_LEADERS_SECONDS", 0.0)
    brokers.earlier = [brokers.cluster.describe_cluster()] * 1000
    with pytest.raises(TrimtabError, match="the new topics have no leaders yet"):
        create_topics(SETTINGS, {"new": [(1,)]})
