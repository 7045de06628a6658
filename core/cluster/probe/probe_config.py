"""What every probe shares: its messages, the configs of its topic, its producer, quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MESSAGE_BYTES = 100
TOPIC_CONFIGS: Mapping[str, str] = {
    "retention.ms": "60000",
    "retention.bytes": "1048576",
    "segment.bytes": "1048576",
    "min.insync.replicas": "1",
    "cleanup.policy": "delete",
}
"""What is written here is read at once or never: it holds some megabytes for some minutes."""


def producer_config(timeout_seconds: float) -> dict[str, Any]:
    """Return how a probe produces: each message at once, given up after `timeout_seconds`."""
    return {
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": int(timeout_seconds * 1000),  # so its queue never fills
        "socket.nagle.disable": True,
    }


def denied_codes() -> frozenset[int]:
    """Return the codes of errors that no waiting mends."""
    from confluent_kafka import KafkaError

    return frozenset(
        {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value that `part` of these do not exceed (nearest rank)."""
    return ordered[math.ceil(part * len(ordered)) - 1]
