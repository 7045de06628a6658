"""Reads a cluster document (`--from`): what is wrong with one is told in one sentence.

Unknown keys are ignored; an absent or null value is unknown, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from core.cluster.broker_logs import BrokerLogs, ReplicaLog, with_logs
from core.cluster.client import Member
from core.cluster.document import FORMAT, ClusterDocument, DocumentGroup
from core.cluster.state import (
    UNKNOWN,
    Broker,
    ClusterState,
    LogDir,
    PartitionRow,
    Topic,
    TopicPartition,
)
from core.errors import DocumentError, UsageError
from core.units import parse_time

_T = TypeVar("_T")
_D = TypeVar("_D")


def read_document(path: Path) -> ClusterDocument:
    """Return a cluster document from a file.

    Raises DocumentError, in one sentence, for whatever is wrong with it.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise DocumentError(
            f"{path} cannot be read: {error.strerror}.", next="Name a file made by show --json."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"{path} is not JSON: {error}.", next="Make one with trimtab show --json -o FILE."
        ) from error
    try:
        return from_json(document, datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except _WrongError as wrong:
        raise DocumentError(
            f"{path} is not a cluster document: {wrong}.",
            next="Make one with trimtab show --json -o FILE.",
        ) from wrong


class _WrongError(Exception):
    """What is wrong, and where in the document."""


def from_json(document: object, written_at: datetime) -> ClusterDocument:
    """Return the document of plain JSON values, as old as `written_at` when it does not say.

    Raises _WrongError.
    """
    root = _Reader(document, "the document")
    format_name = root.get("format", str, FORMAT)
    if not format_name.startswith("trimtab.cluster/"):
        raise _WrongError(f"its format is {format_name!r}")
    if format_name != FORMAT:
        raise _WrongError(f"its format is {format_name}, and this trimtab reads {FORMAT}")
    partitions = root.each("partitions", required=True)
    rows = [_partition(p) for p in partitions]
    _check_twice("partition", [str(row.tp) for row in rows])
    brokers = [_broker(b) for b in root.each("brokers", required=True)]
    _check_twice("broker", [str(broker.id) for broker in brokers])
    known = {broker.id for broker in brokers}
    for row in rows:
        for broker in row.replicas:
            if broker not in known:
                known.add(broker)
                brokers.append(Broker(broker, alive=False))
    described = ClusterState.build(
        cluster_id=root.get("cluster_id", str, ""),
        fetched_at=root.time("fetched_at") or written_at,
        controller=root.get("controller", int, None),
        brokers=brokers,
        topics=[_topic(t) for t in root.each("topics")],
        partitions=rows,
    )
    state = with_logs(described, _logs(brokers, partitions))
    rates = {
        name: np.full(state.partition_count, np.nan)
        for name in ("in_bytes_per_s", "out_bytes_per_s")
    }
    for reader, row in zip(partitions, rows, strict=True):
        index = state.find(row.tp)
        assert index is not None
        for name, column in rates.items():
            column[index] = reader.rate(name)
    groups = tuple(_group(g) for g in root.each("groups"))
    return ClusterDocument(state, rates["in_bytes_per_s"], rates["out_bytes_per_s"], groups)


class _Reader:
    """One JSON object and where it is, for messages."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _WrongError(f"{where} is not an object")
        self._value: dict[str, Any] = value
        self.where = where

    @overload
    def get(self, key: str, kind: type[_T]) -> _T: ...
    @overload
    def get(self, key: str, kind: type[_T], default: _D) -> _T | _D: ...
    def get(self, key: str, kind: type[Any], default: Any = ...) -> Any:
        """Return a value of this type; without a default it must be there."""
        value = self._value.get(key)
        if value is None:
            if default is not ...:
                return default
            raise _WrongError(f"{self.where} has no {key!r}")
        # JSON's true is no number, whatever Python says.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _WrongError(f"{key!r} of {self.where} is not {_KINDS[kind]}")
        if kind is int and not -(2**63) <= value < 2**63:
            raise _WrongError(f"{key!r} of {self.where} is out of range")
        return value

    def id(self, key: str, *default: int) -> int:
        """Return an id, a partition's number or an epoch: what Kafka holds in 32 bits."""
        value = self.get(key, int, *default)
        if not -1 <= value < 2**31:
            raise _WrongError(f"{key!r} of {self.where} is out of range")
        return value

    def rate(self, key: str) -> float:
        value = self._value.get(key)
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise _WrongError(f"{key!r} of {self.where} is not a rate")
        if value >= 2**63:
            raise _WrongError(f"{key!r} of {self.where} is out of range")
        return float(value)

    def capacity(self, key: str) -> float | None:
        value = self.rate(key)
        return None if math.isnan(value) else value

    def size(self, key: str) -> int | None:
        value = self.get(key, int, None)
        if value is not None and value < 0:
            raise _WrongError(f"{key!r} of {self.where} is negative")
        return value

    def ids(self, key: str, *, required: bool = False) -> tuple[int, ...]:
        values = self.get(key, list) if required else self.get(key, list, [])
        if not all(type(v) is int and 0 <= v < 2**31 for v in values):
            raise _WrongError(f"{key!r} of {self.where} is not a list of broker ids")
        if len(set(values)) != len(values):
            raise _WrongError(f"{key!r} of {self.where} names a broker twice")
        return tuple(values)

    def time(self, key: str) -> datetime | None:
        text = self.get(key, str, None)
        if text is None:
            return None
        try:
            return parse_time(text)
        except UsageError as error:
            raise _WrongError(f"{key!r} of {self.where} is not a time") from error

    def each(self, key: str, *, required: bool = False) -> list[_Reader]:
        values = self.get(key, list) if required else self.get(key, list, [])
        return [_Reader(value, f"{key}[{i}]") for i, value in enumerate(values)]


_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    list: "a list",
    bool: "true or false",
}


