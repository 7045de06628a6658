"""What of kafka-python is overridden or called though it is private: as it was read to be."""

from __future__ import annotations

import inspect

import kafka
import pytest
from kafka.cluster import ClusterMetadata
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

READ_FOR = ("3.0.12",)
"""The versions whose sources what relies on them was written by."""
LOOK = (
    "connection/network.py, connection/transports.py and record_clients.py of core/cluster/kafka "
    "rely on this: read kafka-python's sources, mend them, and add the version to READ_FOR."
)


def test_kafka_python_version_is_one_whose_source_was_reviewed() -> None:
    assert kafka.__version__ in READ_FOR, (
        f"kafka-python is {kafka.__version__}, and was read as {', '.join(READ_FOR)}. {LOOK}"
    )


@pytest.mark.parametrize(
    ("owner", "name", "takes", "awaited"),
    [
        (KafkaConnectionManager, "_build_transport", ("node", "timeout_at"), True),
        (KafkaConnectionManager, "_do_bootstrap", ("deadline",), True),
        (KafkaTCPTransport, "_sock_recv", (), False),
        (KafkaSSLTransport, "_sock_recv", (), False),
        (ClusterMetadata, "_do_refresh_metadata", ("node_id",), True),
    ],
)
def test_private_method_of_kafka_python_has_the_reviewed_signature(
    owner: type, name: str, takes: tuple[str, ...], awaited: bool
) -> None:
    method = owner.__dict__.get(name)
    assert method is not None, f"kafka-python's {owner.__name__} has no {name} any more. {LOOK}"
    parameters = tuple(inspect.signature(method).parameters)[1:]
    assert (parameters, inspect.iscoroutinefunction(method)) == (takes, awaited), (
        f"kafka-python's {owner.__name__}.{name} takes other words now: {parameters}. {LOOK}"
    )


@pytest.mark.parametrize(
    ("owner", "attributes"),
    [
        (KafkaConnectionManager, ("_conns", "_net")),
        (KafkaNetClient, ("_manager",)),
        (kafka.KafkaAdminClient, ("_manager",)),
        (kafka.KafkaProducer, ("_sender",)),
        (KafkaTCPTransport, ("_sock", "_net")),
    ],
)
def test_private_attributes_of_kafka_python_are_set_as_reviewed(
    owner: type, attributes: tuple[str, ...]
) -> None:
    source = inspect.getsource(owner)
    gone = [name for name in attributes if f"self.{name} = " not in source]
    assert not gone, f"kafka-python's {owner.__name__} sets no {', '.join(gone)} any more. {LOOK}"
