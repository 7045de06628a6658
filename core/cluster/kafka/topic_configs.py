"""All configs of topics, each with what it would be if it were not set.

By kafka-python: librdkafka's answer loses one of two synonyms that have the same name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from core.cluster.client import Beneath, ConfigSource, ConfigValue, Fault, Resource
from core.cluster.kafka.admin import source
from core.cluster.kafka.reach import denied
from core.cluster.kafka.wire import Wire, fault

_TOPIC = 2


def topics_in_full(
    wire: Wire, topics: Collection[Resource]
) -> dict[Resource, dict[str, ConfigValue] | Fault]:
    """Return every config of these topics; raises AccessDeniedError when all are refused."""
    from kafka.protocol.admin import DescribeConfigsRequest

    if not topics:
        return {}
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic.name, configuration_keys=None
            )
            for topic in topics
        ],
        include_synonyms=True,
        include_documentation=False,
    )

    async def ask(manager: Any, node: int) -> Any:
        return await manager.send(request, node_id=node)

    answers: dict[Resource, dict[str, ConfigValue] | Fault] = {}
    for result in wire.read(ask).results:
        answers[Resource.topic(result.resource_name)] = fault(
            result.error_code, result.error_message
        ) or {config.name: _value(config) for config in result.configs}
    refused = [answer for answer in answers.values() if isinstance(answer, Fault)]
    if len(refused) == len(answers) and all("AUTHORIZATION" in f.name for f in refused):
        raise denied(f"The cluster says no: {refused[0]}.")
    return answers


def _value(config: Any) -> ConfigValue:
    """Return a config; its synonyms come nearest first, what is set for the topic before all."""
    beneath = [s for s in config.synonyms or () if source(s.source) is not ConfigSource.TOPIC]
    return ConfigValue(
        config.value,
        source(config.config_source),
        Beneath(beneath[0].name, beneath[0].value, source(beneath[0].source)) if beneath else None,
    )
