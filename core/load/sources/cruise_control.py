"""Cruise Control's metrics topic: what its reporter in the brokers sends.

A record is one value: class and version (a byte each), type (a byte), time (ms, 8 bytes), broker
(4), the length of the topic's name (4) and the name, the partition (4), the value (a double), all
big-endian. Records of class 0 (broker) have no topic, those of class 1 (topic) no partition
(`MetricSerde` and `RawMetricType` of its source). Rates are its meters' one-minute averages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from core.load.sources.reports import BadValueError, Kind, ReportedValue, check_value

TOPICS = ("__CruiseControlMetrics", "strimzi.cruisecontrol.metrics")
"""Its own default, and Strimzi's."""
INTERVAL_SECONDS = 60.0
"""How often brokers report, by default."""

_HEAD = struct.Struct(">BBBqi")
_LENGTH, _PARTITION, _VALUE = struct.Struct(">i"), struct.Struct(">i"), struct.Struct(">d")
_NAME_AT = _HEAD.size + _LENGTH.size
_BROKER_CLASS, _TOPIC_CLASS, _PARTITION_CLASS = range(3)
_KNOWN_VERSION = 0
_KINDS = {
    (_TOPIC_CLASS, 2): Kind.TOPIC_IN,
    (_TOPIC_CLASS, 3): Kind.TOPIC_OUT,
    (_PARTITION_CLASS, 4): Kind.SIZE,
}
_USED = {kind_id for _, kind_id in _KINDS}


def decode(record: bytes) -> Iterable[ReportedValue]:
    """Return what a record says; raises BadValueError for one that is none of this format."""
    try:
        kind_class, version, kind_id, at_ms, broker = _HEAD.unpack_from(record)
    except struct.error:
        raise BadValueError("length") from None
    if kind_class > _PARTITION_CLASS:
        raise BadValueError("class")
    if version > _KNOWN_VERSION:
        raise BadValueError("version")
    after_name = _HEAD.size
    if kind_class != _BROKER_CLASS:
        if len(record) < _NAME_AT:
            raise BadValueError("length")
        after_name = _NAME_AT + max(0, *_LENGTH.unpack_from(record, _HEAD.size))
    value_at = after_name + (_PARTITION.size if kind_class == _PARTITION_CLASS else 0)
    if len(record) != value_at + _VALUE.size:
        raise BadValueError("length")
    kind = _KINDS.get((kind_class, kind_id))
    if kind is None:
        if kind_id in _USED:
            raise BadValueError("type")
        return ()
    value = check_value(*_VALUE.unpack_from(record, value_at))
    try:
        topic = record[_NAME_AT:after_name].decode()
    except UnicodeDecodeError:
        raise BadValueError("topic") from None
    partition = -1
    if kind_class == _PARTITION_CLASS:
        (partition,) = _PARTITION.unpack_from(record, after_name)
        if partition < 0:
            raise BadValueError("partition")
    return (ReportedValue(kind, broker, at_ms, topic, partition, value),)
