"""Measures round trips: a producer and a consumer for each broker, and their results.

They write to one topic with a partition led by each broker; it is made, and followed, elsewhere.
"""

from __future__ import annotations

import re
import secrets
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any

from core.cluster.connect import Address, connection_settings
from core.cluster.probe.produce_latency import MESSAGE_BYTES, producer_config

TIMEOUT_SECONDS = 5.0
"""What is not acknowledged by then has failed."""
LAYOUT_SECONDS = 3.0
_REQUEST_SECONDS = 10.0
"""After which a connection whose other end says nothing is given up; Kafka's own default is 60."""
_HEAD = struct.Struct(">8sQd")
"""Who has sent it, its number, and when (monotonic seconds of that process)."""
_BROKER = re.compile(r"/(\d+): ")
"""How librdkafka names the broker that an error is about: `host:port/id: …`."""


class ClientSide(Enum):
    """What a client does."""

    PRODUCE = "produce"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of one message, or an error of a connection; `at` is in monotonic seconds.

    `broker` is None for an error of the cluster. `error` is librdkafka's name of it, "" for none.
    A message is produced once all its acks are there, fetched once it is read; both waits begin as
    it is sent.
    """

    at: float
    side: ClientSide
    broker: int | None
    number: int = -1
    latency_ms: float = 0.0
    error: str = ""

    @property
    def sent_at(self) -> float:
        return self.at - self.latency_ms / 1000


@dataclass(frozen=True, slots=True)
class ProbeLayout:
    """The brokers that are alive, and the replicas of the topic's partitions: None, it is gone."""

    brokers: frozenset[int]
    partitions: Mapping[int, tuple[int, ...]] | None


class RoundTripProbe:
    """Clients of one cluster, open until `close`; any thread may call `fetch_layout`."""

    def __init__(self, address: Address, topic: str) -> None:
        from core.cluster.kafka.record_clients import open_consumer, open_producer

        self.topic = topic
        self._us = secrets.token_bytes(8)
        self._sent = 0
        self._partitions: Mapping[int, int] = {}
        self._to_read: SimpleQueue[dict[int, int]] = SimpleQueue()
        self._payload = bytes(MESSAGE_BYTES - _HEAD.size)
        self._results: SimpleQueue[ProbeResult] = SimpleQueue()
        settings = connection_settings(address)
        config = {
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": int(_REQUEST_SECONDS * 1000),
            "allow.auto.create.topics": False,
            "log.connection.close": False,  # brokers close what is idle: no client suffers
        }
        self._producer = open_producer(
            settings,
            {
                **config,
                **producer_config(TIMEOUT_SECONDS),
                "retries": 0,  # so that each error is told, which retries would hide
                "error_cb": self._error_handler(ClientSide.PRODUCE),
            },
        )
        self._consumer = open_consumer(
            settings,
            {
                **config,
                "group.id": topic,  # librdkafka wants one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "queued.min.messages": 10,
                "error_cb": self._error_handler(ClientSide.FETCH),
            },
        )
        self._stop = threading.Event()
        self._reading = threading.Thread(target=self._read, name="clients-read", daemon=True)
        self._reading.start()

    def set_partitions(self, partitions: Mapping[int, int]) -> None:
        """Send to these partitions, one of each broker, and read them; others no more."""
        if partitions != self._partitions:
            self._partitions = dict(partitions)
            self._to_read.put({number: broker for broker, number in partitions.items()})

    def send(self, broker: int) -> None:
        """Send one message to a broker; `poll_results` tells what came of it."""
        from confluent_kafka import KafkaException

        self._sent += 1
        number = self._sent
        head = _HEAD.pack(self._us, number, time.monotonic())
        try:
            self._producer.produce(
                self.topic,
                head + self._payload,
                partition=self._partitions[broker],
                on_delivery=self._delivered(broker, number),
            )
        except BufferError:
            self._refused(broker, number, "_QUEUE_FULL")
        except KafkaException as error:  # metadata say that there is no such topic, or partition
            self._refused(broker, number, error.args[0].name())

    def poll_results(self, seconds: float) -> list[ProbeResult]:
        """Return what came of messages within `seconds`, oldest first."""
        self._producer.poll(max(seconds, 0.0))
        results = []
        while not self._results.empty():
            results.append(self._results.get())
        return results

    def fetch_layout(self) -> ProbeLayout:
        """Return how the topic lies now. Raises KafkaException when no broker answers in time."""
        from confluent_kafka import KafkaError, KafkaException

        metadata = self._producer.list_topics(self.topic, timeout=LAYOUT_SECONDS)
        brokers = frozenset(metadata.brokers)
        topic = metadata.topics.get(self.topic)
        if topic is None or (
            topic.error is not None and topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        ):
            return ProbeLayout(brokers, None)
        if topic.error is not None and not topic.partitions:
            raise KafkaException(topic.error)
        return ProbeLayout(brokers, {n: tuple(p.replicas) for n, p in topic.partitions.items()})

    def close(self) -> None:
        """Stop at once; what is on its way is let go."""
        self._stop.set()
        self._reading.join(2 * TIMEOUT_SECONDS)
        self._producer.close()

    # -- in the threads that poll: that of `poll_results`, and the reading one ---------------------

    def _refused(self, broker: int, number: int, error: str) -> None:
        self._results.put(
            ProbeResult(time.monotonic(), ClientSide.PRODUCE, broker, number, error=error)
        )

    def _delivered(self, broker: int, number: int) -> Callable[[Any, Any], None]:
        def on_delivery(error: Any, message: Any) -> None:
            name = "" if error is None else error.name()
            waited = message.latency() if error is None else None
            self._results.put(
                ProbeResult(
                    time.monotonic(), ClientSide.PRODUCE, broker, number, (waited or 0) * 1000, name
                )
            )

        return on_delivery

    def _error_handler(self, side: ClientSide) -> Callable[[Any], None]:
        def on_error(error: Any) -> None:
            about = _BROKER.search(error.str())
            broker = int(about[1]) if about else None
            self._results.put(ProbeResult(time.monotonic(), side, broker, error=error.name()))

        return on_error

    def _read(self) -> None:
        """Read until stopped; the consumer is this thread's alone, as confluent-kafka wants it."""
        from confluent_kafka import OFFSET_END, TopicPartition

        brokers: dict[int, int] = {}
        while not self._stop.is_set():
            while not self._to_read.empty():
                brokers = self._to_read.get()
                self._consumer.assign(
                    [TopicPartition(self.topic, number, OFFSET_END) for number in sorted(brokers)]
                )
            message = self._consumer.poll(0.2)
            now = time.monotonic()
            if message is None:
                continue
            broker = brokers.get(message.partition())
            if message.error() is not None:
                self._results.put(
                    ProbeResult(now, ClientSide.FETCH, broker, error=message.error().name())
                )
                continue
            value = message.value() or b""
            if broker is None or len(value) < _HEAD.size:
                continue
            who, number, sent = _HEAD.unpack_from(value)
            if who == self._us:
                self._results.put(
                    ProbeResult(now, ClientSide.FETCH, broker, number, (now - sent) * 1000)
                )
        self._consumer.close()
