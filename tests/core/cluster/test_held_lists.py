"""Throttle lists as the controller holds them: told by what it refuses, or by two looks."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import Faulty, cluster, set_config

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka.configs import parse_list_entries
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.run.throttles.verified_writes import fetch_list_answers

T = Resource.topic("t")
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


@pytest.mark.parametrize("settled", [True, False])
def test_of_a_cluster_that_does_not_tell_two_looks_must_agree(settled: bool) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, T, LEADER_LIST, "9:5")
    faulty = Faulty(client)

    def untold(real: Any, lists: Any) -> Any:
        return dict.fromkeys(lists, Fault("UNSUPPORTED_VERSION"))

    def another(real: Any, *asked: Any) -> Any:
        answer = real(*asked)
        if not settled:
            set_config(client, T, LEADER_LIST, "9:5,9:6")
        return answer

    faulty.replaced = {"fetch_list_entries": untold, "describe_configs": another}
    (answer,) = fetch_list_answers(faulty, client.clock, [("t", Side.LEADER)]).values()  # type: ignore[arg-type]
    if settled:
        assert answer == {"9:5"}
    else:
        assert isinstance(answer, Fault)
