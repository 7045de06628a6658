"""Throttles that others set: they end as they were found, whatever the run does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    TARGETS,
    TWO,
    Faulty,
    Start,
    cluster,
    plan_of,
    set_config,
    throttles,
)

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    Resource,
    ResourceKind,
)
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.journal.move_state import Outcome
from core.run.steps import NoteEnded, Poll, Preflight, Submit


def _set(resource: Resource, name: str, value: str) -> Callable[[SimulatedCluster], None]:
    return lambda client: set_config(client, resource, name, value)


T, B4 = Resource.topic("t"), Resource.broker(4)


EVERY_BROKER = Resource(ResourceKind.BROKER, "")


FOUND: dict[str, list[Callable[[SimulatedCluster], None]]] = {
    "nothing": [],
    "foreign entries": [_set(T, LEADER_LIST, "7:1,8:2"), _set(T, FOLLOWER_LIST, "7:3")],
    "some of our own entries": [_set(T, LEADER_LIST, "0:1,0:4"), _set(T, FOLLOWER_LIST, "0:4")],
    "all replicas": [_set(T, LEADER_LIST, "*"), _set(T, FOLLOWER_LIST, "*")],
    "all replicas on one side": [_set(T, FOLLOWER_LIST, "*")],
    "a list set to nothing": [_set(T, LEADER_LIST, "")],
    "a lower rate": [_set(B4, FOLLOWER_RATE, "3000000")],
    "the same rate": [_set(B4, FOLLOWER_RATE, "5000000")],
    "a higher rate": [_set(B4, FOLLOWER_RATE, "70000000"), _set(B4, LEADER_RATE, "60000000")],
    "a rate for every broker": [_set(EVERY_BROKER, LEADER_RATE, "80000000")],
    "a lower rate for every broker": [_set(EVERY_BROKER, FOLLOWER_RATE, "4000000")],
}


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("cancelled", [False, True], ids=["done", "cancelled"])
def test_throttles_of_others_end_as_they_were_found(
    start: Start, found: str, cancelled: bool
) -> None:
    client = cluster(TWO, static_configs={2: {LEADER_RATE: "90000000"}})
    for setting in FOUND[found]:
        setting(client)
    before = throttles(client)
    run = start(client, plan_of(client, TARGETS))
    if cancelled:
        run.until(lambda step: isinstance(step, Submit))
        run.cancel()
    assert run.to_the_end() is (Outcome.CANCELLED if cancelled else Outcome.DONE)
    assert throttles(client) == before


def test_a_lower_rate_of_others_is_kept_and_said(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "2000000")
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll) and client.elapsed_seconds > 2)
    receiving = next(b for b in run.view().brokers if b.side == "receives")
    assert (receiving.limit_bytes_per_s, receiving.why) == (
        2 * MB,
        "foreign quota 2.0 MB/s, kept",
    )
    assert any("b3 follower 2.0 MB/s (kept)" in event.text for event in run.view().events)


def test_a_lower_rate_is_overridden_when_asked_and_put_back(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "2000000")
    before = throttles(client)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}), override_rates=True)
    run.until(lambda step: isinstance(step, Poll))
    assert throttles(client)[Resource.broker(3)][FOLLOWER_RATE].value == "5000000"
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client) == before


def test_a_rate_that_somebody_changes_meanwhile_is_left_to_them(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "9000000")
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client)[Resource.broker(3)][FOLLOWER_RATE].value == "9000000"
    assert LEADER_RATE not in throttles(client)[Resource.broker(3)]


def test_as_one_move_ends_only_the_brokers_that_it_alone_needed_are_cleared(start: Start) -> None:
    """Cruise Control's case: two moves share brokers 1 and 3, one ends: only 2's is cleared."""
    sizes = {TopicPartition("t", 0): 100 * MB, TopicPartition("t", 1): 1 * MB}
    client = cluster({"t": [(1,), (1, 2)]}, size_bytes=sizes)
    run = start(client, plan_of(client, {("t", 0): (3,), ("t", 1): (1, 3)}))
    run.until(lambda step: isinstance(step, NoteEnded))
    run.until(lambda step: isinstance(step, Poll))
    rates = throttles(client)
    assert {b for b in (1, 2, 3) if LEADER_RATE in rates[Resource.broker(b)]} == {1, 3}
    lists = rates[Resource.topic("t")]
    assert set((lists[LEADER_LIST].value or "").split(",")) == {"0:1", "0:3"}


@pytest.mark.parametrize("found", ["nothing", "foreign entries", "a higher rate"])
def test_throttles_that_brokers_do_not_show_yet_are_undone_all_the_same(
    start: Start, found: str
) -> None:
    """Brokers that lag behind the controller show what was there before until all is over."""
    client = cluster(TWO)
    for setting in FOUND[found]:
        setting(client)
    before = throttles(client)
    everything = client.describe_configs(list(before))
    faulty = Faulty(client)

    def late(real: Callable[..., Any], resources: Any, names: Any) -> Any:
        answers = {r: everything[r] for r in resources}
        return {r: {n: v for n, v in a.items() if n in names} for r, a in answers.items()}

    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Preflight))
    faulty.replaced["describe_configs"] = late
    assert run.to_the_end() is Outcome.FAILED
    assert throttles(client) == before
