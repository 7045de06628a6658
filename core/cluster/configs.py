"""Configs of topics and brokers: their names, where values come from, and changes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
MIN_INSYNC = "min.insync.replicas"
REMOTE_STORAGE = ("remote.storage.enable", "confluent.tier.enable", "redpanda.remote.write")
"""Kafka's and others' configs of topics that are kept in remote storage, too."""


class ResourceKind(Enum):
    BROKER = "broker"
    TOPIC = "topic"


class Resource(NamedTuple):
    """A thing that has configs. A broker's name is its id; "" is the cluster-wide default."""

    kind: ResourceKind
    name: str

    @classmethod
    def broker(cls, broker: int) -> Resource:
        return cls(ResourceKind.BROKER, str(broker))

    @classmethod
    def topic(cls, topic: str) -> Resource:
        return cls(ResourceKind.TOPIC, topic)


class ConfigSource(Enum):
    """Where a config's effective value comes from (Kafka's DescribeConfigs sources)."""

    TOPIC = "dynamic topic"
    BROKER = "dynamic broker"
    BROKER_DEFAULT = "dynamic default broker"
    STATIC = "static broker"
    DEFAULT = "default"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InheritedConfig:
    """What a config would be if it were not set here, by the name that it has there.

    Kafka's default for `retention.ms` may be `log.retention.hours`, in hours.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One config's effective value; `value` None means null, or that it is a secret."""

    value: str | None
    source: ConfigSource
    inherited: InheritedConfig | None = field(default=None, compare=False)
    """For topics when all configs are asked for; None where nothing is told."""


class ConfigOp(Enum):
    """Kafka's AlterConfigOp; APPEND and SUBTRACT take comma-separated list entries."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    resource: Resource
    name: str
    op: ConfigOp
    value: str | None = None


def is_remote(values: Iterable[str | None]) -> bool:
    """Return whether a topic is in remote storage, by its values of `REMOTE_STORAGE`, if any."""
    return "true" in values
