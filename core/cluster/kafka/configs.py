"""Configs read by kafka-python: of topics, of brokers, and those that are set for all brokers.

librdkafka always asks for every config, some 300 of a broker, loses one of two synonyms that have
the same name, and is slow to come for the first time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.cluster.client import (
    Beneath,
    ConfigSource,
    ConfigValue,
    Fault,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.wire import Wire, fault

Configs = dict[str, ConfigValue]

CLUSTER_WIDE = Resource(ResourceKind.BROKER, "")

RETENTION = "retention.ms"
_RETENTIONS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
"""What brokers have it as, the one that counts before others."""
_KINDS = {ResourceKind.TOPIC: 2, ResourceKind.BROKER: 4}
_AT_ONCE = 500
"""Topics in one request: each has some forty configs with their synonyms, and time is bounded."""


def read_configs(
    wire: Wire, resources: Collection[Resource], names: Collection[str] | None
) -> dict[Resource, Configs | Fault]:
    """Return configs, all or only `names`; brokers answer themselves, side by side.

    Topics' configs come with what each would be if it were not set, where all are asked for. Any
    broker tells them, one older news than another: who changes them reads them by
    `Admin.topic_configs`.
    """
    topics = [r for r in resources if r.kind is ResourceKind.TOPIC]
    brokers = [r for r in resources if r.kind is ResourceKind.BROKER and r != CLUSTER_WIDE]
    answers: dict[Resource, Configs | Fault] = {}
    for first in range(0, len(topics), _AT_ONCE):
        answers |= _from_any(wire, topics[first : first + _AT_ONCE], names)
    if names is None:
        answers = _with_retention(wire, answers)
    answers |= _from_each(wire, brokers, names)
    if CLUSTER_WIDE in resources:
        answers |= _from_any(wire, [CLUSTER_WIDE], names)
    return answers


def source(number: int) -> ConfigSource:
    """Return who set a config, by Kafka's number for it."""
    return _SOURCES.get(int(number), ConfigSource.UNKNOWN)


_SOURCES = {
    1: ConfigSource.TOPIC,
    2: ConfigSource.BROKER,
    3: ConfigSource.BROKER_DEFAULT,
    4: ConfigSource.STATIC,
    5: ConfigSource.DEFAULT,
}


def _from_any(
    wire: Wire, resources: Sequence[Resource], names: Collection[str] | None
) -> Mapping[Resource, Configs | Fault]:
    request = _request(resources, names)

    async def ask(manager: Any, node: int) -> Any:
        return await manager.send(request, node_id=node)

    results = {result.resource_name: _answer(result) for result in wire.read(ask).results}
    return {r: results[r.name] for r in resources}


def _from_each(
    wire: Wire, brokers: Collection[Resource], names: Collection[str] | None
) -> Mapping[Resource, Configs | Fault]:
    answers = wire.each({int(r.name): _request([r], names) for r in brokers})
    return {
        Resource.broker(broker): Fault("REQUEST_TIMED_OUT", str(answer))
        if isinstance(answer, Exception)
        else _answer(answer.results[0])
        for broker, answer in answers.items()
    }


def _with_retention(
    wire: Wire, answers: Mapping[Resource, Configs | Fault]
) -> dict[Resource, Configs | Fault]:
    """Tell beneath a retention.ms that is set what brokers have it as.

    Kafka 4 tells no synonym of it where brokers are left to their default, log.retention.hours.
    """
    found = dict(answers)
    bare = [
        (resource, configs, value)
        for resource, configs in found.items()
        if not isinstance(configs, Fault)
        and (value := configs.get(RETENTION)) is not None
        and value.source is ConfigSource.TOPIC
        and value.beneath is None
    ]
    beneath = _retention_of_brokers(wire) if bare else None
    for resource, configs, value in bare if beneath else ():
        found[resource] = configs | {RETENTION: replace(value, beneath=beneath)}
    return found


def _retention_of_brokers(wire: Wire) -> Beneath | None:
    """Return what one broker has, in its finest unit; None where none tells."""
    for broker in sorted(wire.brokers):
        told = _from_each(wire, [Resource.broker(broker)], _RETENTIONS)[Resource.broker(broker)]
        if isinstance(told, Fault):
            if "AUTHORIZATION" in told.name:
                return None
            continue
        for name in _RETENTIONS:
            value = told.get(name)
            if value is not None and value.value is not None:
                return Beneath(name, value.value, value.source)
    return None


def _request(resources: Collection[Resource], names: Collection[str] | None) -> Any:
    from kafka.protocol.admin import DescribeConfigsRequest

    resource_type = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource_type(
                resource_type=_KINDS[r.kind],
                resource_name=r.name,
                configuration_keys=None if names is None else list(names),
            )
            for r in resources
        ],
        include_synonyms=names is None and all(r.kind is ResourceKind.TOPIC for r in resources),
        include_documentation=False,
    )


def _answer(result: Any) -> Configs | Fault:
    refused = fault(result.error_code, result.error_message)
    return refused or {config.name: _value(config) for config in result.configs}


def _value(config: Any) -> ConfigValue:
    """Return a config; its synonyms come nearest first, what is set for the topic before all."""
    beneath = [s for s in config.synonyms or () if source(s.source) is not ConfigSource.TOPIC]
    return ConfigValue(
        config.value,
        source(config.config_source),
        Beneath(beneath[0].name, beneath[0].value, source(beneath[0].source)) if beneath else None,
    )
