"""Follows how the probe's topic lies, in a thread of its own; a broker that comes gets its part.

Metadata may be long in coming while a broker dies, and what waits for them would send nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from core.cluster.client import ClusterClient, NewPartitions
from core.cluster.probe.round_trip import Layout
from core.errors import TrimtabError
from core.watch.clients.places import TOPIC, missing

LOOK_SECONDS = 2.0
FEWEST_LOOKS, MOST_LOOKS = 2, 30
"""After so many looks what was not done is tried again: twice as many each time, up to a minute."""


class Looks(Protocol):
    """What is asked for the layout; see core.cluster.probe.round_trip."""

    def look(self) -> Layout: ...


class Follower:
    """Looks until `close`; `changer` is used by this thread alone."""

    def __init__(self, looks: Looks, changer: ClusterClient, say: Callable[[str], None]) -> None:
        self._looks, self._extender = looks, Extender(changer, say)
        self._seen: SimpleQueue[Layout] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="clients-follow", daemon=True)
        self._thread.start()

    def layout(self) -> Layout | None:
        """Return the layout that was seen last, once; None until there is another."""
        found = None
        while not self._seen.empty():
            found = self._seen.get()
        return found

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * LOOK_SECONDS)

    def _follow(self) -> None:
        from confluent_kafka import KafkaException

        while not self._stop.is_set():
            try:
                layout = self._looks.look()
            except KafkaException:
                pass  # clients hear of it, too, and tell it
            else:
                self._seen.put(layout)
                self._extender.extend(layout)
            self._stop.wait(LOOK_SECONDS)


class Extender:
    """Gives each broker that lacks one a partition, and says once what is in the way."""

    def __init__(self, changer: ClusterClient, say: Callable[[str], None]) -> None:
        self._changer, self._say = changer, say
        self._refused: set[int] = set()
        self._said = ""
        self._pause, self._left = 0, 0
        """In looks: between the last try and the next, and what is left of it."""

    def extend(self, layout: Layout) -> None:
        """Try it unless the last try was a moment ago; each is an entry in the audit."""
        if layout.partitions is None:
            return
        lacking = missing(layout.brokers - self._refused, layout.partitions)
        if not lacking:
            self._said, self._pause, self._left = "", 0, 0
            return
        if self._left > 0:
            self._left -= 1
            return
        self._pause = min(2 * self._pause or FEWEST_LOOKS, MOST_LOOKS)
        self._left = self._pause - 1
        text = self._tried(NewPartitions(len(layout.partitions) + len(lacking), lacking))
        if text and text != self._said:
            self._say(text)
            self._said = text

    def _tried(self, more: NewPartitions) -> str:
        """Return what was in the way; "" for nothing."""
        try:
            fault = self._changer.add_partitions({TOPIC: more}).get(TOPIC)
        except TrimtabError as error:
            return f"No partition for new brokers yet: {error.title}"
        if fault is None or fault.name == "INVALID_PARTITIONS":  # it had not heard of the last
            return ""
        if "AUTHORIZATION" in fault.name or fault.name == "POLICY_VIOLATION":
            self._refused |= {replicas[0] for replicas in more.replicas}
            return f"New brokers are not probed: {fault}."
        return f"No partition for new brokers yet: {fault}."
