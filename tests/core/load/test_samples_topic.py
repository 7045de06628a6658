"""Samples as records of a topic: what one poll becomes, and what a collector makes of failures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_rows import ROW_VALUES, arrays_of, decoded, sample_row
from simulated import small_spec

from core.cluster.client import NewRecord, UnconfirmedError
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import TrimtabError, UnreachableError
from core.load import samples_topic
from core.load.arrow import dictionary_array, number_array, string_array, to_optional
from core.load.collector.collector import Collector
from core.load.collector.sinks import TopicSink
from core.load.samples import FORMAT
from core.load.samples_topic import MAX_VALUE_BYTES, SCHEMA, encode_poll, schema_id

AT = datetime(2026, 11, 27, 12, 0, 0, 250_000, tzinfo=UTC)
AVSC = Path(__file__).parents[3] / "docs" / "schemas" / "samples.avsc"


def poll_of(rows: list[dict[str, Any]]) -> list[NewRecord]:
    return list(encode_poll("c-1", "host-1-00000001", arrays_of(rows), AT))


@given(st.lists(ROW_VALUES, max_size=8))
def test_rows_read_from_records_equal_the_rows_written(rows: list[dict[str, Any]]) -> None:
    assert [row for record in poll_of(rows) for row in decoded(record.value)["samples"]] == rows


def test_record_carries_its_key_headers_and_poll_fields() -> None:
    (record,) = poll_of([sample_row(0)])
    assert record.key == b"c-1"
    assert record.headers == {
        "format": FORMAT.encode(),
        "schema": schema_id().encode(),
        "crc32": str(crc32(record.value)).encode(),
    }
    head = {name: value for name, value in decoded(record.value).items() if name != "samples"}
    assert head == {
        "cluster_id": "c-1",
        "poll": "host-1-00000001",
        "at": AT,
        "part": 0,
        "is_last": True,
    }


def test_a_poll_without_replicas_is_a_record_without_samples() -> None:
    (record,) = poll_of([])
    assert decoded(record.value)["samples"] == []
    assert decoded(record.value)["is_last"]


@pytest.mark.parametrize("topic", ["t", "a" * 249, "ß" * 100])
def test_record_values_stay_below_the_size_limit_and_parts_are_in_order(topic: str) -> None:
    rows = [{**sample_row(p), "topic": topic, "log_dir": f"/{topic}"} for p in range(12_000)]
    parts = [decoded(record.value) for record in poll_of(rows)]
    assert len(parts) > 1
    assert [part["part"] for part in parts] == list(range(len(parts)))
    assert [part["is_last"] for part in parts] == [False] * (len(parts) - 1) + [True]
    assert {part["poll"] for part in parts} == {"host-1-00000001"}
    partitions = [sample["partition"] for part in parts for sample in part["samples"]]
    assert partitions == list(range(12_000))
    assert all(len(record.value) < MAX_VALUE_BYTES for record in poll_of(rows))


def test_row_with_the_longest_numbers_stays_within_the_assumed_row_size() -> None:
    longest = {
        "int8": 2**7 - 1,
        "int32": -(2**31),
        "int64": -(2**63),
        "double": 1e300,
        "bool": True,
        "string": "",
        "timestamp[us, UTC]": -(2**63),
    }
    row = {column.name: longest[column.type] for column in samples_topic.COLUMNS}
    (single_row,), (double_row,) = poll_of([row]), poll_of([row, row])
    assert len(double_row.value) - len(single_row.value) <= samples_topic._FIXED_BYTES


def test_the_schema_is_the_one_that_is_published() -> None:
    assert json.loads(AVSC.read_text(encoding="utf-8")) == SCHEMA
    # Another id is another schema: readers of this version do not know it.
    assert schema_id() == "14e583079d38c9fe"


def test_columns_become_python_values_with_none_for_null() -> None:
    known = np.array([True, False, True])
    numbers = number_array(np.array([-1, 0, 5]), pa.int64(), known)
    texts = dictionary_array(np.array([1, 0, 0], np.int32), ["a", ""], known)
    assert to_optional(numbers) == [-1, None, 5]
    assert to_optional(numbers.slice(1, 2)) == [None, 5]
    assert to_optional(pa.chunked_array([numbers, numbers])) == [-1, None, 5, -1, None, 5]
    assert to_optional(texts) == ["", None, "a"]
    assert to_optional(string_array(["x", ""])) == ["x", ""]


# -- a collector that writes to a topic ------------------------------------------------------------


class FakeTopic:
    """Takes polls as a topic does, and fails as it is told."""

    def __init__(self) -> None:
        self.polls: list[list[NewRecord]] = []
        self.ensured = 0
        self.failure: TrimtabError | None = None

    def ensure(self) -> None:
        self.ensured += 1

    def write(self, records: Iterable[NewRecord]) -> int:
        if self.failure is not None:
            raise self.failure
        self.polls.append(list(records))
        return len(self.polls[-1])

    def close(self) -> None:
        """Nothing is open."""


TP = TopicPartition("t", 0)


def test_a_poll_goes_to_the_topic_and_not_to_the_spool(tmp_path: Path) -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1, 2)]}))
    topic = FakeTopic()
    sink = TopicSink(topic, topic.ensure)
    polled = Collector(cluster, cluster.clock, tmp_path, sink=sink).poll()
    (records,) = topic.polls
    assert (polled.segment, polled.records, polled.rows) == (None, len(records), 2)
    assert {record.key for record in records} == {cluster.spec.cluster_id.encode()}
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        (UnreachableError("nobody is there"), 20),
        # Some of it may count already: the next interval begins where that one ended.
        (UnconfirmedError("no acknowledgement"), 10),
    ],
)
def test_interval_counts_once_whether_its_write_failed_or_was_unconfirmed(
    tmp_path: Path, failure: TrimtabError, seconds: int
) -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1, 2)]}, in_bytes_per_s={TP: 1e6}))
    topic = FakeTopic()
    sink = TopicSink(topic, topic.ensure)
    collector = Collector(cluster, cluster.clock, tmp_path, sink=sink)
    collector.poll()
    cluster.advance(10)
    topic.failure = failure
    with pytest.raises(type(failure)):
        collector.poll()
    cluster.advance(10)
    topic.failure = None
    collector.poll()
    led = [s for s in decoded(topic.polls[-1][0].value)["samples"] if s["is_leader"]]
    assert [s["dt_ms"] for s in led] == [seconds * 1000]


def test_topic_is_ensured_before_the_first_poll_and_after_a_failure(tmp_path: Path) -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1, 2)]}))
    topic = FakeTopic()
    sink = TopicSink(topic, topic.ensure)
    collector = Collector(cluster, cluster.clock, tmp_path, sink=sink)
    collector.poll()
    cluster.advance(10)
    collector.poll()
    assert topic.ensured == 1
    cluster.advance(10)
    topic.failure = UnreachableError("it is gone")
    with pytest.raises(UnreachableError):
        collector.poll()
    topic.failure = None
    collector.poll()
    assert topic.ensured == 2


def test_record_can_be_read_with_the_published_schema() -> None:
    (record,) = poll_of([sample_row(3)])
    schema = fastavro.schema.load_schema(AVSC)
    read = fastavro.schemaless_reader(BytesIO(record.value), schema, None)
    assert read["samples"][0]["partition"] == 3
