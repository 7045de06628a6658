"""Samples as Python values, as Arrow columns, and as they come out of a topic's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from core.load.samples import COLUMNS
from core.load.samples_topic import SCHEMA
from core.load.spool import SCHEMA as ARROW_SCHEMA

TS = 1_795_780_800_000_000
"""Microseconds: 2026-11-27 12:00."""


def sample_row(partition: int, *, cluster: str = "c-1", topic: str = "orders") -> dict[str, Any]:
    """Return a leader's sample of ten seconds."""
    return {
        **dict.fromkeys(column.name for column in COLUMNS),
        "cluster_id": cluster,
        "topic": topic,
        "topic_id": f"id-of-{topic}",
        "partition": partition,
        "broker_id": 1,
        "is_leader": True,
        "ts": TS,
        "dt_ms": 10_000,
        "end_offset": 500,
        "start_offset": 0,
        "offset_delta": 5,
        "size_delta": -1,
        "size_bytes": 4_000,
        "in_bytes": 40.5,
        "in_method": 2,
        "out_method": 0,
        "log_dir": "/var/lib/kafka",
        "source": "admin",
        "collector_id": "host",
        "poll_id": 7,
        "flags": 0,
    }


_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=30),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    # Years that Python's datetime has.
    "timestamp[us, UTC]": st.integers(0, 4 * 10**15),
}
ROW_VALUES = st.fixed_dictionaries(
    {
        column.name: st.none() | _VALUES[column.type] if column.nullable else _VALUES[column.type]
        for column in COLUMNS
    }
)
"""Any row that the schema allows."""


def arrays_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as Arrow arrays by column, as a collector has them."""
    return {
        field.name: pa.array([row[field.name] for row in rows], field.type)
        for field in ARROW_SCHEMA
    }


def decoded(value: bytes) -> dict[str, Any]:
    """Return what a record holds; the samples' times are microseconds."""
    record: dict[str, Any] = fastavro.schemaless_reader(BytesIO(value), dict(SCHEMA), None)
    for sample in record["samples"]:
        ts = sample["ts"]
        seconds = ts.replace(microsecond=0).timestamp()
        sample["ts"] = round(seconds) * 1_000_000 + ts.microsecond
    return record
