"""Dips of a producer's rate: how deep, and how soon over; pure.

A new leader is found within a tenth of a second, so that is how finely the rate is looked at; what
a partition is acknowledged less than that counts only while its leader is being looked for.
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

from core.cluster.kafka.connection.settings import ConnectionSettings

SLICE_SECONDS = 0.1
DIP = 0.8
"""Less than this part of a partition's rate in one slice is a dip."""
CALM = 5
"""So many slices without a dip, and it is over."""


class Dips:
    """Slices of a steady rate over partitions; `each` is what one partition has in a slice."""

    def __init__(self, partitions: int, each: float) -> None:
        self._partitions, self._each = partitions, each
        self._acks: dict[int, list[int]] = defaultdict(lambda: [0] * partitions)
        self._looking: dict[int, set[int]] = defaultdict(set)
        self._next = self._calm = self._begun = 0
        self._lowest: float | None = None

    @property
    def is_over(self) -> bool:
        return self._lowest is None

    def acknowledge(self, at: int, partition: int) -> None:
        """Count one record in slice `at`."""
        self._acks[at][partition] += 1

    def look_for_leader(self, at: int, partition: int) -> None:
        """Say that the partition's leader is being looked for in slice `at`."""
        self._looking[at].add(partition)

    def report(self, now: int) -> list[str]:
        """Return what is to be told of the slices that are whole by `now`."""
        events = []
        for at in range(self._next, now):
            acks, looking = self._acks.pop(at, None), self._looking.pop(at, set())
            rates = {p: (acks[p] if acks else 0) / self._each for p in looking}
            low = [rate for rate in rates.values() if rate < DIP]
            self._calm = 0 if low else self._calm + 1
            if low and self._lowest is None:
                self._begun, self._lowest = at, min(low)
                many = f"in {len(low)} of {self._partitions} partitions"
                events.append(f"rate fell to {min(low):.0%} {many}")
            elif self._lowest is not None:
                self._lowest = min([self._lowest, *low])
                if self._calm >= CALM:
                    took = (at + 1 - CALM - self._begun) * SLICE_SECONDS
                    events.append(f"rate recovered after {took:.1f} s, at least {self._lowest:.0%}")
                    self._lowest = None
        self._next = max(self._next, now)
        return events


TICK_SECONDS = 0.05
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
        report: Tell,
    ) -> None:
        self._topic, self._partitions = topic, partitions
        self.per_s, self._record_bytes, self._report = per_s, record_bytes, report
        self.acknowledged: set[int] = set()
        self.refused = 0
        """Records that were given up."""
        self._waits: dict[int, float] = {}
        """Partitions for whose new leader is being looked, since when."""
        self._dips = Dips(partitions, per_s / partitions * SLICE_SECONDS)
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._client = _producer(settings, self._heard)
        self._thread = threading.Thread(target=self._produce, name="steady-producer", daemon=True)
        self._thread.start()

    @property
    def is_whole(self) -> bool:
        """Return whether no dip goes on."""
        return self._dips.is_over

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
            now = self._now()
            for partition in list(self._waits):
                self._dips.look_for_leader(now, partition)
            for text in self._dips.report(now):
                self._report(text, None)

    def _now(self) -> int:
        """Return the slice that it is now."""
        return int((time.monotonic() - self._began) / SLICE_SECONDS)

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
        self._dips.acknowledge(self._now(), partition)
        waited = self._waits.get(partition)
        took = 0.0 if waited is None else time.monotonic() - waited
        if took > TICK_SECONDS:
            del self._waits[partition]
            self._report(f"was acknowledged again after {took:.1f} s", partition)

    def _heard(self, text: str) -> None:
        match = _NOT_LEADER.search(text)
        if match is None or match["topic"].split(":")[-1] != self._topic:
            return
        partition = int(match["partition"])
        if partition not in self._waits:
            self._waits[partition] = time.monotonic()
            self._dips.look_for_leader(self._now(), partition)
            self._report("was told NOT_LEADER_OR_FOLLOWER", partition)


class Reader:
    """Reads a topic from its beginning, and remembers which numbers it has seen."""

    def __init__(self, settings: ConnectionSettings, topic: str, partitions: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        config = settings.librdkafka_config()
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

    config = settings.librdkafka_config()
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
