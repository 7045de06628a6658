"""Producers and consumers of records: librdkafka's, or kafka-python's where that gets nowhere.

librdkafka is far quicker. It connects where brokers say that they are, and not by a route of
config.toml's, and knows neither Kerberos nor delegation tokens: there kafka-python's clients stand
in for it, with what is called here of confluent-kafka's, its errors and its configs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

from core.cluster.kafka.connection.settings import CONNECT_SECONDS, ConnectionSettings
from core.cluster.kafka.librdkafka import ClosableClient, as_librdkafka, librdkafka_error
from core.errors import UsageError

OnDelivery = Callable[[Any, Any], None]

_METADATA_SECONDS = 1.0
"""How long a call may wait until it is known where a topic lies; librdkafka's never does."""
_REQUEST_SECONDS = 30.0
_CLOSE_SECONDS = 1.0
_MAX_QUEUE_KB = 1024 * 1024
"""librdkafka's own default."""
_CONFIGS = {
    "acks": "acks",
    "linger.ms": "linger_ms",
    "message.timeout.ms": "delivery_timeout_ms",
    "retries": "retries",
    "enable.idempotence": "enable_idempotence",
    "auto.offset.reset": "auto_offset_reset",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
}
"""What kafka-python calls librdkafka's configs; the others are its own matter, or the default."""


def open_producer(settings: ConnectionSettings, config: Mapping[str, Any]) -> ClosableClient:
    """Return confluent-kafka's Producer, or what stands in for it; `config` is librdkafka's.

    Raises KafkaException where the latter finds no broker.
    """
    if not settings.suits_librdkafka:
        return ClosableClient(_Producer(settings, config))
    from confluent_kafka import Producer

    return ClosableClient(Producer({**settings.librdkafka_config(), **config}))


def open_consumer(settings: ConnectionSettings, config: Mapping[str, Any]) -> ClosableClient:
    """Return confluent-kafka's Consumer, or what stands in for it; as `open_producer`.

    It is for partitions that are assigned, of one topic, and commits nothing.
    """
    if not settings.suits_librdkafka:
        return ClosableClient(_Consumer(settings, config))
    from confluent_kafka import Consumer

    return ClosableClient(Consumer({**settings.librdkafka_config(), **config}))


@dataclass(frozen=True, slots=True)
class _Message:
    """As much of confluent-kafka's Message as is asked for."""

    of_partition: int
    of_offset: int = -1
    content: bytes | None = None
    failure: Any = None
    seconds: float = 0.0

    def partition(self) -> int:
        return self.of_partition

    def offset(self) -> int:
        return self.of_offset

    def value(self) -> bytes | None:
        return self.content

    def error(self) -> Any:
        return self.failure

    def latency(self) -> float:
        """Return how many seconds its acknowledgement took."""
        return self.seconds


