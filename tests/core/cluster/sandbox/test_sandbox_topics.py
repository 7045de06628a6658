"""Topics of workloads and tests are there and led, or gone, by the time the call returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_help import Faulty
from simulated import small_spec

from core.cluster.configs import Resource
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox import topics
from core.cluster.sandbox.topics import create_topics, delete_topics
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import TrimtabError

SETTINGS = ConnectionSettings("127.0.0.1:1")
EARLIER = 3
"""So many looks show the cluster as it was before: brokers hear of a change a moment later."""


class Brokers:
    """A cluster that is asked through KafkaClient, and what its looks show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = SimulatedCluster(small_spec({"old": [(1, 2)], "older": [(2, 1)]}))
        self.looks = 0
        self.first: Sequence[Any] = ()
        through = Faulty(self.cluster)
        through.replaced["describe_cluster"] = self._look
        monkeypatch.setattr(topics, "KafkaClient", lambda settings: through)
        monkeypatch.setattr(topics, "_RETRY_SECONDS", 0.0)

    def _look(self, real: Callable[[], Any]) -> Any:
        self.looks += 1
        return self.first[self.looks - 1] if self.looks <= len(self.first) else real()

    def held(self, topic: str) -> list[tuple[int, ...]]:
        state = self.cluster.describe_cluster()
        return [state.replicas(row) for row in state.partitions_of(topic)]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_topics_get_exactly_these_replicas_and_configs(brokers: Brokers) -> None:
    create_topics(SETTINGS, {"a": [(1, 2), (2, 1)], "b": [[2]]}, {"retention.ms": "1000"})
    assert brokers.held("a") == [(1, 2), (2, 1)]
    assert brokers.held("b") == [(2,)]
    found = brokers.cluster.describe_configs([Resource.topic("b")], ["retention.ms"])
    assert found[Resource.topic("b")]["retention.ms"].value == "1000"  # type: ignore[index]


def test_one_that_is_there_already_is_left_as_it_is(brokers: Brokers) -> None:
    create_topics(SETTINGS, {"old": [(2, 1)], "new": [(1,)]})
    assert brokers.held("old") == [(1, 2)]
    assert brokers.held("new") == [(1,)]


def test_one_that_is_gone_already_is_no_error(brokers: Brokers) -> None:
    delete_topics(SETTINGS, ["gone", "old"])
    assert not brokers.held("old")
    assert brokers.held("older") == [(2, 1)]


def test_it_returns_once_brokers_show_it(brokers: Brokers) -> None:
    brokers.first = [brokers.cluster.describe_cluster()] * EARLIER
    create_topics(SETTINGS, {"new": [(1,)]})
    assert brokers.looks == EARLIER + 1

    brokers.looks, brokers.first = 0, [brokers.cluster.describe_cluster()] * EARLIER
    delete_topics(SETTINGS, ["new"])
    assert brokers.looks == EARLIER + 1


def test_it_returns_once_every_partition_has_a_leader(brokers: Brokers) -> None:
    elsewhere = SimulatedCluster(small_spec({"new": [(1,), (2,)]}, brokers=(1, 2)))
    elsewhere.stop_broker(2)
    brokers.first = [elsewhere.describe_cluster()] * EARLIER
    create_topics(SETTINGS, {"new": [(1,), (2,)]})
    assert brokers.looks == EARLIER + 1


def test_one_that_never_comes_is_told_of(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_TIMEOUT_SECONDS", 0.0)
    brokers.first = [brokers.cluster.describe_cluster()] * 1000
    with pytest.raises(TrimtabError, match="the new topics have no leaders yet"):
        create_topics(SETTINGS, {"new": [(1,)]})
    with pytest.raises(TrimtabError, match="the deleted topics are still there"):
        delete_topics(SETTINGS, ["old"])


def test_one_that_is_refused_is_named_with_kafkas_error(brokers: Brokers) -> None:
    says = re.escape("Topic a cannot be created: INVALID_REPLICA_ASSIGNMENT: ")
    with pytest.raises(TrimtabError, match=f"^{says}"):
        create_topics(SETTINGS, {"b": [(1,)], "a": [(1, 99)]})
