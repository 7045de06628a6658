"""Descriptions and elections, by brokers that are older, slow, or without their controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fake_broker import ANCIENT, KRAFT, WITH_ZOOKEEPER, fake_broker

from core.cluster.configs import LEADER_LIST
from core.cluster.kafka import metadata as description
from core.cluster.kafka import wire
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.configs import parse_list_entries
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.metadata import describe_cluster, fetch_denied_topics
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import UnreachableError


@contextmanager
def client_of_versions(
    versions: Mapping[int, int], slow_seconds: float = 0.0
) -> Iterator[KafkaClient]:
    """A client of a broker that knows these requests."""
    with (
        fake_broker(versions, slow_seconds) as broker,
        closing(KafkaClient(ConnectionSettings(broker.bootstrap))) as client,
    ):
        yield client


@pytest.mark.parametrize(("versions", "controller"), [(WITH_ZOOKEEPER, 1), (KRAFT, None)])
def test_controller_is_the_quorum_leader_or_the_one_named_by_zookeeper_brokers(
    versions: Mapping[int, int], controller: int | None
) -> None:
    """The quorum of this KRaft has no leader."""
    with client_of_versions(versions) as client:
        assert client.describe_cluster().controller == controller


def test_too_old_broker_is_reported_with_the_required_version() -> None:
    with (
        client_of_versions(ANCIENT) as client,
        pytest.raises(UnreachableError, match="do not know") as refused,
    ):
        client.describe_cluster()
    assert refused.value.next == "trimtab needs Kafka 2.8 or newer."


@pytest.mark.parametrize("patience", [5.0, 0.1])
def test_metadata_slower_than_the_first_timeouts_is_still_received(
    monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """It outlasts what the controller is given, and in the second case its own first patience."""
    monkeypatch.setattr(description, "_CONTROLLER_SECONDS", 0.1)
    monkeypatch.setattr(wire, "_ANSWER_SECONDS", patience)
    with client_of_versions(KRAFT, slow_seconds=0.3) as client:
        assert [topic.name for topic in client.describe_cluster().topics] == ["t"]


def test_elections_are_sent_in_batches_and_partial_results_are_reported() -> None:
    many = [TopicPartition("t", number) for number in range(1500)]
    with (
        fake_broker(KRAFT) as broker,
        closing(KafkaClient(ConnectionSettings(broker.bootstrap))) as client,
    ):
        answers = client.elect_leaders(many)
    assert broker.elections == [1000, 500]
    assert [tp for tp in many if answers[tp] is None] == many[:1000]
    assert {str(fault) for fault in answers.values() if fault} == {
        "UNKNOWN_SERVER_ERROR: The cluster could not elect leaders: UNKNOWN_SERVER_ERROR"
    }


DENIED = SimpleNamespace(error_code=31, error_message=None)
NOTHING = SimpleNamespace(error_code=0, error_message=None, topics=[])
TIMED_OUT = SimpleNamespace(error_code=7, error_message=None)


class Answered:
    """A wire on which metadata and cluster always come, and reassignments as given."""

    def __init__(self) -> None:
        self.metadata_timeout = None
        self.controller: int | None = None
        self.last_reassignments: dict[Any, Any] = {}
        self.moves_unknown = ""
        self.moves: object = None

    def set_controller(self, broker: int) -> None:
        self.controller = broker

    def check_cluster_id(self, cluster_id: str) -> None:
        assert cluster_id == "c"

    def ask_any(self, ask: object, patience: object) -> tuple[Any, Any, Any, Any]:
        metadata = SimpleNamespace(topics=[], controller_id=1)
        described = SimpleNamespace(error_code=0, error_message=None, cluster_id="c", brokers=[])
        return metadata, described, self.moves, None


def looked(wire: Answered, moves: object) -> ClusterState:
    wire.moves = moves
    return describe_cluster(wire)  # type: ignore[arg-type]


def test_denied_reassignment_list_stays_unknown_until_a_controller_answers() -> None:
    wire = Answered()
    assert looked(wire, DENIED).moves_unknown == "This user may not list partition reassignments."
    for silent in (None, TIMED_OUT):
        assert looked(wire, silent).moves_unknown
    assert looked(wire, NOTHING).moves_unknown == ""
    assert looked(wire, None).moves_unknown == ""


def test_no_request_is_sent_for_an_empty_topic_list() -> None:
    nobody: Any = None
    assert fetch_denied_topics(nobody, []) == frozenset()


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
def test_throttle_list_entries_are_parsed_from_the_refusal_message(
    value: str, entries: set[str]
) -> None:
    message = f"Invalid value {value} for configuration {LEADER_LIST}: {MUST}"
    assert parse_list_entries(Fault("INVALID_CONFIG", message)) == entries
    with_zookeeper = f"Invalid config value for resource ConfigResource(type=TOPIC): {message}"
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
def test_refusal_without_list_entries_is_a_fault_and_not_an_empty_list(
    refusal: Fault | None, name: str
) -> None:
    answer = parse_list_entries(refusal)
    assert isinstance(answer, Fault)
    assert answer.name == name