class _Producer:
    """kafka-python's producer. What it tells of in a thread of its own is kept for `poll`."""

    def __init__(self, settings: ConnectionSettings, config: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting = self._waiting_bytes = 0
        """Records whose callers have not been told what became of them; there is no other bound."""
        named = {"enable_idempotence": False, **_named(config)}
        seconds = _REQUEST_SECONDS
        if "delivery_timeout_ms" in named:  # no request may be waited for longer than that
            seconds = min(
                seconds, (named["delivery_timeout_ms"] - named.get("linger_ms", 0)) / 1000
            )
        if "compression.type" in config:
            named["compression_type"] = "gzip"  # the one that takes no further library
        self._max_bytes = 1024 * config.get("queue.buffering.max.kbytes", _MAX_QUEUE_KB)
        self._producer, self._connections = _open(
            KafkaProducer,
            settings,
            config,
            self._calls,
            max_block_ms=int(_METADATA_SECONDS * 1000),
            request_timeout_ms=int(seconds * 1000),
            allow_auto_create_topics=False,
            **named,
        )

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Send a record; raises BufferError where there is no room, KafkaException."""
        from confluent_kafka import KafkaError, KafkaException

        size = len(value or b"") + len(key or b"")
        if self._waiting_bytes + size > self._max_bytes:
            raise BufferError("too many bytes wait to be acknowledged")
        with as_librdkafka(KafkaError._UNKNOWN_TOPIC):
            partitions = self._producer.partitions_for(topic)
        if partition is not None and partition not in partitions:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        sent = time.monotonic()
        with as_librdkafka():
            future = self._producer.send(topic, value, key, list(headers), partition)
        self._waiting += 1
        self._waiting_bytes += size
        report = partial(self._deliver, on_delivery or (lambda *_: None), size)
        number = -1 if partition is None else partition
        future.add_callback(partial(self._on_acknowledged, number, sent, report))
        future.add_errback(partial(self._on_failed, number, report))

    def poll(self, seconds: float) -> int:
        """Call back for what was acknowledged or lost; waits for the first, and returns how many.

        So are connections that are lost.
        """
        count, ends = 0, time.monotonic() + seconds
        while True:
            try:
                call = self._calls.get(timeout=0 if count else max(0.0, ends - time.monotonic()))
            except Empty:
                return count
            call()
            count += 1

    def flush(self, seconds: float) -> int:
        """Wait for what was sent, and call back for it; return of how many nothing is known."""
        from kafka.errors import KafkaError

        with suppress(KafkaError):  # what is late is counted
            self._producer.flush(seconds)
        self.poll(0)
        return self._waiting

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        """Return the brokers, and the topic's partitions; raises KafkaException in time."""
        from kafka.protocol.metadata import MetadataRequest

        requested_topic = MetadataRequest.MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=[requested_topic], allow_auto_topic_creation=False)
        with as_librdkafka():
            answer = self._connections.ask_any(request, timeout)
        return SimpleNamespace(
            brokers={broker.node_id: broker for broker in answer.brokers},
            topics={metadata.name: _topic(metadata) for metadata in answer.topics},
        )

    def __exit__(self, *_: object) -> None:
        """Close it, and let go of what was not acknowledged."""
        from kafka.errors import KafkaError

        sender = self._producer._sender  # `close` alone leaves it with what nobody acknowledges
        sender.force_close()
        sender.join(_CLOSE_SECONDS)
        with suppress(KafkaError):
            self._producer.close(timeout=0)
        self._connections.close_sockets()

    # -- in the client's own thread --------------------------------------------------------------

    def _on_acknowledged(
        self, partition: int, sent: float, report: OnDelivery, record: Any
    ) -> None:
        message = _Message(partition, record.offset, seconds=time.monotonic() - sent)
        self._calls.put(partial(report, None, message))

    def _on_failed(self, partition: int, report: OnDelivery, error: Exception) -> None:
        from confluent_kafka import KafkaError

        failure = librdkafka_error(error, KafkaError._MSG_TIMED_OUT)
        self._calls.put(partial(report, failure, _Message(partition)))

    # -- in that of `poll` -----------------------------------------------------------------------

    def _deliver(self, on_delivery: OnDelivery, size: int, error: Any, message: _Message) -> None:
        self._waiting -= 1
        self._waiting_bytes -= size
        on_delivery(error, message)


