"""Measures produce latency with a small producer: how long acks=all takes.

It writes to a topic of its own, made for it and deleted afterwards, one partition led by each
broker with two followers. Whatever fails here stops the measuring only: `trouble` says why.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from core.clock import Clock
from core.cluster.client import ClusterClient, NewTopic
from core.cluster.connect import Address, connect, connection_settings
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.topics import PROBE_TOPIC
from core.errors import TrimtabError, UnreachableError

if TYPE_CHECKING:
    from core.cluster.kafka.connection.settings import ConnectionSettings

MESSAGE_BYTES = 100
TOPIC_CONFIGS: Mapping[str, str] = {
    "retention.ms": "60000",
    "retention.bytes": "1048576",
    "segment.bytes": "1048576",
    "min.insync.replicas": "1",
    "cleanup.policy": "delete",
}
"""What is written here is read at once or never: it holds some megabytes for some minutes."""
TOPIC_PREFIX = f"{PROBE_TOPIC}-"
WINDOW_SECONDS = 4.0
MAX_WINDOWS = 30
MESSAGES_PER_S = 6
"""To each broker: two dozen a window, the slowest being its p99. Small brokers feel more than that:
beside copies at 2 MB/s each of a sandbox's took 0.12 s of its processor a second, 0.16 at 15."""
TIMEOUT_SECONDS = 5.0
"""What a message that is not taken is counted as having waited."""
REPLICAS = 3
"""The leader, and two followers whose fetches a move's copies may delay, as most topics have them.

Messages wait for the slower of the two: with one, they tell of less than producers feel.
"""
START_SECONDS = 20.0
CLOSE_SECONDS = 30.0
"""How long it is tried to delete the topic: a dead broker is taken for the controller at first."""
RETRY_SECONDS = 0.5


