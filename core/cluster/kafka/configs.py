"""Configs of topics and brokers: read, altered, and throttle lists as the controller holds them.

What a run alters is altered by one broker, and read of that one: see `Wire.send_for_configs`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.cluster.configs import (
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.wire import LEFT_OUT, Wire, fault_from_code, fault_from_silence
from core.cluster.kafka_errors import Fault

Configs = dict[str, ConfigValue]

CLUSTER_WIDE = Resource(ResourceKind.BROKER, "")

RETENTION = "retention.ms"
_RETENTIONS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
"""What brokers have it as, the one that counts before others."""
_KINDS = {ResourceKind.TOPIC: 2, ResourceKind.BROKER: 4}
_MAX_TOPICS = 500
"""Topics in one request: each has some forty configs with their synonyms, and time is bounded."""


def describe_configs(
    wire: Wire, resources: Collection[Resource], names: Collection[str] | None
) -> dict[Resource, Configs | Fault]:
    """Return configs, all or only `names`; brokers answer themselves, side by side.

    Topics' configs come with what each would be if it were not set, where all are asked for. Any
    broker tells them, one older news than another: who changes them reads them by
    `describe_topic_configs`.
    """
    topics = [r for r in resources if r.kind is ResourceKind.TOPIC]
    brokers = [r for r in resources if r.kind is ResourceKind.BROKER and r != CLUSTER_WIDE]
    answers: dict[Resource, Configs | Fault] = {}
    for first in range(0, len(topics), _MAX_TOPICS):
        answers |= _describe_from_any(wire, topics[first : first + _MAX_TOPICS], names)
    if names is None:
        answers = _with_inherited_retention(wire, answers)
    answers |= _describe_from_each(wire, brokers, names)
    if CLUSTER_WIDE in resources:
        answers |= _describe_from_any(wire, [CLUSTER_WIDE], names)
    return answers


_SOURCES = {
    1: ConfigSource.TOPIC,
    2: ConfigSource.BROKER,
    3: ConfigSource.BROKER_DEFAULT,
    4: ConfigSource.STATIC,
    5: ConfigSource.DEFAULT,
}


def _config_source(number: int) -> ConfigSource:
    return _SOURCES.get(int(number), ConfigSource.UNKNOWN)


def _describe_from_any(
    wire: Wire, resources: Sequence[Resource], names: Collection[str] | None
) -> Mapping[Resource, Configs | Fault]:
    return _parse_results(wire.send_to_any(_request(resources, names)), resources)


def _parse_results(answer: Any, resources: Iterable[Resource]) -> dict[Resource, Configs | Fault]:
    results = {result.resource_name: _parse_result(result) for result in answer.results}
    return {r: results.get(r.name, LEFT_OUT) for r in resources}


def _describe_from_each(
    wire: Wire, brokers: Collection[Resource], names: Collection[str] | None
) -> Mapping[Resource, Configs | Fault]:
    answers = wire.ask_each({int(r.name): _request([r], names) for r in brokers})
    return {
        Resource.broker(broker): fault_from_silence(answer)
        if isinstance(answer, Exception)
        else _parse_result(answer.results[0])
        for broker, answer in answers.items()
    }


def _with_inherited_retention(
    wire: Wire, answers: Mapping[Resource, Configs | Fault]
) -> dict[Resource, Configs | Fault]:
    """Tell beneath a retention.ms that is set what brokers have it as.

    Kafka 4 tells no synonym of it where brokers are left to their default, log.retention.hours.
    """
    resource_configs = dict(answers)
    bare = [
        (resource, configs, value)
        for resource, configs in resource_configs.items()
        if not isinstance(configs, Fault)
        and (value := configs.get(RETENTION)) is not None
        and value.source is ConfigSource.TOPIC
        and value.inherited is None
    ]
    beneath = _fetch_broker_retention(wire) if bare else None
    for resource, configs, value in bare if beneath else ():
        resource_configs[resource] = configs | {RETENTION: replace(value, inherited=beneath)}
    return resource_configs


def _fetch_broker_retention(wire: Wire) -> InheritedConfig | None:
    """Return what one broker has, in its finest unit; None where none tells."""
    for broker in sorted(wire.brokers):
        (configs,) = _describe_from_each(wire, [Resource.broker(broker)], _RETENTIONS).values()
        if isinstance(configs, Fault):
            if configs.is_denial:
                return None
            continue
        for name in _RETENTIONS:
            value = configs.get(name)
            if value is not None and value.value is not None:
                return InheritedConfig(name, value.value, value.source)
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


def _parse_result(result: Any) -> Configs | Fault:
    refused = fault_from_code(result.error_code, result.error_message)
    return refused or {config.name: _parse_config(config) for config in result.configs}


def _parse_config(config: Any) -> ConfigValue:
    """Return a config; its synonyms come nearest first, what is set for the topic before all."""
    beneath = [
        s for s in config.synonyms or () if _config_source(s.source) is not ConfigSource.TOPIC
    ]
    return ConfigValue(
        config.value,
        _config_source(config.config_source),
        InheritedConfig(beneath[0].name, beneath[0].value, _config_source(beneath[0].source))
        if beneath
        else None,
    )


def describe_topic_configs(
    wire: Wire, topics: Collection[Resource], names: Collection[str]
) -> dict[Resource, Configs | Fault]:
    """Return these configs of topics, as the broker knows them that takes their changes, too.

    Another one may know less of what was changed last, and who puts lists back must not take
    what it sees there for what somebody set.
    """
    answers: dict[Resource, Configs | Fault] = {}
    left = list(topics)
    for first in range(0, len(left), _MAX_TOPICS):
        part = left[first : first + _MAX_TOPICS]
        answers |= _parse_results(wire.send_for_configs(_request(part, names)), part)
    return answers


def alter_configs(
    wire: Wire, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> dict[Resource, Fault | None]:
    """Apply changes; see ClusterClient. Each broker takes its own, any one all others."""
    answers: dict[Resource, Fault | None] = {}
    for changes_once in _split_into_rounds(changes):
        left: dict[Resource, list[ConfigChange]] = defaultdict(list)
        for change in changes_once:
            if answers.get(change.resource) is None:
                left[change.resource].append(change)
        answers |= _alter_one_round(wire, left, validate_only)
    wire.raise_if_all_failed(answers.values(), "ALTER_CONFIGS")
    return answers


def _alter_one_round(
    wire: Wire, changes_of: Mapping[Resource, Sequence[ConfigChange]], validate_only: bool
) -> dict[Resource, Fault | None]:
    brokers = [r for r in changes_of if r.kind is ResourceKind.BROKER and r != CLUSTER_WIDE]
    others = [resource for resource in changes_of if resource not in brokers]
    answers: dict[Resource, Fault | None] = {}
    for first in range(0, len(others), _MAX_TOPICS):
        part = {r: changes_of[r] for r in others[first : first + _MAX_TOPICS]}
        answer = wire.send_for_configs(_alter_request(part, validate_only))
        results = {(r.resource_type, r.resource_name): r for r in answer.responses}
        answers |= {r: _parse_alter_result(results.get((_KINDS[r.kind], r.name))) for r in part}
    requests = {int(r.name): _alter_request({r: changes_of[r]}, validate_only) for r in brokers}
    for broker, answer in wire.ask_each(requests).items():
        answers[Resource.broker(broker)] = (
            fault_from_silence(answer)
            if isinstance(answer, Exception)
            else _parse_alter_result(answer.responses[0])
        )
    return answers


_OPERATIONS = {ConfigOp.SET: 0, ConfigOp.DELETE: 1, ConfigOp.APPEND: 2, ConfigOp.SUBTRACT: 3}


def _alter_request(
    changes_of: Mapping[Resource, Sequence[ConfigChange]], validate_only: bool
) -> Any:
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource_type(
                resource_type=_KINDS[resource.kind],
                resource_name=resource.name,
                configs=[
                    resource_type.AlterableConfig(
                        name=change.name,
                        config_operation=_OPERATIONS[change.op],
                        value=None if change.op is ConfigOp.DELETE else change.value,
                    )
                    for change in changes
                ],
            )
            for resource, changes in changes_of.items()
        ],
        validate_only=validate_only,
    )


def _parse_alter_result(result: Any) -> Fault | None:
    if result is None:
        return LEFT_OUT
    return fault_from_code(result.error_code, result.error_message)


def _split_into_rounds(changes: Sequence[ConfigChange]) -> list[list[ConfigChange]]:
    """Return changes in rounds that name each config once; Kafka refuses it twice in a request."""
    rounds: list[list[ConfigChange]] = []
    counts: dict[tuple[Resource, str], int] = {}
    for change in changes:
        at = counts.get((change.resource, change.name), 0)
        counts[change.resource, change.name] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(change)
    return rounds


NO_ENTRY = "?"
_REFUSALS = ("INVALID_CONFIG", "INVALID_REQUEST")
"""The controllers of KRaft, and those that have ZooKeeper."""
_REFUSAL = re.compile(r"Invalid value \[?(?P<value>[^\]]*?)\]? for configuration")


def fetch_list_entries(
    wire: Wire, lists: Collection[tuple[Resource, str]]
) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
    """Return each list's entries; see ClusterClient.

    Kafka tells configs from a broker's copy of the metadata only, which may be behind. What it
    refuses it refuses at the controller, in words that hold the whole list: an APPEND of what is
    no entry, sent for validation only, changes nothing and is answered with what there is (seen on
    4.3.1). It is refused before anybody looks whether there is such a topic.
    """
    entries: dict[tuple[Resource, str], frozenset[str] | Fault] = {}
    for name in sorted({name for _, name in lists}):
        resources = [resource for resource, config in lists if config == name]
        answers = alter_configs(
            wire,
            [ConfigChange(r, name, ConfigOp.APPEND, NO_ENTRY) for r in resources],
            validate_only=True,
        )
        entries |= {
            (resource, name): parse_list_entries(fault) for resource, fault in answers.items()
        }
    return entries


def parse_list_entries(refusal: Fault | None) -> frozenset[str] | Fault:
    """Return the entries that a refusal tells of, or why it tells of none."""
    if refusal is None:
        return Fault("UNSUPPORTED_VERSION", "an invalid entry was not refused")
    if refusal.name not in _REFUSALS:
        return refusal
    match = _REFUSAL.search(refusal.message)
    entries = {part.strip() for part in match["value"].split(",")} if match else set()
    if NO_ENTRY not in entries:
        return Fault("UNSUPPORTED_VERSION", f"a refusal does not tell: {refusal.message}")
    return frozenset(entries - {NO_ENTRY, ""})
