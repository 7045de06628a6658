"""A list's entries as the controller holds them, told by what it refuses."""

from __future__ import annotations

import pytest

from core.cluster.configs import LEADER_LIST
from core.cluster.kafka.configs import parse_list_entries
from core.cluster.kafka_errors import Fault

MUST = "leader.replication.throttled.replicas must be the literal '*' or a list of replicas"


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("[?]", set()),
        ("[0:1, 9:5, ?]", {"0:1", "9:5"}),
        ("[*, ?]", {"*"}),
        ("0:1,?", {"0:1"}),
    ],
)
def test_a_refusal_tells_what_the_list_holds(value: str, entries: set[str]) -> None:
    said = f"Invalid value {value} for configuration {LEADER_LIST}: {MUST}"
    assert parse_list_entries(Fault("INVALID_CONFIG", said)) == entries
    with_zookeeper = f"Invalid config value for resource ConfigResource(type=TOPIC): {said}"
    assert parse_list_entries(Fault("INVALID_REQUEST", with_zookeeper)) == entries


@pytest.mark.parametrize(
    ("refusal", "name"),
    [
        (None, "UNSUPPORTED_VERSION"),
        (Fault("INVALID_CONFIG", "no"), "UNSUPPORTED_VERSION"),
        (Fault("INVALID_CONFIG", "Invalid value [0:1] for configuration x"), "UNSUPPORTED_VERSION"),
        (Fault("UNKNOWN_TOPIC_OR_PARTITION"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (Fault("REQUEST_TIMED_OUT"), "REQUEST_TIMED_OUT"),
    ],
)
def test_what_does_not_tell_is_no_empty_list(refusal: Fault | None, name: str) -> None:
    answer = parse_list_entries(refusal)
    assert isinstance(answer, Fault)
    assert answer.name == name
