"""Follows how the probe's topic lies, in a thread of its own; a broker that comes gets its part.

Metadata may be long in coming while a broker dies, and what waits for them would send nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from core.cluster.client import ClusterClient, NewPartitions
from core.cluster.pinger import Layout
from core.errors import TrimtabError
from core.watch.clients.places import TOPIC, missing

LOOK_SECONDS = 2.0


class Looks(Protocol):
    """What is asked for the layout; see core.cluster.pinger."""

    def look(self) -> Layout: ...


class Follower:
    """Looks until `close`; `changer` is used by this thread alone."""

    def __init__(self, looks: Looks, changer: ClusterClient, say: Callable[[str], None]) -> None:
        self._looks, self._changer, self._say = looks, changer, say
        self._seen: SimpleQueue[Layout] = SimpleQueue()
        self._refused: set[int] = set()
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
                self._extend(layout)
            self._stop.wait(LOOK_SECONDS)

    def _extend(self, layout: Layout) -> None:
        """Give each broker that lacks one a partition; what is refused is said once."""
        if layout.partitions is None:
            return
        wanted = layout.brokers - self._refused
        lacking = missing(wanted, layout.partitions)
        if not lacking:
            return
        more = NewPartitions(len(layout.partitions) + len(lacking), lacking)
        try:
            fault = self._changer.add_partitions({TOPIC: more}).get(TOPIC)
        except TrimtabError as error:
            self._say(f"No partition for new brokers yet: {error.title}")
            return
        if fault is not None and fault.name != "INVALID_PARTITIONS":  # it had not heard of the last
            self._refused |= {replicas[0] for replicas in lacking}
            self._say(f"New brokers are not probed: {fault}.")
