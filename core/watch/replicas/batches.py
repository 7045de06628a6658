"""Record batches as a replica gives them: where each begins and ends, and whether it is sound.

The layout is that of Kafka 0.11 and later (magic 2, DefaultRecordBatch.java).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import google_crc32c

_LENGTH_AT, _MAGIC_AT, _CRC_AT, _SUMMED_AT = 8, 16, 17, 21
_HEAD = Struct(">qiibIhi")
_MAGIC = 2
_LEAST_BYTES = 61
"""A batch without records is only its header; compaction leaves such ones."""


class UnreadableError(Exception):
    """Bytes that are no record batch; `offset` is that of the next one, as far as is known."""


class OldFormatError(UnreadableError):
    """Messages as they were before Kafka 0.11."""


class Batch(NamedTuple):
    """One batch: offsets `first` to `last`, and where it lies in what was read."""

    first: int
    last: int
    epoch: int
    """The leader's, by which replicas are cut after it has changed; no checksum covers it."""
    crc: int
    """As its header says."""
    sound: bool
    """Whether what it holds is what that checksum was made of."""
    start: int
    end: int


def batches(records: bytes) -> Iterator[Batch]:
    """Yield whole batches; one that is cut off ends them.

    Raises UnreadableError at what cannot be the beginning of a batch.
    """
    at, size = 0, len(records)
    while at + _HEAD.size <= size:
        first, length, epoch, magic, crc, _, delta = _HEAD.unpack_from(records, at)
        if magic in (0, 1):
            raise OldFormatError
        end = at + 12 + length
        if magic != _MAGIC or end - at < _LEAST_BYTES or first < 0 or delta < 0:
            raise UnreadableError
        if end > size:
            return
        sound = google_crc32c.value(records[at + _SUMMED_AT : end]) == crc
        yield Batch(first, first + delta, epoch, crc, sound, at, end)
        at = end
