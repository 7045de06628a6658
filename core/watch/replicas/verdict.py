"""What was found of a partition's replicas: lags, high watermarks, how far they are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from core.cluster.metadata import TopicPartition
from core.watch.replicas.compare import Difference


class Standing(Enum):
    SAME = "same"
    """All replicas hold the same records, up to where the verification began."""
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"
    """The same as far as they were compared, and something was not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One partition. Offsets `start` to `until` were compared, of those below `end`.

    `end` is the smallest high watermark that replicas in the ISR told first, None when none did;
    what was produced since is not looked at. `size_bytes` is what was compared, counted once.
    """

    tp: TopicPartition
    leader: int | None
    replicas: tuple[int, ...]
    lags: Mapping[int, int]
    """By broker, in messages: what the leader held that the replica did not, a moment later."""
    high_watermarks: Mapping[int, int]
    start: int | None
    until: int | None
    end: int | None
    size_bytes: int
    differences: tuple[Difference, ...]
    """The first ones; `different` counts all of them."""
    different: int
    left_out: Mapping[int | None, str]
    """Why a broker's replica was not compared, or not to the end; None stands for all of them."""

    @property
    def standing(self) -> Standing:
        if self.different:
            return Standing.DIFFERENT
        return Standing.INCOMPLETE if self.left_out else Standing.SAME

    @property
    def compared(self) -> bool:
        """Return whether any of it was compared, or there was nothing to compare."""
        if self.start is None or self.until is None or self.end is None:
            return False
        return self.until > self.start or self.until == self.end

    @property
    def largest_lag(self) -> tuple[int, int] | None:
        """Return (messages, broker) of the follower that is furthest behind; None when unknown."""
        followers = [(lag, -broker) for broker, lag in self.lags.items() if broker != self.leader]
        if not followers:
            return None
        lag, broker = max(followers)
        return lag, -broker


@dataclass(frozen=True, slots=True)
class Verification:
    """All partitions that were asked for, and what it took."""

    verdicts: tuple[Verdict, ...]
    read_bytes: int
    """From all replicas together."""
    seconds: float
    ended: str = ""
    """Which bound ended it before everything was compared."""
    notes: tuple[str, ...] = ()

    @property
    def compared_bytes(self) -> int:
        return sum(verdict.size_bytes for verdict in self.verdicts)

    def count(self, standing: Standing) -> int:
        return sum(verdict.standing is standing for verdict in self.verdicts)
