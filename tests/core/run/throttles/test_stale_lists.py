"""Lists that a run sets again in a later batch: what it left is known, whatever brokers show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from run_help import Run, Start, cluster, delete, plan_of, set_config, throttles

from core.cluster.configs import LEADER_LIST, ConfigChange, ConfigOp, Resource, ResourceKind
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run.journal.move_state import Outcome
from core.run.journal.throttle_values import own_list
from core.run.steps import IntendThrottles, RemovePairs

T = Resource.topic("t")


class Late:
    """A cluster of which a run is shown topics' configs as they were `by` changes of its ago."""

    def __init__(self, client: SimulatedCluster) -> None:
        self._client, self.by = client, 0
        self._past: defaultdict[Resource, list[Any]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Any:
        for resource in {change.resource for change in changes}:
            self._past[resource].append(self._client.describe_configs([resource])[resource])
        return self._client.alter_configs(changes)

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> Any:
        answers = self._client.describe_configs(resources, names)
        topics = [r for r in resources if r.kind is ResourceKind.TOPIC] if self.by else []
        return answers | {topic: self._past[topic][-self.by] for topic in topics}


def between_batches(start: Start, prior: str | None) -> tuple[Run, Late]:
    """Return a run of two batches that has given the first one's pairs back."""
    client = cluster({"t": [(1, 2)] * 2})
    if prior is not None:
        set_config(client, T, LEADER_LIST, prior)
    late = Late(client)
    plan = plan_of(client, {("t", p): (3, 2) for p in range(2)})
    run = start(client, plan, batch_size=1, through=late)
    run.until(lambda step: isinstance(step, RemovePairs))
    return run, late


def to_the_end(run: Run, late: Late, by: int) -> None:
    """Let a run read late as it begins its next batch, and carry it out."""
    late.by = by
    run.until(lambda step: isinstance(step, IntendThrottles))
    late.by = 0
    assert run.to_the_end() is Outcome.DONE


def leader_list(client: SimulatedCluster) -> str | None:
    """Return the topic's own list: "" when set to nothing, None when unset."""
    return own_list(throttles(client)[T], Side.LEADER)


LATE = pytest.mark.parametrize("by", [0, 1, 2])


@LATE
@pytest.mark.parametrize("prior", [None, "", "7:1"])
def test_a_list_ends_as_it_was_found_whatever_of_its_run_is_shown_late(
    start: Start, prior: str | None, by: int
) -> None:
    run, late = between_batches(start, prior)
    to_the_end(run, late, by)
    assert leader_list(run.client) == prior
    assert own_list(throttles(run.client)[T], Side.FOLLOWER) is None


@LATE
@pytest.mark.parametrize("prior", [None, "", "7:1"])
def test_what_somebody_adds_between_two_batches_stays(
    start: Start, prior: str | None, by: int
) -> None:
    run, late = between_batches(start, prior)
    append = ConfigChange(T, LEADER_LIST, ConfigOp.APPEND, "9:5")
    run.client.alter_configs([append])
    to_the_end(run, late, by)
    assert set((leader_list(run.client) or "").split(",")) == {"9:5", prior} - {None, ""}


def test_what_somebody_deletes_between_two_batches_stays_deleted(start: Start) -> None:
    run, late = between_batches(start, "")
    delete(run.client, T, LEADER_LIST)
    to_the_end(run, late, 0)
    assert leader_list(run.client) is None


def test_what_somebody_empties_between_two_batches_stays_empty(start: Start) -> None:
    run, late = between_batches(start, "7:1")
    set_config(run.client, T, LEADER_LIST, "")
    to_the_end(run, late, 0)
    assert leader_list(run.client) == ""


def test_setting_to_nothing_what_a_run_had_unset_cannot_be_told_from_what_it_did_itself(
    start: Start,
) -> None:
    run, late = between_batches(start, None)
    set_config(run.client, T, LEADER_LIST, "")
    to_the_end(run, late, 0)
    assert leader_list(run.client) is None
