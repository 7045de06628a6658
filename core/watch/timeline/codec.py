"""Encodes the timeline's values: a few bytes for a partition, JSON for rare ones."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN, Broker, Topic
from core.cluster.state import ClusterState, read_only
from core.text.json_text import from_known_fields, parse_json
from core.watch.timeline.events import Kind, Note, Replicas, Thing

_HEAD = struct.Struct("<iB")
_REPLICA = struct.Struct("<iB")
_IN_SYNC, _ADDING, _REMOVING = 1, 2, 4
UInt8 = npt.NDArray[np.uint8]
_COLUMNS = (
    *("topic_of", "partition", "leader", "leader_epoch"),
    *("replica_start", "replica_broker", "flags"),
)


MAX_BYTES = 2**30
"""Of a picture: a cluster of ten million replicas takes a tenth."""
T = TypeVar("T")


def encode(thing: Thing | None) -> bytes | None:
    """Return a thing in bytes; None stays None."""
    match thing:
        case None:
            return None
        case Replicas():
            pairs = zip(thing.replicas, replica_flags(thing), strict=True)
            packed = [_REPLICA.pack(broker, flags) for broker, flags in pairs]
            return _HEAD.pack(thing.leader, len(thing.replicas)) + b"".join(packed)
        case Broker():
            return _json([thing.id, thing.rack, thing.host, thing.port, thing.alive])
        case Topic():
            return _json(astuple(thing))  # by place: a new one comes last
        case int():
            return _json(thing)
        case Note():
            raise TypeError("notes have a table of their own")


def decode_replicas(data: bytes) -> Replicas:
    leader, count = _HEAD.unpack_from(data)
    held = list(_REPLICA.iter_unpack(data[_HEAD.size : _HEAD.size + count * _REPLICA.size]))
    if len(held) != count:
        raise struct.error(f"{count} replicas, and room for {len(held)}")
    brokers = tuple([broker for broker, _ in held])
    in_sync = tuple([broker for broker, flag in held if flag & _IN_SYNC])
    # Of thousands of changes hardly any is of a partition that moves.
    if not any(flag & ~_IN_SYNC for _, flag in held):
        return Replicas(leader, brokers, in_sync)
    adding = tuple([broker for broker, flag in held if flag & _ADDING])
    removing = tuple([broker for broker, flag in held if flag & _REMOVING])
    return Replicas(leader, brokers, in_sync, adding, removing)


_BROKER = int(Kind.BROKER | Kind.BROKER_DOWN | Kind.BROKER_UP)
_NUMBER = int(Kind.CONTROLLER | Kind.GAP)


def decode(data: bytes | None, kind: int, partition: int | None) -> Thing | None:
    """Return what an event of this kind is about; None stays None."""
    if data is None:
        return None
    if partition is not None:
        return decode_replicas(data)
    values = parse_json(data)
    if kind & _BROKER:
        return _decode_slots(Broker, values)
    return number_of(values) if kind & _NUMBER else _decode_slots(Topic, values)


def _decode_slots(kind: type[T], values: Any) -> T:
    """Return what was kept by place: an earlier version had fewer."""
    slots: tuple[str, ...] = vars(kind)["__slots__"]
    if not isinstance(values, list) or len(values) > len(slots):
        raise TypeError(f"it is no {kind.__name__}")
    return from_known_fields(kind, dict(zip(slots, values, strict=False)))


def decode_note(by: Any, text: Any, brokers: Any) -> Note:
    return Note(text_of(by), text_of(text), decode_brokers(brokers))


def decode_brokers(text: Any) -> tuple[int, ...]:
    """Return the brokers that a note is of."""
    values = parse_json(text_of(text))
    if not isinstance(values, list):
        raise TypeError("it is no list of brokers")
    return tuple(map(number_of, values))


def text_of(value: Any) -> str:
    """Return a text as such; raises TypeError: SQLite keeps anything anywhere."""
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


def number_of(value: Any) -> int:
    if type(value) is not int or not -(2**31) <= value < 2**53:
        raise TypeError("it is no number")
    return value


def partition_of(value: Any) -> int | None:
    """Return a partition's number as such, and None for what is of no partition."""
    if value is not None and not (type(value) is int and 0 <= value < 2**31):
        raise TypeError("it is no partition")
    return value


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def encode_state(state: ClusterState) -> bytes:
    """Return a picture without sizes, lags and log dirs: a JSON head, then columns."""
    columns = {name: getattr(state, name) for name in _COLUMNS if name != "flags"}
    columns["flags"] = state_flags(state)
    # One after the other columns differ by little, and that packs far better.
    columns["replica_start"] = np.diff(state.replica_start)
    head = {
        "cluster_id": state.cluster_id,
        "controller": state.controller,
        "brokers": [json.loads(encode(broker) or b"") for broker in state.brokers],
        "topics": [json.loads(encode(topic) or b"") for topic in state.topics],
        "columns": [(name, columns[name].dtype.str, len(columns[name])) for name in _COLUMNS],
    }
    text = _json(head)
    body = b"".join(np.ascontiguousarray(columns[name]).tobytes() for name in _COLUMNS)
    return zlib.compress(struct.pack("<I", len(text)) + text + body, 1)


