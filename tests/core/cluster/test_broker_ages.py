"""Brokers that are older, or slow with a large answer, and elections of many partitions."""

from __future__ import annotations

import pytest
from fake_broker import ANCIENT, KRAFT, WITH_ZOOKEEPER, fake_broker

from core.cluster.kafka import metadata as description
from core.cluster.kafka import wire
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError


def test_brokers_with_zookeeper_name_the_controller_themselves() -> None:
    with fake_broker(WITH_ZOOKEEPER) as broker:
        client = KafkaClient(ConnectionSettings(broker.bootstrap))
        assert client.describe_cluster().controller == 1
        client.close()


def test_of_a_quorum_without_a_leader_no_controller_is_told() -> None:
    with fake_broker(KRAFT) as broker:
        client = KafkaClient(ConnectionSettings(broker.bootstrap))
        assert client.describe_cluster().controller is None
        client.close()


def test_a_broker_that_is_too_old_is_told_by_what_is_needed() -> None:
    with fake_broker(ANCIENT) as broker:
        client = KafkaClient(ConnectionSettings(broker.bootstrap))
        with pytest.raises(UnreachableError, match="do not know") as refused:
            client.describe_cluster()
        assert refused.value.next == "trimtab needs Kafka 2.8 or newer."
        client.close()


@pytest.mark.parametrize("patience", [5.0, 0.1])
def test_metadata_that_comes_slowly_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """It outlasts what the controller is given, and in the second case its own first patience."""
    monkeypatch.setattr(description, "_CONTROLLER_SECONDS", 0.1)
    monkeypatch.setattr(wire, "_ANSWER_SECONDS", patience)
    with fake_broker(KRAFT, slow_seconds=0.3) as broker:
        client = KafkaClient(ConnectionSettings(broker.bootstrap))
        assert [topic.name for topic in client.describe_cluster().topics] == ["t"]
        client.close()


def test_elections_of_many_partitions_go_in_pieces_and_what_was_elected_is_told() -> None:
    many = [TopicPartition("t", number) for number in range(1500)]
    with fake_broker(KRAFT) as broker:
        client = KafkaClient(ConnectionSettings(broker.bootstrap))
        answers = client.elect_leaders(many)
        client.close()
    assert broker.elections == [1000, 500]
    assert [tp for tp in many if answers[tp] is None] == many[:1000]
    assert {str(fault) for fault in answers.values() if fault} == {
        "UNKNOWN_SERVER_ERROR: The cluster could not elect leaders: UNKNOWN_SERVER_ERROR"
    }
