"""Whole runs on a simulated cluster: what is asked is done, and every throttle ends as found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import MB, Faulty, Start, cluster, plan_of, set_config, throttles, unreachable

from core.cluster.client import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    Fault,
    Resource,
    ResourceKind,
)
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import TopicPartition
from core.errors import AccessDeniedError
from core.plan.plan import Plan, current_target
from core.run.act.runner import Runner
from core.run.decide.steps import IntendRates, NoteEnded, Poll, Preflight, Submit
from core.run.others.throttles import Whose, find_throttles
from core.run.record.history import History, Outcome, Phase
from core.run.record.journal import Kind
from core.run.tell.report import left_in_cluster, report
from core.run.tell.runs import with_throttles
from core.run.tell.view import Leftovers, MoveState, RunState
from core.units import UNLIMITED

TWO = {"t": [(1, 2), (2, 1)], "u": [(1, 2, 3)]}
"""Two partitions that the tests move, and one that they re-order."""
TARGETS: dict[tuple[str, int], tuple[int, ...]] = {
    ("t", 0): (4, 2),
    ("t", 1): (2, 3),
    ("u", 0): (3, 1, 2),
}


def test_a_run_ends_as_planned_and_leaves_no_throttle(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    run = start(client, plan_of(client, TARGETS))
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3), "u-0": (3, 1, 2)}
    assert throttles(client) == before
    assert run.view().state is RunState.DONE
    assert run.view().moved_bytes == run.view().total_bytes == 40 * MB


def test_the_journal_has_the_intent_before_the_cluster_is_changed(start: Start) -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    intents = {
        "alter_reassignments": Kind.SUBMITTING,
        "alter_configs": Kind.THROTTLE_INTENT,
    }

    def recorded(call: str) -> Callable[..., Any]:
        def check(real: Callable[..., Any], *args: Any) -> Any:
            assert intents[call] in {record.kind for record in run.journal.records()}
            return real(*args)

        return check

    faulty.replaced = {call: recorded(call) for call in intents}
    assert run.to_the_end() is Outcome.DONE
    assert set(intents) <= set(faulty.calls)


def test_both_sides_are_limited_while_it_runs(start: Start) -> None:
    client = cluster(TWO)
    run = start(client, plan_of(client, TARGETS))
    run.until(lambda step: isinstance(step, Poll))
    found = throttles(client)
    topic = found[Resource.topic("t")]
    assert set((topic[LEADER_LIST].value or "").split(",")) == {
        *("0:1", "0:2", "0:4", "1:1", "1:2", "1:3"),
    }
    assert set((topic[FOLLOWER_LIST].value or "").split(",")) == {"0:4", "1:3"}
    assert not found[Resource.topic("u")][LEADER_LIST].value
    assert {b for b in range(1, 7) if LEADER_RATE in found[Resource.broker(b)]} == {1, 2, 3, 4}
    assert {b for b in range(1, 7) if FOLLOWER_RATE in found[Resource.broker(b)]} == {3, 4}


def test_a_throttled_run_takes_its_time(start: Start) -> None:
    client = cluster({"t": [(1,)]}, size_bytes=60 * MB)
    run = start(client, plan_of(client, {("t", 0): (2,)}), rate=5 * MB)
    run.to_the_end()
    assert 10.5 < client.elapsed_seconds < 15


@pytest.mark.parametrize(("targets", "rate"), [({("u", 0): (3, 1, 2)}, 5 * MB), (TARGETS, -1)])
def test_a_reorder_or_no_limit_sets_no_throttle(
    start: Start, targets: dict[tuple[str, int], tuple[int, ...]], rate: int
) -> None:
    assert rate in (5 * MB, UNLIMITED)
    client = cluster(TWO)
    faulty = Faulty(client)
    run = start(client, plan_of(client, targets), rate=rate, through=faulty)
    assert run.to_the_end() is Outcome.DONE
    assert "alter_configs" not in faulty.calls


def test_batches_go_one_after_another_and_keep_the_rates_between_them(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 3})
    run = start(client, plan_of(client, {("t", p): (1, 3) for p in range(3)}), batch_size=1)
    assert run.to_the_end() is Outcome.DONE
    kinds = [record.kind for record in run.journal.records()]
    assert kinds.count(Kind.SUBMITTING) == 3
    moved, submitted = kinds.index(Kind.MOVED), kinds.index(Kind.SUBMITTED)
    assert submitted < moved < len(kinds) - 1 - kinds[::-1].index(Kind.SUBMITTING)
    assert kinds.index(Kind.RATE_RESTORED) > len(kinds) - 1 - kinds[::-1].index(Kind.MOVED)


# -- throttles of others --------------------------------------------------------------------------


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


# -- things go wrong ------------------------------------------------------------------------------


def test_a_topic_deleted_meanwhile_is_no_error(start: Start) -> None:
    client = cluster(TWO)
    run = start(client, plan_of(client, TARGETS))
    run.until(lambda step: isinstance(step, Poll))
    client.delete_topic("t")
    assert run.to_the_end(60) is Outcome.DONE
    assert [m.why for m in run.view().moves] == ["its topic was deleted"] * 2 + [""]
    assert all(FOLLOWER_RATE not in a for r, a in throttles(client).items() if r.name == "4")


def test_a_run_whose_topics_are_all_deleted_says_so_and_is_not_done(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    run = start(client, plan_of(client, {("t", 0): (4, 2), ("t", 1): (2, 3)}))
    run.until(lambda step: isinstance(step, Preflight))
    client.delete_topic("t")
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert run.view().why == "nothing was left to move: every topic was deleted"
    del before[Resource.topic("t")]
    assert throttles(client) == before


@pytest.mark.parametrize("batch_size", [1, 200], ids=["queued", "in flight"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Fault("TOPIC_AUTHORIZATION_FAILED", "no"), "TOPIC_AUTHORIZATION_FAILED"),
        (None, "not in the cluster's description"),
    ],
    ids=["describe refused", "a broker that lags"],
)
def test_a_topic_that_is_only_hidden_is_not_taken_for_deleted(
    start: Start, batch_size: int, answer: Fault | None, reason: str
) -> None:
    client, without_t = cluster(TWO), cluster({"u": TWO["u"]}).describe()
    faulty = Faulty(client)
    targets = {("u", 0): (4, 1, 2), ("t", 0): (4, 2)}
    run = start(client, plan_of(client, targets), through=faulty, batch_size=batch_size)
    run.until(lambda step: isinstance(step, Submit))
    faulty.replaced["describe"] = lambda real: without_t
    faulty.replaced["configs"] = lambda real, resources, names=None: (
        real(resources, names) | ({T: answer} if answer and T in resources else {})
    )
    run.until(lambda step: isinstance(step, Poll) and reason in step.waiting, 600)
    since = client.elapsed_seconds
    run.until(lambda _: client.elapsed_seconds > since + 60)
    assert run.view().state is RunState.WAITING
    assert reason in run.view().why
    faulty.replaced = {}
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "u-0": (4, 1, 2)}


def test_a_partition_that_is_refused_does_not_hold_up_the_others(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)

    def refuse(real: Callable[..., Any], targets: dict[TopicPartition, Any]) -> Any:
        kept = {tp: target for tp, target in targets.items() if tp != ("t", 0)}
        refused = {TopicPartition("t", 0): Fault("INVALID_REPLICA_ASSIGNMENT", "no such broker")}
        return {**real(kept), **(refused if ("t", 0) in targets else {})}

    faulty.replaced["alter_reassignments"] = refuse
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.to_the_end() is Outcome.INCOMPLETE
    assert [m.state for m in run.view().moves] == [MoveState.FAILED, MoveState.DONE, MoveState.DONE]
    assert "INVALID_REPLICA_ASSIGNMENT" in run.view().moves[0].why
    assert throttles(client) == before


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrives", "it is lost"])
def test_a_submission_without_an_answer_is_compared_and_done_once_more_only_if_lost(
    start: Start, arrives: bool
) -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    sent: list[int] = []

    def lose(real: Callable[..., Any], targets: Any) -> Any:
        sent.append(len(targets))
        if len(sent) > 1:
            return real(targets)
        if arrives:
            real(targets)
        return unreachable()

    faulty.replaced["alter_reassignments"] = lose
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.runner.run() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3), "u-0": (3, 1, 2)}
    assert sent == ([3] if arrives else [3, 3])


def test_throttles_that_do_not_read_back_are_undone_and_nothing_is_submitted(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)

    def deaf(real: Callable[..., Any], changes: Any) -> Any:
        heard = [change for change in changes if change.name != FOLLOWER_RATE]
        return real(heard) if heard else {}

    faulty.replaced["alter_configs"] = deaf
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.to_the_end() is Outcome.FAILED
    assert "do not read back" in run.view().why
    assert "alter_reassignments" not in faulty.calls
    assert throttles(client) == before


@pytest.mark.parametrize("found", ["nothing", "foreign entries", "a higher rate"])
def test_throttles_that_brokers_do_not_show_yet_are_undone_all_the_same(
    start: Start, found: str
) -> None:
    """Brokers that lag behind the controller show what was there before until all is over."""
    client = cluster(TWO)
    for setting in FOUND[found]:
        setting(client)
    before = throttles(client)
    everything = client.configs(list(before))
    faulty = Faulty(client)

    def late(real: Callable[..., Any], resources: Any, names: Any) -> Any:
        answers = {r: everything[r] for r in resources}
        return {r: {n: v for n, v in a.items() if n in names} for r, a in answers.items()}

    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Preflight))
    faulty.replaced["configs"] = late
    assert run.to_the_end() is Outcome.FAILED
    assert throttles(client) == before


def test_throttles_that_are_refused_are_undone_and_nothing_is_submitted(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)

    def refuse(real: Callable[..., Any], changes: Any) -> Any:
        if any(change.resource == Resource.broker(4) for change in changes):
            rest = [change for change in changes if change.resource != Resource.broker(4)]
            return {**real(rest), Resource.broker(4): Fault("CLUSTER_AUTHORIZATION_FAILED", "no")}
        return real(changes)

    faulty.replaced["alter_configs"] = refuse
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.to_the_end() is Outcome.FAILED
    assert "CLUSTER_AUTHORIZATION_FAILED" in run.view().why
    assert "alter_reassignments" not in faulty.calls
    assert throttles(client) == before


@pytest.mark.parametrize(
    ("call", "resource"),
    [("alter_configs", Resource.topic("t")), ("alter_configs", Resource.broker(4))],
    ids=["list", "rate"],
)
def test_a_throttle_that_cannot_be_given_back_is_said_and_asked_again_at_leisure(
    start: Start, call: str, resource: Resource
) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))

    def refuse(real: Callable[..., Any], changes: Any) -> Any:
        rest = [change for change in changes if change.resource != resource]
        said = {resource: Fault("POLICY_VIOLATION", "no")} if len(rest) < len(changes) else {}
        return {**(real(rest) if rest else {}), **said}

    faulty.replaced[call] = refuse
    run.until(lambda _: "POLICY_VIOLATION" in run.runner.history.waiting)
    records, since = len(run.journal.records()), client.elapsed_seconds
    run.until(lambda _: client.elapsed_seconds > since + 300)
    assert "POLICY_VIOLATION" in run.view().why
    assert run.view().state is RunState.WAITING
    assert len(run.journal.records()) - records < 300
    faulty.replaced = {}
    assert run.to_the_end(60) is Outcome.DONE
    assert throttles(client) == before


def test_a_move_that_somebody_else_cancels_stops_the_run(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 3})
    before = throttles(client)
    run = start(client, plan_of(client, {("t", p): (1, 3) for p in range(3)}), batch_size=2)
    run.until(lambda step: isinstance(step, Poll))
    client.cancel([TopicPartition("t", 0)])
    assert run.to_the_end() is Outcome.INCOMPLETE
    assert [m.state for m in run.view().moves] == [
        MoveState.FAILED,
        MoveState.DONE,
        MoveState.CANCELLED,
    ]
    assert "t-0 was cancelled by somebody else" in run.view().why
    assert throttles(client) == before


def test_a_move_that_somebody_else_overrides_is_left_to_them(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    client.alter_reassignments({TopicPartition("t", 0): (1, 5)})
    run.until(lambda step: isinstance(step, NoteEnded))
    assert run.runner.history.moves[0].phase is Phase.FAILED
    assert "changed by somebody else" in run.runner.history.moves[0].why
    run.to_the_end()
    assert current_target(client.describe(), TopicPartition("t", 0)) == (1, 5)


def test_a_destination_that_dies_is_waited_for(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(3)
    run.until(lambda step: isinstance(step, Poll) and bool(step.waiting))
    run.until(lambda step: isinstance(step, Poll) and client.elapsed_seconds > 60)
    assert run.view().state is RunState.WAITING
    assert run.view().why == "broker 3 is down: t-0 waits for it"
    assert (run.view().moves[0].state, run.view().moves[0].why) == (MoveState.STUCK, "b3 is down")
    client.start_broker(3)
    assert run.to_the_end() is Outcome.DONE


def test_the_throttle_of_a_broker_that_died_is_put_back_when_it_returns(start: Start) -> None:
    client = cluster({"t": [(1, 2, 3)]})
    run = start(client, plan_of(client, {("t", 0): (1, 2, 4)}))
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(2)
    run.until(lambda step: isinstance(step, NoteEnded) or client.elapsed_seconds > 120)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "throttle" in step.waiting)
    client.start_broker(2)
    run.to_the_end()
    assert all(LEADER_RATE not in configs for configs in throttles(client).values())


@pytest.mark.parametrize("found", [None, "70000000", "3000000"], ids=["unset", "higher", "lower"])
@pytest.mark.parametrize("answers", ["at once", "late"])
def test_a_broker_that_was_down_gets_its_rate_when_it_returns_and_it_is_put_back(
    start: Start, found: str | None, answers: str
) -> None:
    client = cluster({"t": [(1, 2, 3)]}, size_bytes=200 * MB)
    if found:
        set_config(client, Resource.broker(2), LEADER_RATE, found)
    before = throttles(client)
    client.stop_broker(2)
    faulty = Faulty(client)
    plan = plan_of(client, {("t", 0): (1, 2, 4)})
    run = start(client, plan, through=faulty, allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Poll))
    client.start_broker(2)
    since = client.elapsed_seconds

    def late(real: Callable[..., Any], resources: Any, names: Any = None) -> Any:
        mute = answers == "late" and client.elapsed_seconds < since + 10
        b2 = Resource.broker(2)
        return real(resources, names) | (
            {b2: Fault("_TIMED_OUT")} if mute and b2 in resources else {}
        )

    def intended(real: Callable[..., Any], changes: Any) -> Any:
        assert Kind.RATE_INTENT in {record.kind for record in run.journal.records()}
        return real(changes)

    faulty.replaced = {"configs": late, "alter_configs": intended}
    if answers == "late":
        run.until(lambda _: "broker 2" in run.runner.history.waiting)
        assert run.view().state is RunState.WAITING
    run.until(lambda step: isinstance(step, Poll) and client.elapsed_seconds > since + 16)
    assert throttles(client)[Resource.broker(2)][LEADER_RATE].value == (
        found if found == "3000000" else "5000000"
    )
    assert run.view().state is RunState.RUNNING
    faulty.replaced = {}
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client) == before


def test_a_rate_for_a_broker_that_returned_is_set_by_the_next_process_too(start: Start) -> None:
    client = cluster({"t": [(1, 2, 3)]}, size_bytes=200 * MB)
    before = throttles(client)
    client.stop_broker(2)
    plan = plan_of(client, {("t", 0): (1, 2, 4)})
    run = start(client, plan, allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Poll))
    client.start_broker(2)
    run.until(lambda step: isinstance(step, IntendRates))
    assert LEADER_RATE not in throttles(client)[Resource.broker(2)]
    run.again()
    run.until(lambda step: isinstance(step, Poll))
    assert throttles(client)[Resource.broker(2)][LEADER_RATE].value == "5000000"
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert throttles(client) == before


def test_a_broker_that_never_returns_does_not_hold_the_run_for_ever(start: Start) -> None:
    """A cancel once no move is left ends the run, and what is left is said."""
    client = cluster({"t": [(1, 2, 3)]})
    run = start(client, plan_of(client, {("t", 0): (1, 4, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(2)
    run.until(lambda step: isinstance(step, Poll) and "a cancel leaves it" in step.waiting)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert run.view().why == "broker 2 is down: its throttle is left"
    assert run.view().moves[0].state is MoveState.DONE
    left = run.view().leftovers
    assert left is not None
    assert left.rates == ((2, "leader", 5 * MB),)
    run.again()
    assert run.runner.history.ended is Outcome.INCOMPLETE


def test_a_cluster_that_does_not_answer_is_waited_for(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    faulty = Faulty(client)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    since = client.elapsed_seconds
    faulty.replaced["reassignments"] = lambda real: (
        unreachable() if client.elapsed_seconds < since + 20 else real()
    )
    assert run.runner.run() is Outcome.DONE
    assert any(event.text == "The cluster does not answer" for event in run.view().events)


# -- moves of others ------------------------------------------------------------------------------


def test_a_foreign_move_that_was_allowed_is_waited_for_and_holds_up_nothing(start: Start) -> None:
    sizes = {TopicPartition("t", 0): 900 * MB, TopicPartition("t", 1): 5 * MB}
    client = cluster({"t": TWO["t"]}, size_bytes=sizes)
    set_config(client, Resource.broker(5), FOLLOWER_RATE, "20000000")
    set_config(client, T, FOLLOWER_LIST, "0:5")
    client.alter_reassignments({TopicPartition("t", 0): (5, 2)})
    before = throttles(client)
    plan = plan_of(client, {("t", 0): (4, 2), ("t", 1): (2, 3)})
    run = start(client, plan, allow=frozenset({"foreign-move"}), rate=50 * MB)
    run.until(lambda step: isinstance(step, Poll) and "by somebody else" in step.waiting)
    assert [m.state for m in run.view().moves] == [MoveState.QUEUED, MoveState.DONE]
    lists = throttles(client)[T]
    assert lists[FOLLOWER_LIST].value == "0:5"
    assert run.view().state is RunState.WAITING
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3)}
    assert throttles(client) == before
    assert History.fold(run.journal.records()) == run.runner.history


@pytest.mark.parametrize("ends", ["cancelled", "elsewhere"])
def test_a_foreign_move_that_began_meanwhile_is_waited_for_and_never_overridden(
    start: Start, ends: str
) -> None:
    client = cluster({"t": [(1, 2), (1, 2)]})
    run = start(client, plan_of(client, {("t", p): (1, 3) for p in range(2)}), batch_size=1)
    run.until(lambda step: isinstance(step, Submit))
    theirs = TopicPartition("t", 1)
    client.stop_broker(6)
    client.alter_reassignments({theirs: (1, 6)})
    run.until(lambda step: isinstance(step, Poll) and "by somebody else" in step.waiting)
    since = client.elapsed_seconds
    run.until(lambda _: client.elapsed_seconds > since + 60)
    assert client.reassignments()[theirs].target == (1, 6)
    if ends == "cancelled":
        client.cancel([theirs])
        assert run.to_the_end() is Outcome.DONE
        return
    client.start_broker(6)
    assert run.to_the_end() is Outcome.INCOMPLETE
    assert run.view().moves[1].why == "has other replicas than planned from"
    assert run.replicas()["t-1"] == (1, 6)


# -- refused before anything is written -----------------------------------------------------------


def _dead(client: SimulatedCluster) -> None:
    client.stop_broker(4)


def _moving(client: SimulatedCluster) -> None:
    client.alter_reassignments({TopicPartition("t", 0): (5, 2)})


def _moved(client: SimulatedCluster) -> None:
    client.alter_reassignments({TopicPartition("t", 0): (2, 1)})


@pytest.mark.parametrize(
    ("meanwhile", "check"),
    [(_dead, "dead-broker"), (_moving, "foreign-move"), (_moved, "stale")],
    ids=["dead broker", "foreign move", "changed layout"],
)
def test_preflight_refuses_and_writes_nothing(
    start: Start, meanwhile: Callable[[SimulatedCluster], None], check: str
) -> None:
    client = cluster(TWO)
    plan = plan_of(client, TARGETS)
    meanwhile(client)
    faulty = Faulty(client)
    run = start(client, plan, through=faulty)
    assert run.to_the_end() is Outcome.FAILED
    assert check in run.view().why
    assert not {"alter_configs", "alter_reassignments"} & set(faulty.calls)


def test_another_cluster_is_not_touched(start: Start) -> None:
    client, other = cluster(TWO), cluster(TWO, cluster_id="another-cluster-000000")
    faulty = Faulty(other)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.to_the_end() is Outcome.FAILED
    assert "another-cluster-000000" in run.view().why
    assert not {"alter_configs", "alter_reassignments"} & set(faulty.calls)


# -- cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_cancel_at_any_step_leaves_whole_partitions_and_no_throttle(
    start: Start, after: int
) -> None:
    client = cluster({"t": [(3, 2, 1), (1, 2, 3)], "u": [(1, 2, 3)]}, size_bytes=8 * MB)
    set_config(client, Resource.topic("t"), LEADER_LIST, "9:1")
    before = throttles(client)
    wanted = {("t", 0): (4, 2, 1), ("t", 1): (5, 3, 2), ("u", 0): (3, 1, 2)}
    run = start(client, plan_of(client, wanted), batch_size=2)
    for _ in range(after):
        if run.runner.history.ended is None:
            run.runner.advance()
    done_before = sum(m.phase is Phase.DONE for m in run.runner.history.moves)
    run.cancel()
    outcome = run.to_the_end()
    moves = run.runner.history.moves
    for m in moves:
        expected = m.move.after if m.phase is Phase.DONE else m.move.before
        assert run.replicas()[str(m.move.tp)] == expected
    assert not client.reassignments()
    assert throttles(client) == before
    everything = all(m.phase is Phase.DONE for m in moves)
    assert outcome is (Outcome.DONE if everything else Outcome.CANCELLED)
    assert sum(m.phase is Phase.DONE for m in moves) >= done_before


def test_a_cancel_puts_the_original_order_back(start: Start) -> None:
    """Kafka leaves [2,1,3] of [3,2,1] → [4,2,1] cancelled; the journal knows better."""
    client = cluster({"t": [(3, 2, 1)]})
    run = start(client, plan_of(client, {("t", 0): (4, 2, 1)}))
    run.until(lambda step: isinstance(step, Poll))
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (3, 2, 1)}
    assert Kind.REORDERED in {record.kind for record in run.journal.records()}


def test_a_cancel_that_would_be_unclean_is_refused_and_the_move_goes_on(start: Start) -> None:
    client = cluster(
        {"t": [(1, 2)]}, topic_configs={"t": {"min.insync.replicas": "2"}}, size_bytes=30 * MB
    )
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(2)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "cannot be cancelled" in step.waiting)
    assert TopicPartition("t", 0) in client.reassignments()
    client.start_broker(2)
    run.to_the_end()
    assert run.replicas()["t-0"] in ((1, 2), (1, 3))


# -- the fold -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancelled", [False, True])
def test_folding_the_journal_again_gives_the_same_history_after_every_step(
    start: Start, cancelled: bool
) -> None:
    client = cluster(TWO, size_bytes=5 * MB)
    run = start(client, plan_of(client, TARGETS), batch_size=2)
    steps = 0
    while run.runner.history.ended is None:
        run.runner.advance()
        steps += 1
        if cancelled and steps == 6:
            run.cancel()
        assert History.fold(run.journal.records()) == run.runner.history


def test_an_empty_plan_ends_at_once(start: Start) -> None:
    client = cluster(TWO)
    run = start(client, Plan(client.describe().cluster_id))
    assert run.to_the_end() is Outcome.DONE


# -- no rights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["alter_configs", "alter_reassignments"])
def test_a_cluster_that_says_no_ends_the_run_and_nothing_is_left(start: Start, call: str) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    said: list[str] = []

    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if not said:
            said.append("no")
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    faulty.replaced[call] = deny
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.runner.run() is Outcome.FAILED
    assert "The cluster says no" in run.view().why
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2, 3)}
    assert throttles(client) == before


def _deny(client: SimulatedCluster, until: float) -> Callable[..., Any]:
    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if client.elapsed_seconds < until:
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    return deny


@pytest.mark.parametrize("call", ["reassignments", "describe", "alter_configs"])
def test_a_run_whose_rights_went_waits_for_them(start: Start, call: str) -> None:
    """Ended, it would leave moves in flight under throttles that nobody puts back."""
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    faulty.replaced[call] = _deny(client, client.elapsed_seconds + 3600)
    assert run.runner.run() is Outcome.DONE
    assert client.elapsed_seconds > 3600
    assert throttles(client) == before
    (said,) = {e.text for e in run.view().events if e.text.startswith("The cluster says no")}
    assert said == (
        "The cluster says no: CLUSTER_AUTHORIZATION_FAILED: give the run's user its rights "
        "back and it goes on (a cancel leaves what it may not put back)"
    )


def test_a_run_whose_rights_went_for_good_ends_when_it_is_cancelled(start: Start) -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    denied = _deny(client, 10**9)

    def asked(real: Callable[..., Any], *args: Any) -> Any:
        if client.elapsed_seconds > 600 and not run.journal.requests():
            run.cancel()
        return denied(real, *args)

    faulty.replaced["reassignments"] = asked
    assert run.runner.run() is Outcome.INCOMPLETE
    assert client.elapsed_seconds > 600
    assert "may be left" in run.view().why
    assert run.view().leftovers


# -- answers that ask for another try --------------------------------------------------------------


def _refusing(answers: list[Fault]) -> Callable[..., Any]:
    def refuse(real: Callable[..., Any], partitions: Any) -> Any:
        return dict.fromkeys(partitions, answers[0]) if answers else real(partitions)

    return refuse


def test_a_submission_that_is_put_off_is_said_and_made_again_less_and_less_often(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    faulty = Faulty(client)
    answers = [Fault("NOT_CONTROLLER", "not now")]
    faulty.replaced["alter_reassignments"] = _refusing(answers)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}), through=faulty)
    run.until(lambda step: isinstance(step, Poll) and bool(step.waiting))
    assert run.view().why == "t-0 is not taken yet (NOT_CONTROLLER: not now): it is asked again"
    assert run.view().state is RunState.WAITING
    run.until(lambda _: client.elapsed_seconds > 300)
    assert 6 <= faulty.calls.count("alter_reassignments") <= 16
    assert [e.text for e in run.view().events].count(run.view().why) == 1
    answers.clear()
    assert run.to_the_end(120) is Outcome.DONE
    assert run.view().moves[0].why == ""


@pytest.mark.parametrize("call", ["cancel", "alter_reassignments"])
def test_a_cancel_that_is_put_off_is_said_and_made_again_at_leisure(
    start: Start, call: str
) -> None:
    client = cluster({"t": [(3, 2, 1)]}, size_bytes=5000 * MB)
    faulty = Faulty(client)
    answers = [Fault("REQUEST_TIMED_OUT")]
    run = start(client, plan_of(client, {("t", 0): (4, 2, 1)}), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    faulty.replaced[call] = _refusing(answers)
    run.cancel()
    run.until(lambda _: "REQUEST_TIMED_OUT" in run.runner.history.waiting)
    since, calls = client.elapsed_seconds, faulty.calls.count(call)
    run.until(lambda _: client.elapsed_seconds > since + 100)
    assert "REQUEST_TIMED_OUT" in run.view().why
    assert faulty.calls.count(call) - calls <= 25
    answers.clear()
    assert run.to_the_end(60) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (3, 2, 1)}


def test_a_run_that_gives_up_says_what_it_left(start: Start) -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    faulty.replaced["reassignments"] = unreachable
    run.runner = Runner(run.journal, run.through, client.clock, patience_seconds=0)
    assert run.runner.run() is Outcome.INCOMPLETE
    left = run.view(living=False).leftovers
    assert left is not None
    assert set(left.moves) == set(client.reassignments())
    assert {entry[0] for entry in left.lists} == {"t"}
    assert {broker for broker, _, _ in left.rates} == {1, 2, 3, 4}
    assert "It left in the cluster:" in report(run.look(living=False))
    state = client.describe()
    (known,) = with_throttles(state.cluster_id)
    ours = [t for t in find_throttles(client, state, [known]).found if t.whose is Whose.OURS]
    assert {t.run for t in ours} == {known.history.run}
    assert "which gave up" in ours[0].why


def test_throttles_that_may_not_be_read_are_not_taken_for_none() -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    secret = Resource.topic("t")
    set_config(client, secret, LEADER_LIST, "0:1")
    refused = {secret: Fault("TOPIC_AUTHORIZATION_FAILED", "no")}
    faulty.replaced["configs"] = lambda real, resources, names: (
        real(resources, names) | {r: f for r, f in refused.items() if r in resources}
    )
    through: Any = faulty
    assert find_throttles(through, client.describe(), []) == ((), refused)


def test_what_is_left_where_nobody_may_look_is_not_taken_for_nothing() -> None:
    client = cluster(TWO)
    faulty: Any = Faulty(client)
    refused = Fault("TOPIC_AUTHORIZATION_FAILED", "no")
    gone = Fault("UNKNOWN_TOPIC_OR_PARTITION")
    faulty.replaced["configs"] = lambda real, resources, names: {
        r: refused if r.name == "t" else gone for r in resources
    }
    left = Leftovers(lists=(("t", "leader", ("0:1",)), ("u", "leader", ("0:1",))))
    assert left_in_cluster(faulty, left).lists == (("t", "leader", ("0:1",)),)
