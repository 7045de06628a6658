"""All configs of topics and brokers; for topics with what each would be if it were not set.

By kafka-python: librdkafka's answer loses one of two synonyms that have the same name, and is
slow to come for the first time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from core.cluster.client import (
    Beneath,
    ConfigSource,
    ConfigValue,
    Fault,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.admin import source
from core.cluster.kafka.reach import denied
from core.cluster.kafka.wire import Wire, fault

Configs = dict[str, ConfigValue]

_TOPIC, _BROKER = 2, 4
_AT_ONCE = 500
"""Topics in one request: each has some forty configs with their synonyms, and time is bounded."""


def in_full(wire: Wire, resources: Collection[Resource]) -> dict[Resource, Configs | Fault]:
    """Return every config; brokers answer themselves, side by side.

    Raises AccessDeniedError when all are refused.
    """
    topics = [r.name for r in resources if r.kind is ResourceKind.TOPIC]
    brokers = [int(r.name) for r in resources if r.kind is ResourceKind.BROKER]
    answers = _topics(wire, topics) | _brokers(wire, brokers)
    refused = [answer for answer in answers.values() if isinstance(answer, Fault)]
    if refused and len(refused) == len(answers) and all("AUTHORIZATION" in f.name for f in refused):
        raise denied(f"The cluster says no: {refused[0]}.")
    return answers


def _topics(wire: Wire, names: Sequence[str]) -> dict[Resource, Configs | Fault]:
    found: dict[Resource, Configs | Fault] = {}
    for first in range(0, len(names), _AT_ONCE):
        request = _request(_TOPIC, names[first : first + _AT_ONCE], synonyms=True)

        async def ask(manager: Any, node: int, request: Any = request) -> Any:
            return await manager.send(request, node_id=node)

        for result in wire.read(ask).results:
            found[Resource.topic(result.resource_name)] = _answer(result)
    return found


def _brokers(wire: Wire, ids: Collection[int]) -> dict[Resource, Configs | Fault]:
    requests = {broker: _request(_BROKER, [str(broker)], synonyms=False) for broker in ids}
    found: dict[Resource, Configs | Fault] = {}
    for broker, answer in wire.each(requests).items():
        found[Resource.broker(broker)] = (
            Fault("REQUEST_TIMED_OUT", str(answer))
            if isinstance(answer, Exception)
            else _answer(answer.results[0])
        )
    return found


def _request(kind: int, names: Collection[str], *, synonyms: bool) -> Any:
    from kafka.protocol.admin import DescribeConfigsRequest

    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in names
        ],
        include_synonyms=synonyms,
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
