"""The cluster document as one Arrow file: for clusters of which JSON takes too long to read.

Partitions are rows, what belongs to replicas are lists in assignment order; all else is the JSON
document without its partitions, in the schema's metadata. Unknown is -1 or NaN, as in a state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.documents.cluster_document import ClusterDocument, header_to_json
from core.cluster.documents.json_object import InvalidDocumentError, reject_duplicate_keys
from core.cluster.metadata import NO_LEADER, UNKNOWN

MAGIC = b"ARROW1"
_HEADER = b"trimtab.cluster"
_ROWS = ("topic_of", "partition", "leader", "leader_epoch")
_LISTS = ("replica_broker", "in_sync", "adding", "removing", "size_bytes", "lag", "log_dir")
RATES = ("in_bytes_per_s", "out_bytes_per_s")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*_ROWS, "replica_broker", "log_dir"), np.int32),
    **dict.fromkeys(("in_sync", "adding", "removing"), np.bool_),
    **dict.fromkeys(("size_bytes", "lag"), np.int64),
    **dict.fromkeys(RATES, np.float64),
}

Array = npt.NDArray[Any]


def write_arrow(document: ClusterDocument, path: Path) -> None:
    """Write a document into `path`, in its place; raises OSError."""
    import pyarrow as pa

    state = document.state
    header = header_to_json(document) | {"log_dir_paths": list(state.log_dir_paths)}
    starts = pa.array(state.replica_start.astype(np.int32))
    columns = {name: pa.array(getattr(state, name)) for name in _ROWS}
    columns |= {name: pa.array(getattr(document, name)) for name in RATES}
    for name in _LISTS:
        columns[name] = pa.ListArray.from_arrays(starts, pa.array(getattr(state, name)))
    table = pa.table(columns).replace_schema_metadata({_HEADER: json.dumps(header)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_arrow(content: bytes | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the JSON beside the columns, and these by name, `replica_start` among them.

    Raises InvalidDocumentError for what is none of ours.

    Nothing is done with columns before pyarrow has looked at all of them: on a list that reaches
    out of its values it ends the process.
    """
    import pyarrow as pa

    try:
        source = pa.memory_map(str(content)) if isinstance(content, Path) else content
        table = pa.ipc.open_file(source).read_all()
        _check_schema(table.schema)
        table.validate(full=True)
        table = table.combine_chunks()
        header = _header(table.schema.metadata or {})
    except (pa.ArrowException, OSError, MemoryError, ValueError, RecursionError) as error:
        raise InvalidDocumentError("it is damaged, or not whole") from error
    arrays: dict[str, Array] = {}
    start = np.zeros(1, np.int64)
    for name, kind in _TYPES.items():
        column = table.column(name)
        if column.null_count and name not in RATES:
            raise InvalidDocumentError(f"its column {name} has a value that is missing")
        values = column.chunk(0) if column.num_chunks else column.combine_chunks()
        if name in _LISTS:
            ends = _column_values(name, values.offsets, np.dtype(np.int32)).astype(np.int64)
            values, ends = values.flatten(), ends - ends[0]
            if name != _LISTS[0] and not np.array_equal(start, ends):
                raise InvalidDocumentError("its columns are not of one length")
            start = ends
        arrays[name] = _column_values(name, values, np.dtype(kind))
    _check_columns(header, start, arrays)
    return header, arrays | {"replica_start": start}


def _check_schema(schema: Any) -> None:
    import pyarrow as pa

    if _HEADER not in (schema.metadata or {}):
        raise InvalidDocumentError("it is an Arrow file of something else")
    for name, kind in _TYPES.items():
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            raise InvalidDocumentError(f"it has {'two columns' if indices else 'no column'} {name}")
        type = schema.field(indices[0]).type
        if name in _LISTS:
            if not pa.types.is_list(type):
                raise InvalidDocumentError(f"its column {name} holds {type}, not lists")
            type = type.value_type
        if type != pa.from_numpy_dtype(kind):
            raise InvalidDocumentError(f"its column {name} holds {type}, not {np.dtype(kind)}")


def _header(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    header: object = json.loads(metadata[_HEADER], object_pairs_hook=reject_duplicate_keys)
    if not isinstance(header, dict) or not isinstance(header.get("topics"), list):
        raise InvalidDocumentError("it has no topics")
    paths = header.get("log_dir_paths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InvalidDocumentError("its 'log_dir_paths' is not a list of paths")
    return header


def _column_values(name: str, values: Any, kind: np.dtype[Any]) -> Array:
    """Return a column's values; raises InvalidDocumentError where one but a rate is missing.

    By the buffer, as pyarrow's own way imports all of pandas first.
    """
    if values.null_count:
        if name not in RATES:
            raise InvalidDocumentError(f"its column {name} has a value that is missing")
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(kind)
    if kind == np.bool_:
        bits = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        count = values.offset + len(values)
        flags: Array = np.unpackbits(bits, bitorder="little", count=count)[values.offset :] == 1
        return flags
    numbers: Array = np.frombuffer(values.buffers()[1] or b"", kind, values.offset + len(values))
    return numbers[values.offset :]


def _check_columns(header: Mapping[str, Any], start: Array, arrays: Mapping[str, Array]) -> None:
    rows, replicas = len(arrays["partition"]), int(start[-1])
    counts = np.diff(start)
    if rows and int(counts.min()) < 1:
        raise InvalidDocumentError("a partition has no replicas")
    if len(start) != rows + 1 or any(len(arrays[name]) != replicas for name in _LISTS):
        raise InvalidDocumentError("its columns are not of one length")
    topic, number = arrays["topic_of"], arrays["partition"]
    if rows and not (topic.min() >= 0 and topic.max() < len(header["topics"])):
        raise InvalidDocumentError("a partition is of no topic")
    ascending = (np.diff(topic) > 0) | ((np.diff(topic) == 0) & (np.diff(number) > 0))
    if not ascending.all():
        raise InvalidDocumentError("its partitions are not in order")
    brokers = arrays["replica_broker"]
    if replicas and brokers.min() < 0:
        raise InvalidDocumentError("a replica is on no broker")
    owner = np.repeat(np.arange(rows), counts)
    for step in range(1, int(counts.max(initial=1))):
        if ((owner[step:] == owner[:-step]) & (brokers[step:] == brokers[:-step])).any():
            raise InvalidDocumentError("a partition is twice on one broker")
    leader = arrays["leader"]
    has_leader = np.bincount(owner, leader[owner] == brokers, minlength=rows) > 0
    if not (has_leader | (leader == NO_LEADER)).all():
        raise InvalidDocumentError("a partition is led by none of its replicas")
    for name in ("partition", "leader_epoch", "size_bytes", "lag", "log_dir"):
        if (arrays[name] < (0 if name == "partition" else UNKNOWN)).any():
            raise InvalidDocumentError(f"its column {name} has a value that cannot be")
    if (arrays["log_dir"] >= len(header.get("log_dir_paths", ()))).any():
        raise InvalidDocumentError("a replica is in a log dir that is not named")
    for name in RATES:
        rates = arrays[name]
        if ((rates < 0) | (rates >= 2**63)).any():
            raise InvalidDocumentError(f"its column {name} has a value that is no rate")