def decode_state(data: bytes, at: datetime) -> ClusterState:
    """Return the picture, as of `at`."""
    unpacked = zlib.decompressobj()
    raw = unpacked.decompress(data, MAX_BYTES)
    if not unpacked.eof:
        raise ValueError("a picture is cut short, or too large")
    (length,) = struct.unpack_from("<I", raw)
    head = parse_json(raw[4 : 4 + length])
    columns, place = {}, 4 + length
    for name, kind, count in head["columns"]:
        columns[name] = np.frombuffer(raw, np.dtype(kind), count, place)
        place += columns[name].nbytes
    return build_state(
        head["cluster_id"],
        at,
        head["controller"],
        [_decode_slots(Broker, values) for values in head["brokers"]],
        [_decode_slots(Topic, values) for values in head["topics"]],
        _check_columns(columns, len(head["topics"])),
    )


def _check_columns(columns: Mapping[str, Any], topics: int) -> Mapping[str, Any]:
    """Return the columns of a picture; raises ValueError where they do not fit each other."""
    if not all(columns[name].dtype.kind in "iu" for name in _COLUMNS):
        raise TypeError("a column of a picture holds no whole numbers")
    counts = columns["replica_start"]
    rows, replicas = len(counts), int(counts.sum(dtype=np.int64))
    of_rows = all(len(columns[name]) == rows for name in _COLUMNS[:4])
    of_replicas = all(len(columns[name]) == replicas for name in _COLUMNS[5:])
    if not (of_rows and of_replicas) or (counts < 0).any():
        raise ValueError("the columns of a picture are not of one length")
    topic_of = columns["topic_of"]
    if rows and not (topic_of.min() >= 0 and topic_of.max() < topics):
        raise ValueError("a partition of a picture is of no topic")
    return columns


def build_state(
    cluster_id: str,
    at: datetime,
    controller: int | None,
    brokers: Sequence[Broker],
    topics: Sequence[Topic],
    columns: Mapping[str, Any],
) -> ClusterState:
    """Return a picture of these columns; `replica_start` are counts, `flags` of each replica."""
    flags = columns["flags"]
    start = np.zeros(len(columns["replica_start"]) + 1, np.int64)
    np.cumsum(columns["replica_start"], out=start[1:])
    total = int(start[-1])
    return ClusterState(
        cluster_id=cluster_id,
        fetched_at=at,
        controller=controller,
        brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
        topics=tuple(topics),
        topic_of=read_only(columns["topic_of"].astype(np.int32)),
        partition=read_only(columns["partition"].astype(np.int32)),
        leader=read_only(columns["leader"].astype(np.int32)),
        leader_epoch=read_only(columns["leader_epoch"].astype(np.int32)),
        replica_start=read_only(start),
        replica_broker=read_only(columns["replica_broker"].astype(np.int32)),
        in_sync=read_only((flags & _IN_SYNC) != 0),
        adding=read_only((flags & _ADDING) != 0),
        removing=read_only((flags & _REMOVING) != 0),
        size_bytes=read_only(np.full(total, UNKNOWN, np.int64)),
        lag=read_only(np.full(total, UNKNOWN, np.int64)),
        log_dir=read_only(np.full(total, UNKNOWN, np.int32)),
    )


def state_flags(state: ClusterState) -> UInt8:
    """Return one byte for each replica of a picture, shape [R]."""
    flags = state.in_sync.view(np.uint8) * np.uint8(_IN_SYNC)
    flags |= state.adding.view(np.uint8) * np.uint8(_ADDING)
    flags |= state.removing.view(np.uint8) * np.uint8(_REMOVING)
    return flags


def replica_flags(of: Replicas) -> list[int]:
    """Return one byte for each replica, in order."""
    return [
        _IN_SYNC * (b in of.isr) | _ADDING * (b in of.adding) | _REMOVING * (b in of.removing)
        for b in of.replicas
    ]


def to_milliseconds(at: datetime) -> int:
    """Return a time as the timeline keeps it, since 1970."""
    return round(at.timestamp() * 1000)


def from_milliseconds(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
