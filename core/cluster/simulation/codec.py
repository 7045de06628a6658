"""What travels on the simulator's socket: which calls there are, and their values as JSON."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Set
from datetime import datetime
from enum import Enum
from typing import Any

import numpy as np

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.client import ClusterClient, NewPartitions, NewTopic, OffsetAt
from core.cluster.configs import (
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    Resource,
    ResourceKind,
)
from core.cluster.groups import ActiveGroups, Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog
from core.cluster.metadata import (
    Broker,
    FutureReplica,
    LogDir,
    Reassignment,
    Topic,
    TopicPartition,
)
from core.cluster.simulation.spec import SimulatedFaults
from core.cluster.state import ClusterState

Json = Any

CALLS = frozenset(
    (
        *(name for name in vars(ClusterClient) if not name.startswith("_") and name != "close"),
        *("stop_broker", "start_broker", "fill_disk", "free_disk"),
        *("skew", "clear_skew", "change_members", "fetch_faults"),
    )
)
"""What a client may ask of the cluster at the other end: ClusterClient's calls, and faults."""

_PLAIN = (str, int, float, bool, type(None))
_FLAT = (TopicPartition, ReplicaLog)
"""Records of plain values: many of them travel as columns, which takes a tenth of the time."""
_RECORDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(ClusterState, Broker, Topic, LogDir, FutureReplica, HiddenTopics, HiddenLogDir),
        *(TopicPartition, Reassignment, BrokerLogs, ReplicaLog, Fault, SimulatedFaults),
        *(Resource, ResourceKind, ConfigChange, ConfigOp, ConfigValue, ConfigSource),
        *(InheritedConfig, NewTopic, NewPartitions, OffsetAt, Group, Member, ActiveGroups),
    )
}


def encode(value: Any) -> Json:
    """Return a value as JSON: a list that its kind heads, unless plain; raises TypeError."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind.__name__ in _RECORDS:
        if isinstance(value, Enum):
            return [kind.__name__, value.value]
        return [kind.__name__, *(encode(getattr(value, name)) for name in kind.__match_args__)]
    match value:
        case np.generic():
            return value.item()
        case np.ndarray():
            return ["array", value.dtype.str, base64.b64encode(value.tobytes()).decode()]
        case datetime():
            return ["datetime", value.isoformat()]
        case Mapping():
            return ["dict", encode(tuple(value)), encode(tuple(value.values()))]
        case Collection():
            return ["frozenset" if isinstance(value, Set) else "tuple", *_encode_items(value)]
    raise TypeError(f"{kind.__name__} does not travel")


def _encode_items(items: Collection[Any]) -> tuple[Json, ...]:
    for kind in _FLAT:
        if items and all(type(item) is kind for item in items):
            rows = ([getattr(item, name) for item in items] for name in kind.__match_args__)
            return kind.__name__, list(rows)
    return ([encode(item) for item in items],)


def decode(document: Json) -> Any:
    """Return what `encode` was given; raises KeyError, TypeError or ValueError for what is none."""
    if not isinstance(document, list):
        return document
    match document:
        case ["tuple", *items]:
            return tuple(_decode_items(*items))
        case ["frozenset", *items]:
            return frozenset(_decode_items(*items))
        case ["dict", keys, values]:
            return dict(zip(decode(keys), decode(values), strict=True))
        case ["array", kind, content]:
            # frombuffer over bytes is read-only, as a state's columns must be.
            return np.frombuffer(base64.b64decode(content), kind)
        case ["datetime", text]:
            return datetime.fromisoformat(text)
        case [kind, *fields]:
            return _RECORDS[kind](*map(decode, fields))
    raise ValueError("a value without a kind")


def _decode_items(*parts: Json) -> Iterable[Any]:
    match parts:
        case (str(kind), columns):
            return map(_RECORDS[kind], *columns)
        case (items,):
            return map(decode, items)
    raise ValueError("no items")
