"""Cluster-wide broker configs altered: a resource with an empty name, which librdkafka refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.cluster.client import ConfigChange, ConfigOp, Fault
from core.cluster.kafka.wire import Wire, fault

_BROKER = 4
_OPERATIONS = {ConfigOp.SET: 0, ConfigOp.DELETE: 1, ConfigOp.APPEND: 2, ConfigOp.SUBTRACT: 3}


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

    async def ask(manager: Any, node: int) -> Any:
        return await manager.send(request, node_id=node)

    (result,) = wire.read(ask).responses
    return fault(result.error_code, result.error_message)
