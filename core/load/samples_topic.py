"""Samples as records of a Kafka topic: its name and configs, the Avro schema, a poll as records.

A record's value is one Avro datum without its schema. Headers say which schema wrote it, and its
checksum: of bytes that have changed, Avro may read an array of billions and take all memory.
Neither fastavro nor pyarrow is imported before a poll is encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from io import BytesIO
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from core.cluster.client import NewRecord
from core.load.samples import COLUMNS, FORMAT, Column

TOPIC = "__trimtab_load_samples"
PARTITIONS = 12
"""A cluster's polls lie in one of them, by its id, and so in order."""
REPLICAS = 3
CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(48 * 3600 * 1000),
}
"""As long as segments are kept in the spool."""
MAX_VALUE_BYTES = 900_000
"""Brokers take batches of 1 MiB unless told otherwise, and a record has a key and headers, too."""

FORMAT_HEADER, SCHEMA_HEADER, CHECKSUM_HEADER = "format", "schema", "crc32"

_AVRO_TYPES: Mapping[str, Any] = {
    "string": "string",
    "int8": "int",
    "int32": "int",
    "int64": "long",
    "double": "double",
    "bool": "boolean",
    "timestamp[us, UTC]": {"type": "long", "logicalType": "timestamp-micros"},
}
_MAX_BYTES = {"string": 5, "int8": 2, "int32": 5, "int64": 10, "double": 8, "bool": 1}
"""What a value takes in Avro at most; a string its length, and its bytes beside."""
_TIME = "timestamp[us, UTC]"


def _avro_field(column: Column) -> dict[str, Any]:
    kind = _AVRO_TYPES[column.type]
    if column.nullable:
        return {"name": column.name, "type": ["null", kind], "default": None}
    return {"name": column.name, "type": kind}


SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "Samples",
    "namespace": "trimtab",
    "doc": f"A part of a poll of one cluster; the samples are {FORMAT}.",
    "fields": [
        {"name": "cluster_id", "type": "string"},
        {"name": "poll", "type": "string", "doc": "equal in all parts of a poll, and in no other"},
        {"name": "at", "type": _AVRO_TYPES[_TIME]},
        {"name": "part", "type": "int", "doc": "counted from 0"},
        {"name": "is_last", "type": "boolean", "doc": "whether no part comes after this one"},
        {
            "name": "samples",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Sample",
                    "fields": [_avro_field(column) for column in COLUMNS],
                },
            },
        },
    ],
}
SCHEMA_JSON = json.dumps(SCHEMA)


@cache
def schema_id() -> str:
    """Return the fingerprint of the schema, as Avro's specification has it: CRC-64-AVRO in hex."""
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return str(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))


def encode_poll(
    cluster_id: str, poll: str, rows: Mapping[str, Any], at: datetime
) -> Iterator[NewRecord]:
    """Yield one poll as records in order, each with a value below MAX_VALUE_BYTES.

    `rows` maps every column of the sample's schema to an Arrow array. A poll without rows is one
    record without samples.
    """
    from fastavro import parse_schema, schemaless_writer

    from core.load.arrow import to_optional

    schema = parse_schema(dict(SCHEMA))
    columns = {column.name: to_optional(rows[column.name]) for column in COLUMNS}
    parts = _part_row_ranges(columns)
    for part, (first, end) in enumerate(parts):
        values = zip(*(column[first:end] for column in columns.values()), strict=True)
        datum = {
            "cluster_id": cluster_id,
            "poll": poll,
            "at": at,
            "part": part,
            "is_last": part == len(parts) - 1,
            "samples": [dict(zip(columns, row, strict=True)) for row in values],
        }
        out = BytesIO()
        schemaless_writer(out, schema, datum)
        yield NewRecord(cluster_id.encode(), out.getvalue(), headers_of(out.getvalue()))


def headers_of(value: bytes) -> dict[str, bytes]:
    """Return the headers of a record with this value."""
    headers = {
        FORMAT_HEADER: FORMAT,
        SCHEMA_HEADER: schema_id(),
        CHECKSUM_HEADER: str(crc32(value)),
    }
    return {name: text.encode() for name, text in headers.items()}


_HEAD_BYTES = 2048
"""What stands before the samples: a cluster's id and a poll's name are shorter than a path."""
_FIXED_BYTES = sum(_MAX_BYTES.get(c.type, 10) + c.nullable for c in COLUMNS)


def _part_row_ranges(columns: Mapping[str, list[Any]]) -> list[tuple[int, int]]:
    """Return the rows of each part, first and behind the last.

    Of a row it is counted what it takes at most, so that none is encoded twice to know.
    """
    texts = [columns[column.name] for column in COLUMNS if column.type == "string"]
    rows = len(texts[0])
    sizes = np.full(rows, _FIXED_BYTES, np.int64)
    for text in texts:
        sizes += _utf8_lengths(text)
    ends = np.cumsum(sizes)
    parts, first, before = [], 0, 0
    while first < rows:
        room = before + MAX_VALUE_BYTES - _HEAD_BYTES
        end = max(first + 1, int(np.searchsorted(ends, room, side="right")))
        parts.append((first, end))
        first, before = end, int(ends[end - 1])
    return parts or [(0, 0)]


def _utf8_lengths(texts: list[str | None]) -> npt.NDArray[np.int64]:
    length_of = {text: len((text or "").encode()) for text in set(texts)}
    return np.fromiter((length_of[text] for text in texts), np.int64, len(texts))