def _check_twice(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _WrongError(f"{what} {name} is in it twice")
        seen.add(name)


def _broker(reader: _Reader) -> Broker:
    return Broker(
        id=reader.id("id"),
        rack=reader.get("rack", str, None),
        host=reader.get("host", str, ""),
        port=reader.get("port", int, 0),
        alive=reader.get("alive", bool, True),
        log_dirs=tuple(
            LogDir(
                d.get("path", str),
                d.size("total_bytes"),
                d.size("usable_bytes"),
                d.get("error", str, None),
            )
            for d in reader.each("log_dirs")
        ),
        in_capacity_bytes_per_s=reader.capacity("in_capacity_bytes_per_s"),
        out_capacity_bytes_per_s=reader.capacity("out_capacity_bytes_per_s"),
    )


def _topic_name(reader: _Reader, key: str) -> str:
    """Return a name that a terminal can be shown; Kafka's own are far narrower."""
    name = reader.get(key, str)
    if not name or not name.isprintable():
        raise _WrongError(f"{key!r} of {reader.where} is not a topic's name")
    return name


def _topic(reader: _Reader) -> Topic:
    return Topic(
        _topic_name(reader, "name"),
        reader.get("id", str, None),
        reader.get("min_insync", int, None),
        reader.get("retention_ms", int, None),
        reader.get("cleanup_policy", str, None),
    )


def _partition(reader: _Reader) -> PartitionRow:
    replicas = reader.ids("replicas", required=True)
    if not replicas:
        raise _WrongError(f"{reader.where} has no replicas")
    return PartitionRow(
        topic=_topic_name(reader, "topic"),
        partition=reader.id("partition"),
        leader=reader.id("leader"),
        replicas=replicas,
        # Unknown, not empty: an absent ISR is taken to be whole.
        isr=reader.ids("isr") if reader.get("isr", list, None) is not None else replicas,
        adding=reader.ids("adding"),
        removing=reader.ids("removing"),
        leader_epoch=reader.id("leader_epoch", UNKNOWN),
    )


def _logs(brokers: list[Broker], partitions: list[_Reader]) -> list[BrokerLogs]:
    """Return what brokers would have said of their logs; a size for the whole partition is taken
    as its leader's when no detail tells more."""
    replicas: dict[int, list[ReplicaLog]] = {broker.id: [] for broker in brokers}
    for reader in partitions:
        topic, partition = reader.get("topic", str), reader.get("partition", int)
        details = reader.each("replica_detail")
        size, leader = reader.size("size_bytes"), reader.get("leader", int)
        if not details and size is not None and leader in replicas:
            replicas[leader].append(ReplicaLog(topic, partition, size, UNKNOWN, ""))
        for detail in details:
            known, broker = detail.size("size_bytes"), detail.get("broker", int)
            if known is not None and broker in replicas:
                lag, path = detail.size("lag"), detail.get("log_dir", str, "")
                replicas[broker].append(
                    ReplicaLog(topic, partition, known, UNKNOWN if lag is None else lag, path)
                )
    return [BrokerLogs(b.id, b.log_dirs, tuple(replicas[b.id])) for b in brokers]


def _group(reader: _Reader) -> DocumentGroup:
    def tp(item: _Reader) -> TopicPartition:
        return TopicPartition(item.get("topic", str), item.get("partition", int))

    return DocumentGroup(
        reader.get("id", str),
        reader.get("state", str, "unknown"),
        tuple(
            Member(
                m.get("id", str),
                m.get("client_id", str, ""),
                m.get("host", str, ""),
                tuple(tp(item) for item in m.each("assignment")),
            )
            for m in reader.each("members")
        ),
        {tp(item): item.get("lag", int) for item in reader.each("lag")},
    )