class _Consumer:
    """kafka-python's consumer of assigned partitions of one topic."""

    def __init__(self, settings: ConnectionSettings, config: Mapping[str, Any]) -> None:
        from kafka import KafkaConsumer

        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._read: deque[_Message] = deque()
        self._reports_ends = bool(config.get("enable.partition.eof"))
        self._reported_ends: dict[Any, int] = {}
        """Of partitions whose end has been told, which that was."""
        self._consumer, self._connections = _open(
            KafkaConsumer,
            settings,
            config,
            self._calls,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            request_timeout_ms=config.get("socket.timeout.ms", int(_REQUEST_SECONDS * 1000)),
            **_named(config),
        )

    def assign(self, partitions: Sequence[Any]) -> None:
        """Read these from the offsets that they name, or from their ends."""
        from confluent_kafka import OFFSET_END

        self._read.clear()
        self._reported_ends.clear()
        with as_librdkafka():
            self._consumer.assign([_kafka_python_partition(tp) for tp in partitions])
            for partition in partitions:
                if partition.offset == OFFSET_END:
                    self._consumer.seek_to_end(_kafka_python_partition(partition))
                else:
                    self._consumer.seek(_kafka_python_partition(partition), partition.offset)

    def poll(self, seconds: float) -> _Message | None:
        """Return the next message, or None."""
        messages = self.consume(1, seconds)
        return messages[0] if messages else None

    def consume(self, count: int, timeout: float) -> list[_Message]:
        """Return up to `count` messages, waiting for the first."""
        while not self._calls.empty():
            self._calls.get()()
        if not self._read and self._consumer.assignment():
            self._fetch(timeout)
        elif not self._read:
            time.sleep(timeout)
        return [self._read.popleft() for _ in range(min(count, len(self._read)))]

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        of, ms = _kafka_python_partition(partition), int(timeout * 1000)
        with as_librdkafka():
            first = self._consumer.beginning_offsets([of], ms)[of]
            return first, self._consumer.end_offsets([of], ms)[of]

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float) -> list[Any]:
        """Return the partitions with the offset of the first message as of the time they name."""
        from confluent_kafka import OFFSET_END, TopicPartition

        times = {_kafka_python_partition(partition): partition.offset for partition in partitions}
        with as_librdkafka():
            positions = self._consumer.offsets_for_times(times, int(timeout * 1000))
        offsets = {of: OFFSET_END if at is None else at.offset for of, at in positions.items()}
        return [TopicPartition(of.topic, of.partition, offset) for of, offset in offsets.items()]

    def __exit__(self, *_: object) -> None:
        self._consumer.close(autocommit=False, timeout_ms=int(_CLOSE_SECONDS * 1000))
        self._connections.close_sockets()

    def _fetch(self, seconds: float) -> None:
        from kafka.errors import UnsupportedCodecError

        with as_librdkafka():
            try:
                fetched = self._consumer.poll(int(seconds * 1000))
            except UnsupportedCodecError as error:
                raise UsageError(
                    f"Records cannot be read: {error}.",
                    next="Install zstandard, lz4 or python-snappy beside trimtab: by Kerberos, "
                    "delegation tokens, addresses and proxies, it reads without librdkafka.",
                ) from error
        for of, records in fetched.items():
            self._read.extend(
                _Message(of.partition, record.offset, record.value) for record in records
            )
        if self._reports_ends and not fetched:
            self._read.extend(self._eof_messages())

    def _eof_messages(self) -> Iterator[_Message]:
        """Yield the ends of partitions that were reached: control records come before some."""
        from confluent_kafka import KafkaError

        for of in self._consumer.assignment():
            end, position = self._consumer.highwater(of), self._consumer.position(of, 0)
            if end is not None and position == end != self._reported_ends.get(of):
                self._reported_ends[of] = end
                yield _Message(of.partition, end, failure=KafkaError(KafkaError._PARTITION_EOF))


def _open(
    kind: Any,
    settings: ConnectionSettings,
    config: Mapping[str, Any],
    calls: SimpleQueue[Callable[[], None]],
    **named: Any,
) -> tuple[Any, Any]:
    """Return a client of kafka-python's and its connections, whose losses go to `error_cb`."""
    from confluent_kafka import KafkaError

    from core.cluster.kafka.connection.python_clients import open_client

    settings.check_login()
    on_error = config.get("error_cb", lambda _: None)

    def on_failure(broker: int, address: str, error: Exception) -> None:
        kafka_error = librdkafka_error(error, KafkaError._TIMED_OUT)
        failure = KafkaError(kafka_error.code(), f"{address}/{broker}: {kafka_error.str()}")
        calls.put(partial(on_error, failure))

    seconds = settings.scaled_seconds(CONNECT_SECONDS)
    with as_librdkafka():
        return open_client(
            kind,
            settings,
            lambda: None,
            {
                "socket_connection_setup_timeout_ms": int(seconds * 1000),
                "socket_connection_setup_timeout_max_ms": int(seconds * 1000),
            },
            on_failure,
            bootstrap_timeout_ms=int(seconds * 1000),
            **named,
        )


def _named(config: Mapping[str, Any]) -> dict[str, Any]:
    return {_CONFIGS[name]: value for name, value in config.items() if name in _CONFIGS}


def _kafka_python_partition(partition: Any) -> Any:
    from kafka import TopicPartition

    return TopicPartition(partition.topic, partition.partition)


def _topic(topic: Any) -> SimpleNamespace:
    """Return a topic as confluent-kafka's metadata tell of it."""
    from confluent_kafka import KafkaError

    return SimpleNamespace(
        error=KafkaError(topic.error_code) if topic.error_code else None,
        partitions={
            p.partition_index: SimpleNamespace(leader=p.leader_id, replicas=list(p.replica_nodes))
            for p in topic.partitions
        },
    )
