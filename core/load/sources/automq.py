"""AutoMQ's metrics topic: what the auto balancer's reporter in its brokers sends.

A record is class and version (a byte each), time (ms, 8 bytes), broker (4), rack (its length in 4
bytes, then the name), of class 0 also the topic (likewise) and partition (4); then the number of
values (4), each an id (a byte) and a double; all big-endian (`MetricSerde` and `RawMetricTypes` of
its source). Its brokers count bytes by partition: nothing need be split.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from core.load.sources.reports import BadValueError, Kind, ReportedValue, check_value

TOPICS = ("__auto_balancer_metrics",)
INTERVAL_SECONDS = 10.0
"""How often brokers report, by default."""

_HEAD, _INT, _PAIR = struct.Struct(">BBqi"), struct.Struct(">i"), struct.Struct(">Bd")
_PARTITION_CLASS, _BROKER_CLASS = range(2)
_KNOWN_VERSION = 0
_KINDS = {0: Kind.PARTITION_IN, 1: Kind.PARTITION_OUT, 2: Kind.SIZE}


def decode(record: bytes) -> Iterable[ReportedValue]:
    """Return what a record says; raises BadValueError for one that is none of this format."""
    try:
        return _decode(record)
    except struct.error:
        raise BadValueError("length") from None


def _decode(record: bytes) -> Iterable[ReportedValue]:
    kind_class, version, at_ms, broker = _HEAD.unpack_from(record)
    if kind_class > _BROKER_CLASS:
        raise BadValueError("class")
    if version > _KNOWN_VERSION:
        raise BadValueError("version")
    _, at = _name(record, _HEAD.size)
    topic, partition = b"", -1
    if kind_class == _PARTITION_CLASS:
        topic, at = _name(record, at)
        (partition,) = _INT.unpack_from(record, at)
        at += _INT.size
    (count,) = _INT.unpack_from(record, at)
    at += _INT.size
    if len(record) != at + count * _PAIR.size:
        raise BadValueError("length")
    if kind_class == _BROKER_CLASS:
        return ()
    if partition < 0:
        raise BadValueError("partition")
    try:
        name = topic.decode()
    except UnicodeDecodeError:
        raise BadValueError("topic") from None
    pairs = dict(_PAIR.iter_unpack(record[at:]))
    return [
        ReportedValue(kind, broker, at_ms, name, partition, check_value(pairs[kind_id]))
        for kind_id, kind in _KINDS.items()
        if kind_id in pairs
    ]


def _name(record: bytes, at: int) -> tuple[bytes, int]:
    """Return the name whose length is at `at`, and where it ends."""
    (length,) = _INT.unpack_from(record, at)
    begin = at + _INT.size
    end = begin + max(0, length)
    if end > len(record):
        raise BadValueError("length")
    return record[begin:end], end
