"""Kafka's messages that kafka-python does not know, by the schemas beside this file.

The schemas are Kafka's own (`common/message` in its clients' jar) without what they say of the
fields. Only `groups` imports this, once it needs them: it loads kafka-python.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage


def _load_message_class(name: str) -> Any:
    """Return the library's class for a message, of the schema of that name."""
    kind: Any = type(ApiMessage)
    return kind(name, (ApiMessage,), {"__module__": __name__}, load_json=__name__)


ConsumerGroupDescribeRequest = _load_message_class("ConsumerGroupDescribeRequest")
"""KIP-848: asks a coordinator for groups that it assigns partitions to."""
ConsumerGroupDescribeResponse = _load_message_class("ConsumerGroupDescribeResponse")
"""The answer: members with what each has now, and what it is to have."""
