"""Records of a batch as they are packed, and bytes that only look like some."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from replica_logs import GZIP, batch

from core.watch.replicas.record_batches import read_records

PLAIN = batch(0, ["a" * 500, "b" * 500])


def snappy(body: bytes) -> bytes:
    """Return a batch of two records that is said to be packed with snappy."""
    return PLAIN[:21] + b"\0\2" + PLAIN[23:61] + body


def test_snappy_batch_in_the_framing_of_java_clients_is_read() -> None:
    body = PLAIN[61:]
    packed = b"\x82SNAPPY\x00" + b"\0\0\0\1\0\0\0\1"
    for part in (body[:300], body[300:]):
        block = pa.compress(part, codec="snappy", asbytes=True)
        packed += len(block).to_bytes(4, "big") + block
    assert read_records(snappy(packed)) == read_records(PLAIN)
    assert read_records(PLAIN) is not None


def test_malformed_batch_has_no_records() -> None:
    whole = batch(0, ["a", "b"], GZIP)
    assert read_records(whole[:61] + b"no gzip") is None
    assert read_records(batch(0, ["a", "b"])[:70]) is None


def test_no_memory_is_allocated_for_a_size_beyond_the_snappy_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def decompress(body: bytes, *, decompressed_size: int, **_: Any) -> bytes:
        asked.append(decompressed_size)
        return b""

    monkeypatch.setattr(pa, "decompress", decompress)
    for size in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x20"):
        assert read_records(snappy(size + b"\x04abc")) is None
    assert asked == []
    read_records(snappy(b"\xff\xff\xff\xff\x0f" + b"\x04abc"))
    assert asked == [(1 << 32) - 1], "the largest that there is"


def test_records_larger_than_memory_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def decompress(*_: Any, **__: Any) -> bytes:
        raise pa.ArrowMemoryError("malloc of size 4294967295 failed")

    monkeypatch.setattr(pa, "decompress", decompress)
    assert read_records(snappy(b"\xff\xff\xff\xff\x0f\x04abc")) is None
