"""The cluster document as one Arrow file: for clusters of which JSON takes too long to read.

Partitions are rows, what belongs to replicas are lists in assignment order; all else is the JSON
document without its partitions, in the schema's metadata. Unknown is -1 or NaN, as in a state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.document import ClusterDocument, to_json
from core.cluster.json_object import WrongError, once
from core.cluster.state import ClusterState, frozen

MAGIC = b"ARROW1"
_HEADER = b"trimtab.cluster"
_ROWS = ("topic_of", "partition", "leader", "leader_epoch")
_LISTS = ("replica_broker", "in_sync", "adding", "removing", "size_bytes", "lag", "log_dir")
_RATES = ("in_bytes_per_s", "out_bytes_per_s")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*_ROWS, "replica_broker", "log_dir"), np.int32),
    **dict.fromkeys(("in_sync", "adding", "removing"), np.bool_),
    **dict.fromkeys(("size_bytes", "lag"), np.int64),
    **dict.fromkeys(_RATES, np.float64),
}

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """What an Arrow document holds: the JSON beside it, and its columns by name."""

    header: Mapping[str, Any]
    replica_start: Array
    arrays: Mapping[str, Array]


def write(document: ClusterDocument, path: Path) -> None:
    """Write a document into `path`, in its place: a file that is read meanwhile is another's care.

    Raises OSError.
    """
    import pyarrow as pa

    state = document.state
    none = ClusterState.build(
        cluster_id=state.cluster_id,
        fetched_at=state.fetched_at,
        controller=state.controller,
        moves_unknown=state.moves_unknown,
        brokers=state.brokers,
        topics=state.topics,
        partitions=(),
    )
    empty = replace(document, state=none, in_bytes_per_s=np.zeros(0), out_bytes_per_s=np.zeros(0))
    header = to_json(empty) | {"log_dir_paths": list(state.log_dir_paths)}
    starts = pa.array(state.replica_start.astype(np.int32))
    columns = {name: pa.array(getattr(state, name)) for name in _ROWS}
    columns |= {name: pa.array(getattr(document, name)) for name in _RATES}
    for name in _LISTS:
        columns[name] = pa.ListArray.from_arrays(starts, pa.array(getattr(state, name)))
    table = pa.table(columns).replace_schema_metadata({_HEADER: json.dumps(header)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read(content: bytes | Path) -> Columns:
    """Return what an Arrow file holds; raises WrongError for one that is not ours, or damaged."""
    import pyarrow as pa

    try:
        source = pa.memory_map(str(content)) if isinstance(content, Path) else content
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise WrongError("it is damaged, or not whole") from error
    metadata = table.schema.metadata or {}
    if _HEADER not in metadata:
        raise WrongError("it is an Arrow file of something else")
    header = json.loads(metadata[_HEADER], object_pairs_hook=once)
    missing = [name for name in _TYPES if name not in table.column_names]
    if missing:
        raise WrongError(f"it has no column {missing[0]}")
    arrays: dict[str, Array] = {}
    start = np.zeros(1, np.int64)
    for name, kind in _TYPES.items():
        column = table.column(name)
        values = column.chunk(0) if column.num_chunks else column.combine_chunks()
        if name in _LISTS:
            start = _values(name, values.offsets, np.dtype(np.int32)).astype(np.int64)
            values = values.flatten()
            start = start - start[0]
        arrays[name] = _values(name, values, np.dtype(kind))
    _check(header, start, arrays)
    return Columns(header, start, arrays)


def _values(name: str, values: Any, kind: np.dtype[Any]) -> Array:
    """Return a column's values; raises WrongError for ones of another type, or that are missing.

    By the buffer, as pyarrow's own way imports all of pandas first; rates alone may be missing.
    """
    if values.null_count:
        found = np.asarray(values.to_numpy(zero_copy_only=False))
    elif values.type == "bool":
        bits = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        count = values.offset + len(values)
        found = np.unpackbits(bits, bitorder="little", count=count)[values.offset :] == 1
    else:
        found = np.frombuffer(values.buffers()[1] or b"", values.type.to_pandas_dtype())
        found = found[values.offset : values.offset + len(values)]
    if found.dtype != kind:
        raise WrongError(f"its column {name} holds {found.dtype}, not {kind}")
    return found


def _check(header: Mapping[str, Any], start: Array, arrays: Mapping[str, Array]) -> None:
    """Raise WrongError where columns do not fit together."""
    topics = len(header.get("topics", ()))
    rows, replicas = len(arrays["partition"]), int(start[-1])
    if len(start) != rows + 1 or (rows and int(np.diff(start).min()) < 1):
        raise WrongError("a partition has no replicas")
    if any(len(arrays[name]) != replicas for name in _LISTS):
        raise WrongError("its columns are not of one length")
    topic, number = arrays["topic_of"], arrays["partition"]
    if rows and not (topic.min() >= 0 and topic.max() < topics and number.min() >= 0):
        raise WrongError("a partition is of no topic")
    ascending = (np.diff(topic) > 0) | ((np.diff(topic) == 0) & (np.diff(number) > 0))
    if not ascending.all():
        raise WrongError("its partitions are not in order")
    if replicas and arrays["replica_broker"].min() < 0:
        raise WrongError("a replica is on no broker")


def state_of(columns: Columns, header: ClusterState) -> ClusterState:
    """Return the state of these columns, with the brokers and topics that the header tells."""

    def column(name: str) -> Any:
        return frozen(columns.arrays[name])

    return replace(
        header,
        topic_of=column("topic_of"),
        partition=column("partition"),
        leader=column("leader"),
        leader_epoch=column("leader_epoch"),
        replica_start=frozen(columns.replica_start),
        replica_broker=column("replica_broker"),
        in_sync=column("in_sync"),
        adding=column("adding"),
        removing=column("removing"),
        size_bytes=column("size_bytes"),
        lag=column("lag"),
        log_dir=column("log_dir"),
        log_dir_paths=tuple(map(str, columns.header.get("log_dir_paths", ()))),
    )
