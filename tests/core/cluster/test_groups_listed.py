"""Groups as brokers list them, each its own: what one of them does not tell is not lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.client import Fault
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection import ConnectionSettings
from core.errors import UnreachableError


class Listing:
    """A confluent-kafka admin of which one broker lists no group, and one `listed` or none."""

    def __init__(self, *listed: str) -> None:
        self._listed = listed

    def list_consumer_groups(self, request_timeout: float) -> Any:
        loading = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "broker 2"))
        valid = [SimpleNamespace(group_id=id) for id in self._listed]
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=[loading]))


def admin(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> Admin:
    found = Admin(ConnectionSettings("h:1"))
    monkeypatch.setattr(found, "_client", lambda: listing)
    return found


def test_who_does_not_list_its_groups_is_told_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Fault] = []
    asked = admin(Listing("orders"), monkeypatch)
    assert asked.groups("payments", lost.append) == ()
    assert lost == [Fault("COORDINATOR_LOAD_IN_PROGRESS", "broker 2")]


def test_a_cluster_in_which_nobody_lists_groups_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError):
        admin(Listing(), monkeypatch).groups()
