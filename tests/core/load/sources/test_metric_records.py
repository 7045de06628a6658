"""What records of Cruise Control's and AutoMQ's reporters say, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_records import automq_record, cruise_control_record

from core.load.sources import automq, cruise_control
from core.load.sources.reports import BadValueError, Kind, ReportedValue

AT = 1_750_000_000_000
INF, NAN = float("inf"), float("nan")


def test_cruise_control_record_layout_matches_its_source_code() -> None:
    """Written by hand from `PartitionMetric.toBuffer`: nothing is shared with what reads it."""
    record = bytes.fromhex("020004000001977420dc000000000700000003") + b"a_b"
    record += bytes.fromhex("0000000c") + struct.pack(">d", 1e9)
    (value,) = cruise_control.decode(record)
    assert value == ReportedValue(Kind.SIZE, 7, AT, "a_b", 12, 1e9)
    assert record == cruise_control_record(4, AT, 7, 1e9, "a_b", 12)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (cruise_control_record(2, AT, 1, 5.0, "t"), (Kind.TOPIC_IN, 1, AT, "t", -1, 5.0)),
        (cruise_control_record(3, AT, 1, 6.0, "é"), (Kind.TOPIC_OUT, 1, AT, "é", -1, 6.0)),
        (cruise_control_record(4, AT, 1, 0.0, "t", 0), (Kind.SIZE, 1, AT, "t", 0, 0.0)),
        (cruise_control_record(5, AT, 1, 0.5), None),
        (cruise_control_record(0, AT, 1, NAN), None),
        (cruise_control_record(11, AT, 1, 5.0, "t"), None),
        (cruise_control_record(99, AT, 1, 5.0), None),
    ],
)
def test_cruise_control_records_decode_to_reported_values(
    record: bytes, expected: tuple[Kind, int, int, str, int, float] | None
) -> None:
    assert list(cruise_control.decode(record)) == (
        [] if expected is None else [ReportedValue(*expected)]
    )


_WHOLE = cruise_control_record(4, AT, 1, 9.0, "topic", 3)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "length"),
        (b"\x01", "length"),
        (_WHOLE[:-1], "length"),
        (_WHOLE + b"\0", "length"),
        (_WHOLE[:16], "length"),
        (_WHOLE[:15] + struct.pack(">i", -5) + _WHOLE[19:], "length"),
        (_WHOLE[:15] + struct.pack(">i", 2**31 - 1) + _WHOLE[19:], "length"),
        (b"\x03" + _WHOLE[1:], "class"),
        (b'{"topic": "orders", "value": 3}', "class"),
        (cruise_control_record(2, AT, 1, 5.0, "t", version=1), "version"),
        (cruise_control_record(4, AT, 1, 5.0, "t"), "type"),
        (cruise_control_record(2, AT, 1, 5.0, "t", 0), "type"),
        (cruise_control_record(2, AT, 1, -1.0, "t"), "value"),
        (cruise_control_record(2, AT, 1, NAN, "t"), "value"),
        (cruise_control_record(2, AT, 1, INF, "t"), "value"),
        (cruise_control_record(4, AT, 1, 5.0, "t", -1), "partition"),
        (cruise_control_record(2, AT, 1, 5.0, "t").replace(b"t", b"\xff"), "topic"),
    ],
)
def test_malformed_cruise_control_records_are_refused_with_a_reason(
    record: bytes, reason: str
) -> None:
    with pytest.raises(BadValueError) as refused:
        cruise_control.decode(record)
    assert str(refused.value) == reason


def test_automq_record_layout_matches_its_source_code() -> None:
    """Written by hand from `TopicPartitionMetrics.toBuffer`."""
    record = bytes.fromhex("0000000001977420dc000000000700000002") + b"r1"
    record += bytes.fromhex("00000003") + b"a.b" + bytes.fromhex("0000000c0000000102")
    record += struct.pack(">d", 1e9)
    (value,) = automq.decode(record)
    assert value == ReportedValue(Kind.SIZE, 7, AT, "a.b", 12, 1e9)
    assert record == automq_record(AT, 7, {2: 1e9}, "a.b", 12, rack="r1")


def test_automq_records_decode_to_reported_values() -> None:
    record = automq_record(AT, 1, {0: 1.0, 1: 2.0, 2: 3.0, 9: NAN}, "t", 4)
    assert [(value.kind, value.value) for value in automq.decode(record)] == [
        (Kind.PARTITION_IN, 1.0),
        (Kind.PARTITION_OUT, 2.0),
        (Kind.SIZE, 3.0),
    ]
    assert list(automq.decode(automq_record(AT, 1, {3: 1.5, 6: 2.0}, rack="r"))) == []


_PARTITION = automq_record(AT, 1, {0: 1.0}, "t", 4, rack="rack")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "length"),
        (_PARTITION[:-1], "length"),
        (_PARTITION + b"\0", "length"),
        (_PARTITION[:14] + struct.pack(">i", 1000) + _PARTITION[18:], "length"),
        (b"\x02" + _PARTITION[1:], "class"),
        (automq_record(AT, 1, {0: 1.0}, "t", 4, version=3), "version"),
        (automq_record(AT, 1, {0: -1.0}, "t", 4), "value"),
        (automq_record(AT, 1, {0: 1.0}, "t", -4), "partition"),
        (_PARTITION.replace(b"t\0\0\0\4", b"\xff\0\0\0\4"), "topic"),
    ],
)
def test_malformed_automq_records_are_refused_with_a_reason(record: bytes, reason: str) -> None:
    with pytest.raises(BadValueError) as refused:
        automq.decode(record)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("decode", "whole"), [(cruise_control.decode, _WHOLE), (automq.decode, _PARTITION)]
)
@given(data=st.data())
def test_arbitrary_bytes_raise_at_most_a_bad_value_error(
    decode: Callable[[bytes], object], whole: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(whole)))
    record = whole[:at] + data.draw(st.binary(max_size=12)) + whole[data.draw(st.integers(at)) :]
    with suppress(BadValueError):
        decode(record)
