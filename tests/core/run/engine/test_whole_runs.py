"""Whole runs on a simulated cluster: what is asked is done, and its journal says it first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    TARGETS,
    TWO,
    Start,
    cluster,
    throttles,
)

from core.cluster.configs import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE, Resource
from core.plan.plan import Plan
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.reporting.views import RunStatus
from core.run.steps import Poll
from core.units import UNLIMITED


def test_a_run_ends_as_planned_and_leaves_no_throttle(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    run.restores(Outcome.DONE)
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3), "u-0": (3, 1, 2)}
    assert run.view().state is RunStatus.DONE
    assert run.view().moved_bytes == run.view().total_bytes == 40 * MB


def test_intent_is_journalled_before_the_cluster_is_changed(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    intents = {
        "alter_reassignments": Kind.SUBMITTING,
        "alter_configs": Kind.THROTTLE_INTENT,
    }

    def recorded(call: str) -> Callable[..., Any]:
        def check(real: Callable[..., Any], *args: Any) -> Any:
            assert intents[call] in run.kinds
            return real(*args)

        return check

    run.faulty.replaced = {call: recorded(call) for call in intents}
    assert run.to_the_end() is Outcome.DONE
    assert set(intents) <= set(run.faulty.calls)


def test_leaders_and_followers_are_throttled_during_a_run(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    configs = throttles(run.client)
    topic = configs[Resource.topic("t")]
    assert set((topic[LEADER_LIST].value or "").split(",")) == {
        *("0:1", "0:2", "0:4", "1:1", "1:2", "1:3"),
    }
    assert set((topic[FOLLOWER_LIST].value or "").split(",")) == {"0:4", "1:3"}
    assert not configs[Resource.topic("u")][LEADER_LIST].value
    assert {b for b in range(1, 7) if LEADER_RATE in configs[Resource.broker(b)]} == {1, 2, 3, 4}
    assert {b for b in range(1, 7) if FOLLOWER_RATE in configs[Resource.broker(b)]} == {3, 4}


def test_duration_of_a_throttled_run_follows_its_rate(start: Start) -> None:
    run = start(cluster({"t": [(1,)]}, size_bytes=60 * MB), {("t", 0): (2,)}, rate=5 * MB)
    run.to_the_end()
    assert 10.5 < run.client.elapsed_seconds < 15


@pytest.mark.parametrize(("targets", "rate"), [({("u", 0): (3, 1, 2)}, 5 * MB), (TARGETS, -1)])
def test_replica_reorder_or_unlimited_run_sets_no_throttle(
    start: Start, targets: dict[tuple[str, int], tuple[int, ...]], rate: int
) -> None:
    assert rate in (5 * MB, UNLIMITED)
    run = start(cluster(TWO), targets, rate=rate)
    assert run.to_the_end() is Outcome.DONE
    assert "alter_configs" not in run.faulty.calls


def test_batches_run_one_after_another_and_rates_are_restored_only_after_the_last(
    start: Start,
) -> None:
    run = start(cluster({"t": [(1, 2)] * 3}), {("t", p): (1, 3) for p in range(3)}, batch_size=1)
    assert run.to_the_end() is Outcome.DONE
    kinds = run.kinds
    assert kinds.count(Kind.SUBMITTING) == 3
    moved, submitted = kinds.index(Kind.MOVED), kinds.index(Kind.SUBMITTED)
    assert submitted < moved < len(kinds) - 1 - kinds[::-1].index(Kind.SUBMITTING)
    assert kinds.index(Kind.RATE_RESTORED) > len(kinds) - 1 - kinds[::-1].index(Kind.MOVED)


@pytest.mark.parametrize("cancelled", [False, True])
def test_refolding_the_journal_gives_the_same_history_after_every_step(
    start: Start, cancelled: bool
) -> None:
    run = start(cluster(TWO, size_bytes=5 * MB), TARGETS, batch_size=2)
    steps = 0
    while run.state.ended is None:
        run.runner.advance()
        steps += 1
        if cancelled and steps == 6:
            run.cancel()
        assert fold(run.journal.records()) == run.state


def test_run_of_an_empty_plan_ends_as_done(start: Start) -> None:
    client = cluster(TWO)
    run = start(client, Plan(client.describe_cluster().cluster_id))
    assert run.to_the_end() is Outcome.DONE
