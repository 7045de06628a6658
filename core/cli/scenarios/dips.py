"""Dips of a producer's rate: how deep, and how soon over; pure.

A new leader is found within a tenth of a second, so that is how finely the rate is looked at; what
a partition is acknowledged less than that counts only while its leader is being looked for.
"""

from __future__ import annotations

from collections import defaultdict

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

    def told(self, now: int) -> list[str]:
        """Return what is to be told of the slices that are whole by `now`."""
        found = []
        for at in range(self._next, now):
            acks, looking = self._acks.pop(at, None), self._looking.pop(at, set())
            rates = {p: (acks[p] if acks else 0) / self._each for p in looking}
            low = [rate for rate in rates.values() if rate < DIP]
            self._calm = 0 if low else self._calm + 1
            if low and self._lowest is None:
                self._begun, self._lowest = at, min(low)
                many = f"in {len(low)} of {self._partitions} partitions"
                found.append(f"rate fell to {min(low):.0%} {many}")
            elif self._lowest is not None:
                self._lowest = min([self._lowest, *low])
                if self._calm >= CALM:
                    took = (at + 1 - CALM - self._begun) * SLICE_SECONDS
                    found.append(f"rate recovered after {took:.1f} s, at least {self._lowest:.0%}")
                    self._lowest = None
        self._next = max(self._next, now)
        return found
