"""Workloads: the demo's is skewed; each goes on with what can be produced until it is to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox import workload
from core.cluster.sandbox.workload import ConsumerPool
from core.cluster.sandbox.workload_spec import TopicLoad, skewed_workload


class FakeProducer:
    """Does with each message what `take` does; `polled` is called between them."""

    def __init__(self, take: Callable[[str, int], None], polled: Callable[[], None]) -> None:
        self.take, self.polled = take, polled

    def produce(self, topic: str, payload: bytes, *, partition: int, on_delivery: object) -> None:
        self.take(topic, partition)

    def poll(self, seconds: float) -> None:
        self.polled()

    def flush(self, seconds: float) -> None:
        pass


def produce_until(stop: Event, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "_producer", lambda settings, options: producer)
    monkeypatch.setattr(workload, "_TICK_SECONDS", 0.001)
    topics = [TopicLoad(name, ((1,), (1,)), (1e6, 1e6), 1_000) for name in ("gone", "stays")]
    settings = ConnectionSettings("127.0.0.1:1")
    workload._produce_until_stopped(settings, topics, stop, None, ConsumerPool(settings, ()))


def test_a_topic_that_is_deleted_is_left_out_and_said_once(
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
    (said,) = capsys.readouterr().err.splitlines()
    assert "topic gone" in said
    assert "Unknown topic" in said


def test_a_workload_ends_when_told_to_though_no_broker_takes_anything(
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
def test_one_broker_is_hot_and_one_is_quiet(brokers: tuple[int, ...]) -> None:
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


def test_one_broker_alone_holds_everything_once() -> None:
    assert {r for t in skewed_workload((9,)).topics for r in t.replicas} == {(9,)}


def test_the_same_seed_gives_the_same_placement() -> None:
    assert skewed_workload((1, 2, 3, 4)) == skewed_workload((1, 2, 3, 4))
    assert skewed_workload((1, 2, 3, 4)) != skewed_workload((1, 2, 3, 4), seed=8)


def test_within_a_topic_few_partitions_carry_most() -> None:
    payments = skewed_workload((1, 2, 3, 4)).topics[0]
    rates = sorted(payments.bytes_per_s, reverse=True)
    assert sum(rates[:3]) > sum(rates[3:])
