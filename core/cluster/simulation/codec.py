"""How ClusterClient's values travel on the simulator's socket: JSON, columns in base64."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.configs import (
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    Resource,
    ResourceKind,
)
from core.cluster.groups import Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog
from core.cluster.metadata import Broker, LogDir, Topic, TopicPartition
from core.cluster.state import ClusterState

Json = Any
_V = TypeVar("_V")

_COLUMNS = (
    ("topic_of", np.int32),
    ("partition", np.int32),
    ("leader", np.int32),
    ("leader_epoch", np.int32),
    ("replica_start", np.int64),
    ("replica_broker", np.int32),
    ("in_sync", np.bool_),
    ("adding", np.bool_),
    ("removing", np.bool_),
    ("size_bytes", np.int64),
    ("lag", np.int64),
    ("log_dir", np.int32),
)


def _pack(values: Iterable[int] | npt.NDArray[Any], kind: npt.DTypeLike) -> str:
    array = values if isinstance(values, np.ndarray) else np.array(list(values), kind)
    return base64.b64encode(np.ascontiguousarray(array, kind).tobytes()).decode()


def _unpack(text: str, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    # frombuffer over bytes is read-only, as a state's columns must be.
    return np.frombuffer(base64.b64decode(text), kind)


def encode_state(state: ClusterState) -> Json:
    return {
        "cluster_id": state.cluster_id,
        "fetched_at": state.fetched_at.isoformat(),
        "controller": state.controller,
        "brokers": [[b.id, b.rack, b.host, b.port, b.alive] for b in state.brokers],
        "topics": [[t.name, t.id] for t in state.topics],
        "columns": {name: _pack(getattr(state, name), kind) for name, kind in _COLUMNS},
    }


def decode_state(document: Json) -> ClusterState:
    columns: dict[str, Any] = {
        name: _unpack(document["columns"][name], kind) for name, kind in _COLUMNS
    }
    return ClusterState(
        cluster_id=document["cluster_id"],
        fetched_at=datetime.fromisoformat(document["fetched_at"]),
        controller=document["controller"],
        brokers=tuple(Broker(*broker) for broker in document["brokers"]),
        topics=tuple(Topic(*topic) for topic in document["topics"]),
        **columns,
    )


def encode_logs(answers: Iterable[BrokerLogs]) -> Json:
    return [_encode_broker_logs(answer) for answer in answers]


def _encode_broker_logs(answer: BrokerLogs) -> Json:
    topics: dict[str, int] = {}
    paths: dict[str, int] = {}
    logs = answer.replicas
    return {
        "broker": answer.broker,
        "error": answer.error,
        "log_dirs": [[d.path, d.total_bytes, d.usable_bytes, d.error] for d in answer.log_dirs],
        "topic": _pack((topics.setdefault(r.topic, len(topics)) for r in logs), np.int32),
        "partition": _pack((r.partition for r in logs), np.int32),
        "size_bytes": _pack((r.size_bytes for r in logs), np.int64),
        "lag": _pack((r.lag for r in logs), np.int64),
        "path": _pack((paths.setdefault(r.log_dir, len(paths)) for r in logs), np.int32),
        "future": _pack((r.future for r in logs), np.bool_),
        "topics": list(topics),
        "paths": list(paths),
    }


def decode_logs(document: Json) -> tuple[BrokerLogs, ...]:
    return tuple(_decode_broker_logs(answer) for answer in document)


def _decode_broker_logs(document: Json) -> BrokerLogs:
    topics, paths = document["topics"], document["paths"]
    columns = zip(
        _unpack(document["topic"], np.int32).tolist(),
        _unpack(document["partition"], np.int32).tolist(),
        _unpack(document["size_bytes"], np.int64).tolist(),
        _unpack(document["lag"], np.int64).tolist(),
        _unpack(document["path"], np.int32).tolist(),
        _unpack(document["future"], np.bool_).tolist(),
        strict=True,
    )
    return BrokerLogs(
        document["broker"],
        tuple(LogDir(*one) for one in document["log_dirs"]),
        tuple(
            ReplicaLog(topics[topic], partition, size, lag, paths[path], future)
            for topic, partition, size, lag, path, future in columns
        ),
        document["error"],
    )


def encode_partitions(partitions: Iterable[TopicPartition]) -> Json:
    return [list(tp) for tp in partitions]


def decode_partitions(document: Json) -> list[TopicPartition]:
    return [TopicPartition(*tp) for tp in document]


def encode_by_partition(values: Mapping[TopicPartition, _V], encode: Callable[[_V], Json]) -> Json:
    return [[*tp, encode(value)] for tp, value in values.items()]


def decode_by_partition(document: Json, decode: Callable[[Json], _V]) -> dict[TopicPartition, _V]:
    return {TopicPartition(topic, number): decode(value) for topic, number, value in document}


def encode_fault(fault: Fault | None) -> Json:
    return None if fault is None else [fault.name, fault.message]


def decode_fault(document: Json) -> Fault | None:
    return None if document is None else Fault(*document)


def encode_resource(resource: Resource) -> Json:
    return [resource.kind.value, resource.name]


def decode_resource(document: Json) -> Resource:
    return Resource(ResourceKind(document[0]), document[1])


def encode_configs(answer: Mapping[Resource, dict[str, ConfigValue] | Fault]) -> Json:
    return [
        [
            encode_resource(resource),
            encode_fault(values) if isinstance(values, Fault) else None,
            None
            if isinstance(values, Fault)
            else {name: _encode_config(value) for name, value in values.items()},
        ]
        for resource, values in answer.items()
    ]


def _encode_config(config: ConfigValue) -> Json:
    b = config.inherited
    beneath = None if b is None else [b.name, b.value, b.source.value]
    return [config.value, config.source.value, beneath]


def _decode_config(document: Json) -> ConfigValue:
    value, source, b = document
    beneath = None if b is None else InheritedConfig(b[0], b[1], ConfigSource(b[2]))
    return ConfigValue(value, ConfigSource(source), beneath)


def decode_configs(document: Json) -> dict[Resource, dict[str, ConfigValue] | Fault]:
    answer: dict[Resource, dict[str, ConfigValue] | Fault] = {}
    for resource, fault, values in document:
        answer[decode_resource(resource)] = (
            Fault(*fault)
            if fault is not None
            else {name: _decode_config(value) for name, value in values.items()}
        )
    return answer


def encode_changes(changes: Iterable[ConfigChange]) -> Json:
    return [[encode_resource(c.resource), c.name, c.op.value, c.value] for c in changes]


def decode_changes(document: Json) -> list[ConfigChange]:
    return [
        ConfigChange(decode_resource(resource), name, ConfigOp(op), value)
        for resource, name, op, value in document
    ]


def encode_group(group: Group) -> Json:
    return {
        "id": group.id,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            [m.id, m.client_id, m.host, encode_partitions(m.assignment), m.instance_id]
            for m in group.members
        ],
        "committed": encode_by_partition(group.committed, int),
        "protocol": group.protocol,
    }


def decode_group(document: Json) -> Group:
    return Group(
        id=document["id"],
        state=document["state"],
        assignor=document["assignor"],
        coordinator=document["coordinator"],
        members=tuple(
            Member(member, client, host, tuple(decode_partitions(assignment)), instance)
            for member, client, host, assignment, instance in document["members"]
        ),
        committed=decode_by_partition(document["committed"], int),
        protocol=document["protocol"],
    )
