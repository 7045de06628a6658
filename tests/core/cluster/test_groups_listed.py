"""Groups as brokers list them, each its own: what one of them does not tell is not lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.client import Fault, OffsetAt
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.groups import active_groups, groups
from core.cluster.kafka.offsets import offsets
from core.cluster.state import TopicPartition
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
    monkeypatch.setattr(found, "client", lambda: listing)
    return found


def nobody(coordinators: Mapping[str, int]) -> dict[str, Fault]:
    raise AssertionError(f"{coordinators} are asked for offsets")


def test_who_does_not_list_its_groups_is_told_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Fault] = []
    asked = admin(Listing("orders"), monkeypatch)
    assert groups(asked, "payments", nobody, lost.append) == ()
    assert lost == [Fault("COORDINATOR_LOAD_IN_PROGRESS", "broker 2")]


def test_a_cluster_in_which_nobody_lists_groups_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError):
        groups(admin(Listing(), monkeypatch), None, nobody)


class Waiting:
    """A confluent-kafka admin that knows a broker that died, and waits for it in vain."""

    def list_consumer_groups(self, request_timeout: float) -> Any:
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=[], errors=[self._in_vain()]))

    def list_offsets(self, asked: Mapping[Any, Any], request_timeout: float) -> Any:
        def answer(partition: int) -> Any:
            if partition == 0:
                raise self._in_vain()
            return SimpleNamespace(offset=7)

        return {tp: SimpleNamespace(result=partial(answer, tp.partition)) for tp in asked}

    def _in_vain(self) -> KafkaException:
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, "broker 3"))


ASKED = (TopicPartition("t", 0), TopicPartition("t", 1))


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: offsets(found, ASKED, OffsetAt.LATEST),
        lambda found: groups(found, None, nobody),
        lambda found: active_groups(found, 9),
    ],
    ids=["offsets", "groups", "active groups"],
)
def test_a_broker_that_was_waited_for_in_vain_is_not_waited_for_again_once_it_is_gone(
    ask: Callable[[Admin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Admin(ConnectionSettings("h:1"))
    opened: list[Waiting | None] = [Waiting()]
    monkeypatch.setattr(found, "client", lambda: opened[-1])
    monkeypatch.setattr(found, "close", lambda: opened.append(None))
    with suppress(UnreachableError):  # nobody else lists groups
        ask(found)
    assert opened[1:] == [None]


class Remembering:
    """A confluent-kafka admin that remembers who coordinates a group, whatever that one answers."""

    def __init__(self, coordinator: int, now: int) -> None:
        self._coordinator, self._now = coordinator, now

    def list_consumer_groups(self, request_timeout: float) -> Any:
        valid = [SimpleNamespace(group_id="orders")]
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=[]))

    def describe_consumer_groups(self, ids: list[str], request_timeout: float) -> Any:
        def answer() -> Any:
            if self._coordinator != self._now:
                raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR, "moved"))
            return SimpleNamespace(
                state=SimpleNamespace(name="STABLE"),
                type=SimpleNamespace(name="CLASSIC"),
                coordinator=SimpleNamespace(id=self._coordinator),
                partition_assignor="range",
                members=[],
            )

        return {id: SimpleNamespace(result=answer) for id in ids}


def test_a_coordinator_that_has_moved_is_found_by_a_client_that_remembers_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Admin(ConnectionSettings("h:1"))
    opened: list[Remembering] = []

    def open_anew() -> None:
        opened.append(Remembering(2, 2))

    opened.append(Remembering(1, 2))
    monkeypatch.setattr(found, "client", lambda: opened[-1])
    monkeypatch.setattr(found, "close", open_anew)
    committed = {TopicPartition("t", 0): 7}
    (group,) = groups(found, None, lambda asked: dict.fromkeys(asked, committed))
    assert (group.coordinator, group.committed, group.fault) == (2, committed, None)
    assert len(opened) == 2
