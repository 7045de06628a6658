"""Compares what several replicas of a partition hold from the same offset on. Pure.

Replicas are byte for byte the same below the smallest high watermark, except where compaction has
taken records away from one and not yet from another: there only offsets count that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from core.cluster.metadata import PartitionRow, TopicPartition
from core.watch.replicas.record_batches import (
    Batch,
    OldFormatError,
    UnreadableError,
    batches,
    first_difference,
)


class DifferenceKind(Enum):
    """How replicas differ."""

    CORRUPT = "corrupt"
    """A batch's checksum is not that of what it holds."""
    OTHER = "other"
    """Both are sound, and hold other records."""
    EPOCH = "epoch"
    """Both are sound, and were written by leaders of other epochs."""
    MISSING = "missing"
    """A batch is not there."""
    UNREADABLE = "unreadable"
    """What follows is no batch at all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Replicas that disagree about the batch of offsets `first` to `last`.

    `brokers` hold what is corrupt, or what most others do not; all of them when there is no
    majority. `intact` are those that agree with each other.
    """

    what: DifferenceKind
    first: int
    last: int
    brokers: tuple[int, ...]
    intact: tuple[int, ...]
    offset: int | None = None
    """The first record that is another one; None when the records cannot be read."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """How far several replicas were compared: below offset `until`, `size_bytes` of each."""

    until: int
    size_bytes: int
    differences: tuple[Difference, ...] = ()
    short: tuple[int, ...] = ()
    """Brokers that gave no whole batch, which is why it is not further."""
    unreadable: tuple[int, ...] = ()
    """Brokers that gave what is no batch, which is why it is not further."""


def compare(
    at: int, read: Mapping[int, bytes], ended: Mapping[int, int], *, compacted: bool
) -> ComparisonResult:
    """Compare what each broker gave from offset `at` on, as far as all of them go.

    `ended` tells of brokers that gave nothing because there is nothing below that offset.
    Raises OldFormatError when all hold messages older than Kafka 0.11.
    """
    shortest = min(read, key=lambda broker: len(read[broker]))
    size = len(read[shortest])
    if size and all(body[:size] == read[shortest] for body in read.values()):
        # The same, as nearly always: one of them stands for all.
        held = _ReplicaBatches.of(read[shortest])
        if held.batches and not held.broken and all(batch.sound for batch in held.batches):
            return ComparisonResult(held.batches[-1].last + 1, held.batches[-1].end)
    return _compare_batches(
        at, {b: _ReplicaBatches.of(body) for b, body in read.items()}, ended, compacted
    )


@dataclass(frozen=True, slots=True)
class _ReplicaBatches:
    """What one replica gave: its whole batches, and whether something follows that is none.

    `old` when that looks like messages from before batches, as it also does by one flipped bit.
    """

    body: bytes
    batches: tuple[Batch, ...]
    broken: bool
    old: bool = False

    @classmethod
    def of(cls, body: bytes) -> _ReplicaBatches:
        whole_batches: list[Batch] = []
        try:
            for batch in batches(body):
                whole_batches.append(batch)
        except UnreadableError as error:
            return cls(body, tuple(whole_batches), True, isinstance(error, OldFormatError))
        return cls(body, tuple(whole_batches), False)

    def bytes_of(self, batch: Batch) -> bytes:
        return self.body[batch.start : batch.end]


def _compare_batches(
    at: int, held: Mapping[int, _ReplicaBatches], ended: Mapping[int, int], compacted: bool
) -> ComparisonResult:
    reach = {
        broker: max(at, piece.batches[-1].last + 1 if piece.batches else ended.get(broker, at))
        for broker, piece in held.items()
    }
    until = min(reach.values())
    if until == at:
        stopped = [broker for broker in held if reach[broker] == at]
        short = tuple(broker for broker in stopped if not held[broker].broken)
        if not short and all(held[b].old and b in stopped for b in held if held[b].body):
            raise OldFormatError
        # While others have still to tell, what looks old may be that, or broken.
        broken = tuple(b for b in stopped if held[b].broken and not (short and held[b].old))
        return ComparisonResult(at, 0, (), short, broken)
    by_first: dict[int, dict[int, Batch]] = {}
    for broker, replica in held.items():
        for batch in replica.batches:
            if batch.first < until:
                by_first.setdefault(batch.first, {})[broker] = batch
    differences: list[Difference] = []
    for first in sorted(by_first):
        differences += _batch_differences(by_first[first], held, compacted)
    size = max(
        sum(b.end - b.start for b in piece.batches if b.first < until) for piece in held.values()
    )
    return ComparisonResult(until, size, tuple(differences))


def _batch_differences(
    having: Mapping[int, Batch], held: Mapping[int, _ReplicaBatches], compacted: bool
) -> Iterator[Difference]:
    """Yield what is wrong with the batch that begins at one offset, of those that have it."""
    sound = {broker: batch for broker, batch in having.items() if batch.sound}
    bodies = {broker: held[broker].bytes_of(batch) for broker, batch in having.items()}
    groups = _group_replicas(sound, bodies, compacted)
    agreed = groups[0] if groups else ()
    any_batch = next(iter((sound or having).values()))
    first, last = any_batch.first, any_batch.last
    corrupt = tuple(sorted(having.keys() - sound.keys()))
    if corrupt:
        offset = _first_differing_offset(bodies[corrupt[0]], bodies[agreed[0]]) if agreed else None
        yield Difference(DifferenceKind.CORRUPT, first, last, corrupt, agreed, offset)
    if len(groups) > 1:
        if len(agreed) == len(groups[1]):
            agreed = ()
        odd = tuple(sorted(broker for broker in sound if broker not in agreed))
        offset = _first_differing_offset(bodies[groups[0][0]], bodies[groups[1][0]], compacted)
        alike = len({sound[group[0]].crc for group in groups}) == 1
        kind = DifferenceKind.EPOCH if alike else DifferenceKind.OTHER
        yield Difference(kind, first, last, odd, agreed, offset)
    lacking = tuple(sorted(held.keys() - having.keys()))
    if lacking and not compacted:
        yield Difference(DifferenceKind.MISSING, first, last, lacking, tuple(sorted(having)), first)


def _group_replicas(
    sound: Mapping[int, Batch], bodies: Mapping[int, bytes], compacted: bool
) -> list[tuple[int, ...]]:
    """Return brokers by what they hold, the most first."""
    groups: list[list[int]] = []
    for broker, batch in sorted(sound.items()):
        for group in groups:
            other = sound[group[0]]
            if (batch.last, batch.crc) == (other.last, other.crc):
                alike = batch.epoch == other.epoch
            else:
                alike = compacted and _agree_compacted(bodies[broker], bodies[group[0]])
            if alike:
                group.append(broker)
                break
        else:
            groups.append([broker])
    return [tuple(group) for group in sorted(groups, key=len, reverse=True)]


def _agree_compacted(batch: bytes, other: bytes) -> bool:
    """Return whether two batches agree in the offsets that compaction has left in both."""
    try:
        return first_difference(batch, other, compacted=True) is None
    except ValueError:
        return False


def _first_differing_offset(batch: bytes, other: bytes, compacted: bool = False) -> int | None:
    try:
        return first_difference(batch, other, compacted=compacted)
    except ValueError:
        return None


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

    def differ(self, differences: Sequence[Difference]) -> None:
        self.different += len(differences)
        self.differences += differences[: max(0, MAX_DIFFERENCES - len(self.differences))]

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
