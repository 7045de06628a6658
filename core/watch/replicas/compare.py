"""Compares what several replicas of a partition hold from the same offset on. Pure.

Replicas are byte for byte the same below the smallest high watermark, except where compaction has
taken records away from one and not yet from another: there only offsets count that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

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
    majority. `others` are those that agree with each other.
    """

    what: DifferenceKind
    first: int
    last: int
    brokers: tuple[int, ...]
    others: tuple[int, ...]
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
        found: list[Batch] = []
        try:
            for batch in batches(body):
                found.append(batch)
        except UnreadableError as error:
            return cls(body, tuple(found), True, isinstance(error, OldFormatError))
        return cls(body, tuple(found), False)

    def bytes_of(self, batch: Batch) -> bytes:
        return self.body[batch.start : batch.end]


def _compare_batches(
    at: int, held: Mapping[int, _ReplicaBatches], ended: Mapping[int, int], compacted: bool
) -> ComparisonResult:
    reach = {
        broker: max(at, one.batches[-1].last + 1 if one.batches else ended.get(broker, at))
        for broker, one in held.items()
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
    for broker, one in held.items():
        for batch in one.batches:
            if batch.first < until:
                by_first.setdefault(batch.first, {})[broker] = batch
    found: list[Difference] = []
    for first in sorted(by_first):
        found += _batch_differences(by_first[first], held, compacted)
    size = max(
        sum(b.end - b.start for b in one.batches if b.first < until) for one in held.values()
    )
    return ComparisonResult(until, size, tuple(found))


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
        offset = _first_offset(bodies[corrupt[0]], bodies[agreed[0]]) if agreed else None
        yield Difference(DifferenceKind.CORRUPT, first, last, corrupt, agreed, offset)
    if len(groups) > 1:
        if len(agreed) == len(groups[1]):
            agreed = ()
        odd = tuple(sorted(broker for broker in sound if broker not in agreed))
        offset = _first_offset(bodies[groups[0][0]], bodies[groups[1][0]], compacted)
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


def _agree_compacted(one: bytes, other: bytes) -> bool:
    """Return whether two batches agree in the offsets that compaction has left in both."""
    try:
        return first_difference(one, other, compacted=True) is None
    except ValueError:
        return False


def _first_offset(one: bytes, other: bytes, compacted: bool = False) -> int | None:
    try:
        return first_difference(one, other, compacted=compacted)
    except ValueError:
        return None
