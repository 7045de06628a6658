"""A producer and a consumer that count: what was acknowledged, when, and what could be read of it.

What the client library is told by brokers is told to the timeline, as its user would see it.
"""

from __future__ import annotations

import logging
import re
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from core.cluster.kafka.connection import ConnectionSettings

TICK_SECONDS = 0.05
SLICE_SECONDS = 0.5
"""How finely the acknowledged rate is looked at: looking for a new leader takes about as long."""
DIP = 0.5
"""Less than this part of a partition's rate in one slice is a dip."""
CALM = 2
"""So many slices without a dip, and it is over."""
_NOT_LEADER = re.compile(
    r"(?P<topic>\S+) \[(?P<partition>\d+)\].*?Not leader for partition", re.IGNORECASE | re.DOTALL
)
_NUMBER = struct.Struct(">Q")

Tell = Callable[[str, int | None], None]
"""Hears what a client saw: a clause in the past tense, and of which partition."""


class Producer:
    """Produces records of one size steadily, over all partitions in turn, until it is stopped."""

    def __init__(
        self,
        settings: ConnectionSettings,
        topic: str,
        partitions: int,
        *,
        per_s: int,
        record_bytes: int,
        tell: Tell,
    ) -> None:
        self._topic, self._partitions = topic, partitions
        self.per_s, self._record_bytes, self._tell = per_s, record_bytes, tell
        self.acknowledged: set[int] = set()
        self.refused = 0
        """Records that were given up."""
        self._waits: dict[int, float] = {}
        """Partitions for whose new leader is being looked, since when."""
        self._acks: dict[int, list[int]] = defaultdict(lambda: [0] * partitions)
        self._slice, self._calm = 0, 0
        self._dip: tuple[int, float] | None = None
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._client = _producer(settings, self._heard)
        self._thread = threading.Thread(target=self._produce, name="steady-producer", daemon=True)
        self._thread.start()

    @property
    def is_whole(self) -> bool:
        """Return whether no dip goes on."""
        return self._dip is None

    def stop(self) -> None:
        """Stop producing, and wait until all is acknowledged or given up."""
        self._stop.set()
        self._thread.join()
        self._client.flush(60)

    def _produce(self) -> None:
        body = bytes(range(256)) * (self._record_bytes // 256 + 1)
        body = body[: self._record_bytes - _NUMBER.size]
        sent = 0
        while not self._stop.wait(TICK_SECONDS):
            due = int((time.monotonic() - self._began) * self.per_s)
            # What was missed in a stall of this machine stays missed.
            sent = max(sent, due - self.per_s)
            for number in range(sent, due):
                self._send(number, _NUMBER.pack(number) + body)
            sent = due
            self._client.poll(0)
            self._watch(int((time.monotonic() - self._began) / SLICE_SECONDS))

    def _watch(self, now: int) -> None:
        """Look at the slices that are whole by `now`; tell where the rate falls and recovers."""
        each = self.per_s / self._partitions * SLICE_SECONDS
        for at in range(self._slice, now):
            acks = self._acks.pop(at, [0] * self._partitions)
            if at == self._slice == 0 or (self._calm == 0 and self._dip is None and not all(acks)):
                continue  # it has just begun
            low = [partition for partition, count in enumerate(acks) if count < DIP * each]
            part = min(sum(acks) / (each * self._partitions), 1.0)
            self._calm = 0 if low else self._calm + 1
            if low and self._dip is None:
                self._dip = (at, part)
                many = f"{len(low)} of {self._partitions} partitions below half of theirs"
                self._tell(f"rate fell to {part:.0%}, {many}", None)
            elif self._dip is not None:
                begun, lowest = self._dip
                self._dip = (begun, min(lowest, part))
                if self._calm >= CALM:
                    took = (at + 1 - CALM - begun) * SLICE_SECONDS
                    self._dip = None
                    self._tell(f"rate recovered after {took:.1f} s, at least {lowest:.0%}", None)
        self._slice = max(self._slice, now)

    def _send(self, number: int, value: bytes) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._take(number, message.partition())
            else:
                self.refused += 1

        while not self._stop.is_set():
            try:
                self._client.produce(
                    self._topic,
                    value,
                    partition=number % self._partitions,
                    on_delivery=delivered,
                )
            except BufferError:
                self._client.poll(TICK_SECONDS)
            else:
                return

    def _take(self, number: int, partition: int) -> None:
        self.acknowledged.add(number)
        now = time.monotonic()
        self._acks[int((now - self._began) / SLICE_SECONDS)][partition] += 1
        waited = self._waits.get(partition)
        if waited is not None and now - waited > TICK_SECONDS:
            del self._waits[partition]
            self._tell(f"was acknowledged again after {now - waited:.1f} s", partition)

    def _heard(self, text: str) -> None:
        found = _NOT_LEADER.search(text)
        if found is None or found["topic"].split(":")[-1] != self._topic:
            return
        partition = int(found["partition"])
        if partition not in self._waits:
            self._waits[partition] = time.monotonic()
            self._tell("was told NOT_LEADER_OR_FOLLOWER", partition)


class Reader:
    """Reads a topic from its beginning, and remembers which numbers it has seen."""

    def __init__(self, settings: ConnectionSettings, topic: str, partitions: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        config = settings.confluent()
        logger = config.pop("logger")
        self.seen: set[int] = set()
        self._stop = threading.Event()
        self._client = Consumer(
            {**config, "group.id": "steady-reader", "enable.auto.commit": False},
            logger=logger,
        )
        self._client.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self._thread = threading.Thread(target=self._read, name="steady-reader", daemon=True)
        self._thread.start()

    def wait_for(self, numbers: set[int], seconds: float) -> set[int]:
        """Return which of these were not read in so many seconds."""
        deadline = time.monotonic() + seconds
        while (missing := numbers - self.seen) and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS)
        return missing

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _read(self) -> None:
        while not self._stop.is_set():
            for message in self._client.consume(num_messages=2000, timeout=0.2):
                if message.error() is None:
                    self.seen.add(_NUMBER.unpack_from(message.value())[0])


def _producer(settings: ConnectionSettings, heard: Callable[[str], None]) -> Any:
    from confluent_kafka import Producer as Client

    config = settings.confluent()
    config.pop("logger")
    return Client(
        {
            **config,
            "acks": "all",
            "linger.ms": 20,
            "debug": "msg",  # only so does the library say what brokers answered
            "log_level": 7,
        },
        logger=_listener(heard),
    )


def _listener(heard: Callable[[str], None]) -> logging.Logger:
    """Return a logger that only listens: nothing that the library says is printed."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard(record.getMessage())

    logger = logging.Logger("steady-producer", logging.DEBUG)
    logger.addHandler(Listener())
    return logger
