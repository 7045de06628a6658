"""The simulated cluster's configs: where each value comes from, and Kafka's incremental changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    MIN_INSYNC,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault

TOPIC_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    FOLLOWER_LIST: "",
    LEADER_LIST: "",
    "local.retention.ms": "-2",
    "max.message.bytes": "1048588",
    MIN_INSYNC: "1",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
BROKER_DEFAULTS: Mapping[str, str] = {
    "auto.leader.rebalance.enable": "false",
    "leader.imbalance.check.interval.seconds": "300",
    MIN_INSYNC: "1",
    "num.replica.fetchers": "1",
    "replica.lag.time.max.ms": "30000",
}
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
LISTS = (LEADER_LIST, FOLLOWER_LIST, "cleanup.policy")

_THROTTLED = re.compile(r"\*|(\d+:\d+(,\d+:\d+)*)?")
_INTEGER = re.compile(r"-?\d+")
_INTEGERS = {
    *RATES,
    "local.retention.ms",
    "max.message.bytes",
    MIN_INSYNC,
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
}


class SimulatedConfigs:
    """Dynamic values of every resource over static and default ones."""

    def __init__(
        self,
        dynamic: Mapping[Resource, Mapping[str, str]],
        static: Mapping[int, Mapping[str, str]],
    ) -> None:
        self._dynamic = {resource: dict(values) for resource, values in dynamic.items()}
        self._static = static

    def value(self, resource: Resource, name: str) -> str | None:
        """Return the effective value, None when nothing sets it."""
        config = self.effective(resource).get(name)
        return config.value if config else None

    def entries(self, resource: Resource, name: str) -> frozenset[str]:
        """Return a list's entries; unset and empty have none."""
        return frozenset(part for part in (self.value(resource, name) or "").split(",") if part)

    def effective(
        self, resource: Resource, names: Collection[str] | None = None
    ) -> dict[str, ConfigValue]:
        """Return effective values with their sources; unset broker throttles are absent."""
        values: dict[str, ConfigValue] = {}

        def add(layer: Mapping[str, str], source: ConfigSource) -> None:
            values.update({name: ConfigValue(value, source) for name, value in layer.items()})

        if resource.kind is ResourceKind.TOPIC:
            add(TOPIC_DEFAULTS, ConfigSource.DEFAULT)
            values |= {
                name: ConfigValue(value, ConfigSource.TOPIC, _default(name))
                for name, value in self._dynamic.get(resource, {}).items()
            }
        else:
            default = Resource(ResourceKind.BROKER, "")
            if resource != default:
                add(BROKER_DEFAULTS, ConfigSource.DEFAULT)
                add(self._static.get(int(resource.name), {}), ConfigSource.STATIC)
            add(self._dynamic.get(default, {}), ConfigSource.BROKER_DEFAULT)
            if resource != default:
                add(self._dynamic.get(resource, {}), ConfigSource.BROKER)
        return {n: v for n, v in values.items() if names is None or n in names}

    def refusal(self, change: ConfigChange) -> Fault | None:
        """Return why one change is invalid on its own."""
        known: Collection[str] = (
            TOPIC_DEFAULTS
            if change.resource.kind is ResourceKind.TOPIC
            else {*BROKER_DEFAULTS, *RATES}
        )
        if change.name not in known:
            kind = change.resource.kind.value
            return Fault("INVALID_CONFIG", f"Unknown {kind} config name: {change.name}")
        if change.op in (ConfigOp.APPEND, ConfigOp.SUBTRACT) and change.name not in LISTS:
            return Fault(
                "INVALID_CONFIG",
                f"Can't {change.op.name} to key {change.name} because its type is not LIST.",
            )
        if change.op is ConfigOp.DELETE:
            return None
        value = self._changed(change)
        if change.name in (LEADER_LIST, FOLLOWER_LIST) and not _THROTTLED.fullmatch(value or ""):
            return Fault("INVALID_CONFIG", f"Invalid value {value} for configuration {change.name}")
        if change.name in _INTEGERS and not _INTEGER.fullmatch(value or ""):
            return Fault(
                "INVALID_CONFIG",
                f"Invalid value {value} for configuration {change.name}: Not a number",
            )
        return None

    def apply(self, changes: Collection[ConfigChange]) -> Fault | None:
        """Apply one resource's changes, all or none."""
        for change in changes:
            fault = self.refusal(change)
            if fault is not None:
                return fault
        for change in changes:
            values = self._dynamic.setdefault(change.resource, {})
            value = self._changed(change)
            if value is None:
                values.pop(change.name, None)
            else:
                values[change.name] = value
        return None

    def forget(self, resource: Resource) -> None:
        """Drop a deleted topic's configs."""
        self._dynamic.pop(resource, None)

    def _changed(self, change: ConfigChange) -> str | None:
        """Return the value after a change, None when it is unset then.

        APPEND leaves out entries that are there already; SUBTRACTing the last one leaves "".
        """
        given = [part.strip() for part in (change.value or "").split(",") if part.strip()]
        old = self._dynamic.get(change.resource, {}).get(change.name)
        if old is None and change.op in (ConfigOp.APPEND, ConfigOp.SUBTRACT):
            old = self.value(change.resource, change.name)
        entries = [part for part in (old or "").split(",") if part]
        match change.op:
            case ConfigOp.SET:
                return change.value or ""
            case ConfigOp.DELETE:
                return None
            case ConfigOp.APPEND:
                return ",".join(dict.fromkeys((*entries, *given)))
            case ConfigOp.SUBTRACT:
                return ",".join(entry for entry in entries if entry not in given)


def _default(name: str) -> InheritedConfig | None:
    value = TOPIC_DEFAULTS.get(name)
    return None if value is None else InheritedConfig(f"log.{name}", value, ConfigSource.DEFAULT)
