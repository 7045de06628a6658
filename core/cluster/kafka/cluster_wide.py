"""Cluster-wide broker configs: a resource with an empty name, which librdkafka refuses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from core.cluster.client import (
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Fault,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.wire import Wire, fault

CLUSTER_WIDE = Resource(ResourceKind.BROKER, "")
_BROKER = 4
_OPERATIONS = {ConfigOp.SET: 0, ConfigOp.DELETE: 1, ConfigOp.APPEND: 2, ConfigOp.SUBTRACT: 3}


def cluster_wide(wire: Wire, names: Collection[str] | None) -> dict[str, ConfigValue] | Fault:
    """Return the values that are set for all brokers."""
    from kafka.protocol.admin import DescribeConfigsRequest

    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_BROKER,
                resource_name="",
                configuration_keys=None if names is None else list(names),
            )
        ]
    )
    (result,) = _send(wire, request).results
    failure = fault(result.error_code, result.error_message)
    if failure is not None:
        return failure
    return {
        config.name: ConfigValue(config.value, ConfigSource.BROKER_DEFAULT)
        for config in result.configs
    }


def alter_cluster_wide(wire: Wire, changes: Sequence[ConfigChange]) -> Fault | None:
    """Change values for all brokers, each name once."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    config_type = resource_type.AlterableConfig
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource_type(
                resource_type=_BROKER,
                resource_name="",
                configs=[
                    config_type(
                        name=change.name,
                        config_operation=_OPERATIONS[change.op],
                        value=change.value,
                    )
                    for change in changes
                ],
            )
        ],
        validate_only=False,
    )
    (result,) = _send(wire, request).responses
    return fault(result.error_code, result.error_message)


def _send(wire: Wire, request: Any) -> Any:
    async def ask(manager: Any, node: int) -> Any:
        return await manager.send(request, node_id=node)

    return wire.read(ask)
