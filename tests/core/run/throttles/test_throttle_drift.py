"""Throttles of a run that change under it, while they are set, raised, kept and put back."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import (
    MB,
    Run,
    Start,
    answering,
    ask,
    cluster,
    delete,
    own,
    refusing,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigOp,
    Resource,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.reporting.views import RunStatus
from core.run.steps import IntendThrottles, NoteDrift, Poll, SetThrottles

T, B3 = Resource.topic("t"), Resource.broker(3)


def refuse_to_set(real: Any, changes: Any) -> Any:
    """Answer as a cluster whose policy allows nothing but taking throttles away."""
    adding = {c.resource for c in changes if c.op in (ConfigOp.SET, ConfigOp.APPEND)}
    answers = real([c for c in changes if c.resource not in adding])
    return answers | {resource: Fault("POLICY_VIOLATION") for resource in adding}


# -- between what is intended and what is set -----------------------------------------------------


@pytest.mark.parametrize("befalls", ["skipped", "cancelled", "deleted", "moved by somebody else"])
@pytest.mark.parametrize("refused", [False, True], ids=["", "and setting is refused"])
def test_a_move_that_ends_before_its_throttles_are_set_leaves_none(
    start: Start, befalls: str, refused: bool
) -> None:
    client = cluster({"t": [(1, 2)], "u": [(1, 2)]})
    before = throttles(client)
    targets = {("t", 0): (3, 2), ("u", 0): (4, 2)}
    run = start(client, targets)
    run.until(lambda step: isinstance(step, IntendThrottles))
    if befalls == "skipped":
        ask(run, "skip", moves=[1])
    elif befalls == "cancelled":
        ask(run, "cancel", moves=[1])
    elif befalls == "deleted":
        client.delete_topic("u")
        before.pop(Resource.topic("u"))
    else:
        client.alter_reassignments({TopicPartition("u", 0): (5, 2)})
        client.clock.sleep(60)
    if refused:
        run.faulty.replaced["alter_configs"] = refuse_to_set
    run.to_the_end()
    assert throttles(client) == before


@pytest.mark.parametrize("what", ["rate", "list"])
def test_throttles_deleted_just_before_a_batch_begins_are_back_before_it(
    start: Start, what: str
) -> None:
    run = start(count=2, batch_size=1)
    run.until(lambda step: step == SetThrottles(1))
    resource, name = (B3, FOLLOWER_RATE) if what == "rate" else (T, LEADER_LIST)
    held = own(run.client, resource, name)
    delete(run.client, resource, name)
    run.until(lambda step: run.state.moves[1].phase is not Phase.QUEUED)
    assert held is not None
    assert own(run.client, resource, name) == held
    assert run.kinds.count(Kind.DISTURBED) == 1
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, resource, name) is None


def test_a_kept_rate_that_is_freed_before_a_batch_is_ours_before_it_begins(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2})
    set_config(client, B3, FOLLOWER_RATE, "1000000")
    run = start(client, {("t", p): (3, 2) for p in range(2)}, batch_size=1)
    run.until(lambda step: step == SetThrottles(1))
    delete(client, B3, FOLLOWER_RATE)
    run.until(lambda step: run.state.moves[1].phase is not Phase.QUEUED)
    assert own(client, B3, FOLLOWER_RATE) == "5000000"
    assert run.to_the_end() is Outcome.DONE
    assert own(client, B3, FOLLOWER_RATE) is None


@pytest.mark.parametrize("theirs", ["44000000", "2000000"], ids=["higher", "lower"])
def test_a_rate_that_somebody_sets_after_ours_was_intended_is_theirs_in_the_end(
    start: Start, theirs: str
) -> None:
    run = start()
    run.until(lambda step: isinstance(step, IntendThrottles))
    set_config(run.client, B3, FOLLOWER_RATE, theirs)
    run.until(submitted)
    assert own(run.client, B3, FOLLOWER_RATE) == min(theirs, "5000000", key=int)
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) == theirs


# -- what passes by itself ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["REQUEST_TIMED_OUT", "NOT_CONTROLLER"])
@pytest.mark.parametrize("on", [T, B3], ids=["list", "rate"])
def test_a_throttle_that_is_put_off_is_waited_for_and_fails_nothing(
    start: Start, on: Resource, fault: str
) -> None:
    run = start()
    run.until(lambda step: isinstance(step, IntendThrottles))

    run.faulty.replaced["alter_configs"] = refusing(on, fault=fault)
    spend(run, 60)
    assert fault in run.state.waiting
    assert run.view().state is RunStatus.WAITING
    assert run.kinds.count(Kind.THROTTLE_FAILED) == run.kinds.count(Kind.SUBMITTING) == 0
    run.faulty.replaced.clear()
    run.restores(Outcome.DONE)


@pytest.mark.parametrize("fault", ["TOPIC_AUTHORIZATION_FAILED", "REQUEST_TIMED_OUT"])
def test_a_list_that_cannot_be_asked_for_good_ends_the_run_and_nothing_is_left(
    start: Start, fault: str
) -> None:
    run = start()
    run.faulty.replaced["fetch_list_entries"] = lambda real, lists: dict.fromkeys(
        lists, Fault(fault)
    )
    passes = fault == "REQUEST_TIMED_OUT"
    spend(run, 30)
    assert fault in (run.state.waiting if passes else run.view().why)
    assert run.state.ended is (None if passes else Outcome.FAILED)
    run.faulty.replaced.clear()
    assert run.to_the_end() is (Outcome.DONE if passes else Outcome.FAILED)
    assert throttles(run.client) == run.found


def test_a_batch_begins_though_a_broker_died_before_its_rate_was_set(start: Start) -> None:
    """It gets its rate as it returns, as one does that was down before."""
    run = start(cluster({"t": [(1, 2, 3)]}, size_bytes=300 * MB), {("t", 0): (1, 2, 4)})
    run.until(lambda step: isinstance(step, IntendThrottles))
    run.client.stop_broker(3)
    run.until(submitted, seconds=60)
    run.client.start_broker(3)
    spend(run, 5)
    assert own(run.client, B3, LEADER_RATE) == "5000000"
    run.restores(Outcome.DONE)


# -- while a rate rises ---------------------------------------------------------------------------


def a_rising_run(start: Start) -> Run:
    run = start(size_bytes=900 * MB)
    run.until(submitted)
    spend(run, 5)
    ask(run, "throttle", rate_bytes_per_s=50 * MB)
    spend(run, 3)
    return run


def test_a_rate_that_somebody_changes_while_it_rises_is_theirs(start: Start) -> None:
    run = a_rising_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, "1234567")
    run.until(lambda step: run.kinds.count(Kind.DISTURBED) == 1, seconds=5)
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "1234567"
    assert int(own(run.client, Resource.broker(1), LEADER_RATE) or 0) > 10 * MB
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert own(run.client, B3, FOLLOWER_RATE) == "1234567"
    assert own(run.client, Resource.broker(1), LEADER_RATE) is None


def test_a_list_that_somebody_deletes_while_rates_rise_is_noticed_meanwhile(start: Start) -> None:
    run = a_rising_run(start)
    delete(run.client, T, FOLLOWER_LIST)
    spend(run, 6)
    assert own(run.client, T, FOLLOWER_LIST) == "0:3"
    assert (own(run.client, B3, FOLLOWER_RATE) or "") < "50000000", "it rises still"


def test_a_broker_that_cannot_be_read_holds_no_other_rate_up(start: Start) -> None:
    run = start(size_bytes=900 * MB)
    run.until(submitted)
    spend(run, 3)
    run.faulty.replaced["describe_configs"] = lambda real, resources, *names: (
        real(resources, *names) | {r: Fault("REQUEST_TIMED_OUT") for r in resources if r == B3}
    )
    ask(run, "throttle", rate_bytes_per_s=2 * MB)
    spend(run, 6)
    assert own(run.client, Resource.broker(1), LEADER_RATE) == "2000000"
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    run.faulty.replaced.clear()
    spend(run, 6)
    assert own(run.client, B3, FOLLOWER_RATE) == "2000000"


# -- somebody else's lower rate, which is kept ----------------------------------------------------

KEPT = [(1, LEADER_RATE), (2, LEADER_RATE), (3, LEADER_RATE), (3, FOLLOWER_RATE)]


def a_run_under_others_limits(start: Start) -> Run:
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    for broker, name in KEPT:
        set_config(client, Resource.broker(broker), name, "1000000")
    run = start(client, {("t", 0): (3, 2)})
    run.until(submitted)
    spend(run, 5)
    return run


@pytest.mark.parametrize("freed", [None, "80000000"], ids=["deleted", "raised above ours"])
def test_a_kept_rate_that_limits_no_longer_is_replaced_by_ours(
    start: Start, freed: str | None
) -> None:
    run = a_run_under_others_limits(start)
    for broker, name in KEPT:
        if freed:
            set_config(run.client, Resource.broker(broker), name, freed)
        else:
            delete(run.client, Resource.broker(broker), name)
    run.until(lambda step: isinstance(step, NoteDrift), seconds=10)
    spend(run, 3)
    for broker, name in KEPT:
        assert own(run.client, Resource.broker(broker), name) == "5000000"
    spend(run, 30)
    assert run.state.in_flight, "it is limited"
    assert run.kinds.count(Kind.DISTURBED) == 1
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    for broker, name in KEPT:
        assert own(run.client, Resource.broker(broker), name) == freed
    assert any("this run's own holds instead" in event.text for event in run.view().events)


def test_a_kept_rate_that_becomes_another_low_one_is_kept_still(start: Start) -> None:
    run = a_run_under_others_limits(start)
    set_config(run.client, B3, FOLLOWER_RATE, "3000000")
    spend(run, 10)
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.kinds.count(Kind.DISTURBED) == 0
    assert own(run.client, B3, FOLLOWER_RATE) == "3000000"


# -- what is refused ------------------------------------------------------------------------------


def test_a_list_set_to_all_while_our_pairs_are_put_back_holds_them(start: Start) -> None:
    run = start(size_bytes=600 * MB)
    run.until(submitted)
    spend(run, 4)
    delete(run.client, T, LEADER_LIST)
    run.until(lambda step: isinstance(step, NoteDrift))
    set_config(run.client, T, LEADER_LIST, "*")
    spend(run, 20)
    assert not run.state.throttles.away
    assert run.kinds.count(Kind.PAIRS_PUTTING) == 0
    assert run.state.waiting == ""
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, T, LEADER_LIST) == "*"


@pytest.mark.parametrize("after_restart", [False, True], ids=["", "by another process"])
def test_what_is_refused_over_and_over_is_journalled_once(
    start: Start, after_restart: bool
) -> None:
    run = start(size_bytes=600 * MB)
    run.until(submitted)
    spend(run, 4)
    run.faulty.replaced["alter_configs"] = answering("POLICY_VIOLATION")
    delete(run.client, T, LEADER_LIST)
    spend(run, 30)
    assert run.kinds.count(Kind.PAIRS_PUTTING) == 1
    run.cancel()
    spend(run, 60)
    assert run.kinds.count(Kind.PAIRS_REMOVING) == 1
    assert "POLICY_VIOLATION" in run.state.waiting
    if after_restart:
        run.again()
    run.faulty.replaced.clear()
    before = dict.fromkeys((LEADER_LIST, FOLLOWER_LIST), "")
    assert run.to_the_end() is Outcome.CANCELLED
    assert {name: own(run.client, T, name) or "" for name in before} == before
    assert own(run.client, B3, FOLLOWER_RATE) is None


@pytest.mark.parametrize("call", ["alter_configs", "describe_configs"])
def test_a_late_limit_that_is_refused_is_set_when_it_can_be(start: Start, call: str) -> None:
    run = start(count=2, size_bytes=3000 * MB, rate=-1, batch_size=1)
    run.until(submitted)

    run.faulty.replaced[call] = answering("POLICY_VIOLATION")
    ask(run, "throttle", rate_bytes_per_s=MB)
    for _ in range(20):
        run.runner.advance()
    assert run.state.in_flight
    assert run.state.stopped == ""
    assert run.kinds.count(Kind.THROTTLE_FAILED) == 0
    assert run.kinds.count(Kind.THROTTLE_INTENT) == (call == "alter_configs")
    assert "POLICY_VIOLATION" in run.state.waiting
    run.faulty.replaced.clear()
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "1000000"
    run.cancel()
    run.restores(Outcome.CANCELLED)


def test_a_late_limit_that_is_refused_is_told_and_holds_nothing_else_up(start: Start) -> None:
    targets = {("t", 0): (3, 2), ("u", 0): (6, 5)}
    run = start(cluster({"t": [(1, 2)], "u": [(4, 5)]}, size_bytes=3000 * MB), targets, rate=-1)
    run.until(submitted)

    run.faulty.replaced["alter_configs"] = refusing(B3)
    ask(run, "throttle", rate_bytes_per_s=MB)
    polled = run.until(lambda step: isinstance(step, Poll) and bool(step.waiting), seconds=30)
    assert isinstance(polled, Poll)
    assert "POLICY_VIOLATION" in polled.waiting
    run.faulty.replaced.clear()
    spend(run, 10)
    assert own(run.client, B3, FOLLOWER_RATE) == "1000000"


# -- how it is told -------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "80000000"])
def test_a_rate_put_back_by_a_process_that_died_is_told_as_put_back(
    start: Start, prior: str | None
) -> None:
    client = cluster({"t": [(1, 2)]})
    if prior:
        set_config(client, B3, FOLLOWER_RATE, prior)
    run = start(client, {("t", 0): (3, 2)})
    write = run.journal.write

    def dying(at: Any, kind: Kind, payload: Any) -> Any:
        if kind is Kind.RATE_RESTORED:
            raise KeyboardInterrupt
        return write(at, kind, payload)

    run.journal.write = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.to_the_end()
    run.again()
    assert run.to_the_end() is Outcome.DONE
    told = {
        (rate["broker"], rate["side"]): rate["how"]
        for record in run.journal.records()
        if record.kind is Kind.RATE_RESTORED
        for rate in record.payload["rates"]
    }
    assert told[3, "follower"] == ("set" if prior else "unset")
    assert "changed" not in told.values()
