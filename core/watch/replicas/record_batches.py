"""Record batches as brokers give them, and the records in one of them.

The layout is that of Kafka 0.11 and later (magic 2, DefaultRecordBatch.java).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

_LENGTH_AT, _MAGIC_AT, _CRC_AT, _SUMMED_AT = 8, 16, 17, 21
_HEAD = Struct(">qiibIhi")
_MAGIC = 2
_MIN_BATCH_BYTES = 61
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
        if magic != _MAGIC or end - at < _MIN_BATCH_BYTES or first < 0 or delta < 0:
            raise UnreadableError
        if end > size:
            return
        sound = google_crc32c.value(records[at + _SUMMED_AT : end]) == crc
        yield Batch(first, first + delta, epoch, crc, sound, at, end)
        at = end


_HEADER = Struct(">qiibIhiqqqhii")
_CODEC, _APPEND_TIME = 0b111, 0b1000
_XERIAL = b"\x82SNAPPY\x00"
_LARGEST_SNAPPY, _SNAPPY_SIZE_BYTES = (1 << 32) - 1, 5
"""What snappy says before a block: its size unpacked, of 32 bits, in five bytes at most."""

Record = tuple[int, bytes]
"""A record's time in milliseconds, and its key, value and headers as they are written."""


def read_records(batch: bytes) -> dict[int, Record] | None:
    """Return a batch's records by offset; None when they cannot be read."""
    try:
        return _records(batch)
    except (ArithmeticError, LookupError, MemoryError, OSError, ValueError, zlib.error):
        return None


def first_difference(batch: bytes, other: bytes, *, compacted: bool = False) -> int | None:
    """Return the least offset at which two batches hold other records, None when there is none.

    With `compacted` only offsets count that both have. Raises ValueError when one of them cannot
    be read.
    """
    left, right = read_records(batch), read_records(other)
    if left is None or right is None:
        raise ValueError
    both = left.keys() & right.keys() if compacted else left.keys() | right.keys()
    return min((at for at in both if left.get(at) != right.get(at)), default=None)


def _records(batch: bytes) -> dict[int, Record]:
    head = _HEADER.unpack_from(batch)
    first, attributes, base_time, max_time, count = head[0], head[5], head[7], head[8], head[12]
    body = _CODECS[attributes & _CODEC](batch[_HEADER.size :])
    records: dict[int, Record] = {}
    at = 0
    for _ in range(count):
        length, at = _varint(body, at)
        end = at + length
        if not at < end <= len(body):
            raise ValueError
        later, inside = _varint(body, at + 1)  # after the record's own attributes
        delta, inside = _varint(body, inside)
        time = max_time if attributes & _APPEND_TIME else base_time + later
        records[first + delta] = (time, body[inside:end])
        at = end
    return records


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zig-zag number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError


def _decompress_stream(codec: str, data: bytes) -> bytes:
    unpacked: bytes = pa.CompressedInputStream(pa.BufferReader(data), codec).read()
    return unpacked


def _snappy(data: bytes) -> bytes:
    """Return what Java clients write in blocks (xerial) and others as one."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data)
    blocks, at = [], 16
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        blocks.append(_snappy_block(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(blocks)


def _snappy_block(data: bytes) -> bytes:
    size = at = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << 7 * at
        at += 1
        if size > _LARGEST_SNAPPY or at > _SNAPPY_SIZE_BYTES:
            raise ValueError
        if byte < 0x80:
            break
    content: bytes = pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True)
    return content


_CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: data,
    1: lambda data: zlib.decompress(data, wbits=31),
    2: _snappy,
    3: partial(_decompress_stream, "lz4"),
    4: partial(_decompress_stream, "zstd"),
}
