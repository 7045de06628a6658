"""What an error that librdkafka names means to who runs the cluster."""

from __future__ import annotations

from enum import Enum
from typing import Final


class About(Enum):
    """What an error is about."""

    BROKER = "broker"
    CLUSTER = "cluster"
    RIGHTS = "rights"
    """No waiting mends it."""
    TOPIC = "topic"
    """The probe's topic is not there, or not yet known everywhere."""
    NOTHING = "nothing"
    """What the probe itself does, as it begins and ends."""


TIMED_OUT: Final = "_MSG_TIMED_OUT"
_WORDS: Final = {
    "_TRANSPORT": "transport failure",
    "_RESOLVE": "its host name is not found",
    "_AUTHENTICATION": "login refused",
    "SASL_AUTHENTICATION_FAILED": "login refused",
    "_SSL": "TLS failure",
    TIMED_OUT: "timed out",
    "_TIMED_OUT": "timed out",
    "_TIMED_OUT_QUEUE": "timed out",
    "REQUEST_TIMED_OUT": "timed out",
    "NOT_LEADER_FOR_PARTITION": "not leader or follower",
    "NOT_LEADER_OR_FOLLOWER": "not leader or follower",
    "LEADER_NOT_AVAILABLE": "no leader",
    "FENCED_LEADER_EPOCH": "leader epoch fenced",
    "UNKNOWN_LEADER_EPOCH": "leader epoch unknown",
    "NOT_ENOUGH_REPLICAS": "not enough replicas in sync",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "not enough replicas in sync",
    "KAFKA_STORAGE_ERROR": "its disk fails",
    "BROKER_NOT_AVAILABLE": "broker not available",
    "OFFSET_OUT_OF_RANGE": "messages were lost",
}
_RIGHTS: Final = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
_TOPIC: Final = {
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
}
_NOTHING: Final = {
    "_PARTITION_EOF",
    "_PURGE_QUEUE",
    "_PURGE_INFLIGHT",
    "_DESTROY",
    "_QUEUE_FULL",
    "_NO_OFFSET",
    "GROUP_AUTHORIZATION_FAILED",  # no group is made; librdkafka asks for its coordinator anyway
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
}


def about(error: str) -> About:
    """Return what an error of this name is about."""
    if error == "_ALL_BROKERS_DOWN":
        return About.CLUSTER
    if error in _RIGHTS:
        return About.RIGHTS
    if error in _TOPIC:
        return About.TOPIC
    return About.NOTHING if error in _NOTHING else About.BROKER


def words(error: str) -> str:
    """Return an error in words; one that is not known here by its own name."""
    return _WORDS.get(error) or error.strip("_").replace("_", " ").lower()
