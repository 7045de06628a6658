"""Where the probe's topic lies: one partition, of one replica, on each broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from core.cluster.topics import PROBE_TOPIC

TOPIC: Final = PROBE_TOPIC
RATE: Final = 4
"""Messages a second to each broker: some 120 in a window, so that its p99 is one of them."""
WIRE_BYTES: Final = 350
"""What a message costs on the wire to be produced, and again to be fetched, headers included."""


def places(partitions: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """Return each broker's partition: the lowest that lies on it alone, moved there by whomever."""
    found: dict[int, int] = {}
    for number, replicas in sorted(partitions.items()):
        if len(replicas) == 1:
            found.setdefault(replicas[0], number)
    return found


def missing(
    brokers: Collection[int], partitions: Mapping[int, tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of the partitions that these brokers lack."""
    return tuple((broker,) for broker in sorted(set(brokers) - places(partitions).keys()))


def cost(brokers: int) -> tuple[int, int]:
    """Return messages and bytes a second that probing so many brokers costs in all."""
    return RATE * brokers, 2 * WIRE_BYTES * RATE * brokers
