"""Kafka's messages that kafka-python does not know, by the schemas beside this file.

The schemas are Kafka's own (`common/message` in its clients' jar) without what they say of the
fields. Only `groups` imports this, once it needs them: it loads kafka-python.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """KIP-848: asks a coordinator for groups that it assigns partitions to."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """The answer: members with what each has now, and what it is to have."""
