"""Backlog: bytes of submitted moves still to be copied, per broker and side, at the rates in force.

Folded from the journal, by broker and side. What came faster, as somebody took its limit away, has
still to come by this count: so long a run has to wait before it is back at its rate. A side that
gets less than its rate, in a pause for example, earns nothing by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from core.run.journal.held_throttles import Key
from core.run.journal.move_state import RunMove
from core.run.journal.throttle_values import Side
from core.units import UNLIMITED

RateOf = Callable[[Key], int]
"""The rate of a broker and side that is in force, bytes/s or UNLIMITED."""


@dataclass(slots=True)
class Backlog:
    """Bytes that are to come, by broker and side, each as of the moment it was last settled."""

    left: dict[Key, tuple[float, datetime]] = field(default_factory=dict)

    def left_bytes(self, key: Key, rate_bytes_per_s: int, now: datetime) -> float:
        """Return what is left of one side at `now`, at the rate that has been in force since."""
        size, at = self.left.get(key, (0.0, now))
        if rate_bytes_per_s == UNLIMITED:
            return 0.0
        return max(0.0, size - rate_bytes_per_s * max(0.0, (now - at).total_seconds()))

    def settle(self, rate_of: RateOf, at: datetime) -> None:
        """Take in that rates change at `at`: up to then those of `rate_of` have been in force."""
        left = {key: self.left_bytes(key, rate_of(key), at) for key in self.left}
        self.left = {key: (size, at) for key, size in left.items() if size}

    def add(self, m: RunMove, rate_of: RateOf, at: datetime) -> None:
        """Take in that a move is submitted."""
        for key, size in copies(m):
            self.left[key] = self.left_bytes(key, rate_of(key), at) + size, at

    def remove(self, m: RunMove, rate_of: RateOf, at: datetime) -> None:
        """Take in that the rest of a move never comes, as far as that can be told."""
        for key, size in copies(m):
            self.left[key] = max(0.0, self.left_bytes(key, rate_of(key), at) - size), at


def copies(m: RunMove) -> Iterator[tuple[Key, int]]:
    """Yield which brokers and sides copy for a move, and how much, as far as that is known."""
    size, move = m.size_bytes or 0, m.move
    if move.adding:
        leader = next(iter(move.before), -1) if m.leader is None else m.leader
        yield (leader, Side.LEADER), size * len(move.adding)
    for broker in move.adding:
        yield (broker, Side.FOLLOWER), size
    for broker in move.dir_moves:
        yield (broker, Side.LOG_DIRS), size
