"""The result for a partition's replicas: lags, high watermarks, how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from core.cluster.metadata import PartitionRow, TopicPartition
from core.watch.replicas.compare import Difference


class ReplicaStatus(Enum):
    SAME = "same"
    """All replicas hold the same records, up to where the verification began."""
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"
    """The same as far as they were compared, and something was not."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
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
    def status(self) -> ReplicaStatus:
        if self.different:
            return ReplicaStatus.DIFFERENT
        return ReplicaStatus.INCOMPLETE if self.left_out else ReplicaStatus.SAME

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

    verdicts: tuple[PartitionResult, ...]
    read_bytes: int
    """From all replicas together."""
    seconds: float
    ended: str = ""
    """Which bound ended it before everything was compared."""
    notes: tuple[str, ...] = ()

    @property
    def compared_bytes(self) -> int:
        return sum(verdict.size_bytes for verdict in self.verdicts)

    def count(self, status: ReplicaStatus) -> int:
        return sum(verdict.status is status for verdict in self.verdicts)


MAX_DIFFERENCES = 10
"""Differences that are kept of a partition; more are counted."""


@dataclass(slots=True)
class Comparison:
    """One partition on its way."""

    row: PartitionRow
    compacted: bool
    at: int = 0
    """The offset below which it was compared, from `start` on; `end` is where that is to end."""
    start: int | None = None
    end: int | None = None
    lags: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)
    """High watermarks, by broker, as they were told last."""
    part: set[int] = field(default_factory=set)
    """Brokers whose replicas are still compared."""
    left_out: dict[int | None, str] = field(default_factory=dict)
    size: int = 0
    differences: list[Difference] = field(default_factory=list)
    different: int = 0

    @property
    def tp(self) -> TopicPartition:
        return self.row.tp

    @property
    def open(self) -> bool:
        return len(self.part) > 1 and (self.end is None or self.at < self.end)

    def leave(self, broker: int | None, why: str) -> None:
        self.left_out.setdefault(broker, why)
        if broker is None:
            self.part.clear()
        else:
            self.part.discard(broker)

    def differ(self, found: Sequence[Difference]) -> None:
        self.different += len(found)
        self.differences += found[: max(0, MAX_DIFFERENCES - len(self.differences))]

    def verdict(self) -> PartitionResult:
        return PartitionResult(
            self.tp,
            self.row.leader if self.row.leader >= 0 else None,
            self.row.replicas,
            self.lags,
            self.high,
            self.start,
            None if self.start is None else self.at,
            self.end,
            self.size,
            tuple(self.differences),
            self.different,
            self.left_out,
        )