def producer_config(timeout_seconds: float) -> dict[str, Any]:
    """Return how a probe produces: each message at once, given up after `timeout_seconds`."""
    return {
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": int(timeout_seconds * 1000),  # so its queue never fills
        "socket.nagle.disable": True,
    }


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value that `part` of these do not exceed (nearest rank)."""
    return ordered[math.ceil(part * len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class LatencyWindow:
    """How long messages to one broker waited for all their acks; those not taken are `failed`."""

    begun_at: datetime
    messages: int
    failed: int
    p50_ms: float
    p99_ms: float


def start_probe(
    address: Address,
    name: str,
    brokers: Sequence[int],
    clock: Clock,
    audited: Callable[[ClusterClient], ClusterClient],
) -> ProduceProbe | None:
    """Return a probe that has begun to measure; None for a simulator, which has no producers.

    By what `audited` returns, its topic is made and deleted.
    """
    if address.is_simulated:
        return None
    settings = connection_settings(address)
    probe = ProduceProbe(settings, lambda: audited(connect(address).client), name, brokers, clock)
    probe.start()
    return probe


class ProduceProbe:
    """Measures in a thread of its own; nothing here blocks, raises, or outlives `close`.

    `replicas_by_broker` are those of each broker's partition, leader first, once they are known.
    `leftover` says in words what a closed one could not take away.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        open_client: Callable[[], ClusterClient],
        name: str,
        brokers: Sequence[int],
        clock: Clock,
    ) -> None:
        self.topic = f"{TOPIC_PREFIX}{name}"
        self.trouble = ""
        self.leftover = ""
        self.replicas_by_broker: Mapping[int, tuple[int, ...]] = {}
        self._settings, self._brokers, self._clock = settings, tuple(sorted(brokers)), clock
        self._open_client = open_client
        self._windows: dict[int, deque[LatencyWindow]] = {}
        self._waited_ms: dict[int, list[float]] = {}
        self._failed: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def windows(self) -> dict[int, tuple[LatencyWindow, ...]]:
        """Return each broker's windows, oldest first."""
        return {broker: tuple(windows) for broker, windows in list(self._windows.items())}

    def close(self) -> None:
        """Stop, and delete the topic. A cluster that does not answer is not waited for."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS + TIMEOUT_SECONDS)

    # -- in its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        try:
            # One client to the end: by then the servers that were named may be gone, and others up.
            with closing(self._open_client()) as client:
                try:
                    self._create_topic(client)
                    self._measure()
                except (KafkaException, TrimtabError) as error:
                    self._say(error)
                self._delete(client)
        except TrimtabError as error:
            self._say(error)

    def _say(self, error: Exception) -> None:
        """Keep the first trouble: what follows comes of it."""
        first = error.args[0] if error.args else error  # a title, or librdkafka's error
        reason = first.str() if hasattr(first, "str") else first
        self.trouble = self.trouble or f"produce latency is not measured: {reason}"

    def _create_topic(self, client: ClusterClient) -> None:
        """Make the topic; one of that name is ours, from before this process."""
        ring = [*self._brokers, *self._brokers]
        copies = min(REPLICAS, len(self._brokers))
        layout = tuple(tuple(ring[at : at + copies]) for at in range(len(self._brokers)))
        topic = NewTopic(self.topic, layout, TOPIC_CONFIGS)
        fault = self._change(lambda: client.create_topics([topic]))
        if fault is None or "AUTHORIZATION" not in fault.name:
            self.leftover = f"the topic {self.topic} may be left"
        if fault is not None and fault.name != "TOPIC_ALREADY_EXISTS":
            raise TrimtabError(str(fault))

    def _delete(self, client: ClusterClient) -> None:
        """Delete the topic; while a broker has just died, others are asked until one does it."""
        deadline = self._clock.monotonic() + CLOSE_SECONDS
        while True:
            fault = self._change(lambda: client.delete_topics([self.topic]))
            if fault is None or is_missing(fault):
                break
            if fault.is_denial or self._clock.monotonic() >= deadline:
                raise TrimtabError(str(fault))
            self._clock.sleep(RETRY_SECONDS)
        self.leftover = ""

    def _change(self, call: Callable[[], Mapping[str, Fault | None]]) -> Fault | None:
        """Return what comes of a change; without an answer it may have been made all the same."""
        try:
            return call().get(self.topic, Fault("UNKNOWN_SERVER_ERROR", "it is left out"))
        except UnreachableError as error:
            return Fault("REQUEST_TIMED_OUT", error.title)

    def _measure(self) -> None:
        from core.cluster.kafka.record_clients import open_producer

        producer = open_producer(self._settings, producer_config(TIMEOUT_SECONDS))
        partitions = self._placed(producer)
        if not partitions:
            return
        self._produce(producer, partitions)
        producer.close()

    def _placed(self, producer: Any) -> dict[int, int]:
        """Return each broker's partition once all are led; none when it takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not self._stop.is_set() and time.monotonic() < deadline:
            topic = producer.list_topics(self.topic, timeout=5).topics[self.topic]
            partitions = topic.partitions
            if (
                topic.error is None
                and partitions
                and all(p.leader >= 0 for p in partitions.values())
            ):
                self.replicas_by_broker = {
                    p.replicas[0]: tuple(p.replicas) for p in partitions.values()
                }
                return {p.replicas[0]: number for number, p in partitions.items()}
            self._stop.wait(0.1)
        if not self._stop.is_set():
            self.trouble = f"produce latency is not measured: {self.topic} has no leaders"
        return {}

    def _produce(self, producer: Any, partitions: Mapping[int, int]) -> None:
        """Send to one broker after the other, evenly, and close a window every few seconds.

        The first window, in which connections are made, does not count.
        """
        payload = bytes(MESSAGE_BYTES)
        recorders = {broker: self._recorder(broker) for broker in partitions}
        pause = 1 / (MESSAGES_PER_S * len(partitions))
        began, sent = time.monotonic(), 0
        begun_at, ends, first = self._clock.now(), began + WINDOW_SECONDS, True
        order = sorted(partitions)
        while not self._stop.is_set() and not self.trouble:
            now = time.monotonic()
            if now >= ends:
                if not first:
                    self._close_windows(order, begun_at)
                self._waited_ms, self._failed = {}, {}
                begun_at, ends, first = self._clock.now(), now + WINDOW_SECONDS, False
            if now - began > (sent + len(order) * MESSAGES_PER_S) * pause:
                began, sent = now, 0  # the machine slept: what was missed stays missed
            while sent * pause <= now - began:
                broker = order[sent % len(order)]
                producer.produce(
                    self.topic,
                    payload,
                    partition=partitions[broker],
                    on_delivery=recorders[broker],
                )
                sent += 1
            producer.poll(min(max(sent * pause - (time.monotonic() - began), 0.0), 0.1))

    def _recorder(self, broker: int) -> Callable[[Any, Any], None]:
        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                waited = message.latency()
            elif "AUTHORIZATION" in error.name():  # no waiting mends that
                self._say(Exception(error))
                return
            else:
                self._failed[broker] = self._failed.get(broker, 0) + 1
                waited = TIMEOUT_SECONDS
            if waited is not None:
                self._waited_ms.setdefault(broker, []).append(waited * 1000)

        return on_delivery

    def _close_windows(self, brokers: Sequence[int], begun_at: datetime) -> None:
        for broker in brokers:
            waited = sorted(self._waited_ms.get(broker, ()))
            if waited:
                window = LatencyWindow(
                    begun_at,
                    len(waited),
                    self._failed.get(broker, 0),
                    quantile(waited, 0.50),
                    quantile(waited, 0.99),
                )
                self._windows.setdefault(broker, deque(maxlen=MAX_WINDOWS)).append(window)
