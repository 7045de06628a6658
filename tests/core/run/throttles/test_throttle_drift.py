"""Throttles of a run that others edit while they are set, raised, kept, in force and put back."""

from __future__ import annotations

from pathlib import Path
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
from core.run.control import request
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.journal.throttle_values import entries
from core.run.reporting.config_changes import changes
from core.run.reporting.views import RunStatus
from core.run.steps import (
    ChangeRates,
    IntendThrottles,
    NoteDrift,
    Poll,
    ReinstatePairs,
    SetThrottles,
    Step,
)

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
def test_throttles_deleted_just_before_a_batch_are_reinstated_before_it_begins(
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


def test_kept_foreign_rate_deleted_before_a_batch_is_replaced_by_ours_before_it_begins(
    start: Start,
) -> None:
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
def test_foreign_rate_set_after_ours_was_intended_is_restored_at_the_end(
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
def test_transient_error_on_a_throttle_change_is_waited_out_without_failing_the_run(
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
def test_list_read_error_fails_the_run_only_if_permanent_and_throttles_are_restored(
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


def test_rate_changed_externally_while_it_rises_is_left_as_changed(start: Start) -> None:
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


def test_list_deleted_externally_while_rates_rise_is_reinstated_during_the_rise(
    start: Start,
) -> None:
    run = a_rising_run(start)
    delete(run.client, T, FOLLOWER_LIST)
    spend(run, 6)
    assert own(run.client, T, FOLLOWER_LIST) == "0:3"
    assert (own(run.client, B3, FOLLOWER_RATE) or "") < "50000000", "it rises still"


def test_unreadable_broker_does_not_hold_up_rate_changes_on_other_brokers(start: Start) -> None:
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


def start_under_external_limits(start: Start) -> Run:
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    for broker, name in KEPT:
        set_config(client, Resource.broker(broker), name, "1000000")
    run = start(client, {("t", 0): (3, 2)})
    run.until(submitted)
    spend(run, 5)
    return run


@pytest.mark.parametrize("freed", [None, "80000000"], ids=["deleted", "raised above ours"])
def test_kept_foreign_rate_that_no_longer_limits_is_replaced_by_ours(
    start: Start, freed: str | None
) -> None:
    run = start_under_external_limits(start)
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


def test_kept_foreign_rate_changed_to_another_low_one_is_still_kept(start: Start) -> None:
    run = start_under_external_limits(start)
    set_config(run.client, B3, FOLLOWER_RATE, "3000000")
    spend(run, 10)
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.kinds.count(Kind.DISTURBED) == 0
    assert own(run.client, B3, FOLLOWER_RATE) == "3000000"


# -- what is refused ------------------------------------------------------------------------------


def test_list_set_to_star_while_our_pairs_are_put_back_counts_as_holding_them(start: Start) -> None:
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
def test_repeatedly_refused_throttle_change_is_journalled_once(
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
        run.restart_process()
    run.faulty.replaced.clear()
    before = dict.fromkeys((LEADER_LIST, FOLLOWER_LIST), "")
    assert run.to_the_end() is Outcome.CANCELLED
    assert {name: own(run.client, T, name) or "" for name in before} == before
    assert own(run.client, B3, FOLLOWER_RATE) is None


@pytest.mark.parametrize("call", ["alter_configs", "describe_configs"])
def test_refused_limit_on_an_unlimited_run_is_set_once_it_is_allowed(
    start: Start, call: str
) -> None:
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


def test_refused_late_limit_is_reported_and_does_not_block_the_run(start: Start) -> None:
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
def test_rate_restored_by_a_process_that_died_is_reported_as_restored(
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
    run.restart_process()
    assert run.to_the_end() is Outcome.DONE
    how_by_side = {
        (rate["broker"], rate["side"]): rate["how"]
        for record in run.journal.records()
        if record.kind is Kind.RATE_RESTORED
        for rate in record.payload["rates"]
    }
    assert how_by_side[3, "follower"] == ("set" if prior else "unset")
    assert "changed" not in how_by_side.values()


# -- edited in mid-run: whose they are, and how they end -------------------------------------------


def disturbed(step: Step) -> bool:
    return isinstance(step, NoteDrift)


def a_long_run(start: Start, megabytes: int = 200) -> Run:
    run = start(count=3, size_bytes=megabytes * MB, rate=5 * MB)
    run.until(submitted)
    return run


@pytest.mark.parametrize("theirs", ["3000000", "9000000"])
@pytest.mark.parametrize("command", ["", "throttle", "pause"])
def test_rate_changed_by_somebody_in_mid_run_is_theirs_until_another_is_requested(
    start: Start, command: str, theirs: str
) -> None:
    run = a_long_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, theirs)
    run.until(disturbed)
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == theirs
    if command == "throttle":
        ask(run, "throttle", rate_bytes_per_s=2 * MB)
    elif command:
        ask(run, "pause", floor=True)
    if command:
        run.until(lambda step: isinstance(step, ChangeRates))
        spend(run, 5)
        slow = {"throttle": "2000000", "pause": "1"}[command]
        assert own(run.client, B3, FOLLOWER_RATE) == slow
        ask(run, "resume")
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) == theirs
    assert own(run.client, Resource.broker(1), LEADER_RATE) is None


def test_pause_undone_by_an_external_rate_is_reported_until_requested_once_more(
    start: Start,
) -> None:
    run = a_long_run(start, megabytes=600)
    ask(run, "pause", floor=True)
    run.until(lambda step: isinstance(step, ChangeRates))
    set_config(run.client, B3, FOLLOWER_RATE, "9000000")
    run.until(disturbed)
    spend(run, 2)
    held = "paused, as asked: what is in flight is held"
    theirs = f"{held}, but on broker 3, whose rate somebody else has set: ask once more"
    assert run.state.waiting == theirs
    request(run.state.cluster_id, run.state.run_id, "pause", {"floor": True})
    spend(run, 5)
    assert run.state.waiting == held
    assert own(run.client, B3, FOLLOWER_RATE) == "1"


@pytest.mark.parametrize("restarted", [False, True], ids=["", "by another process"])
@pytest.mark.parametrize("theirs", ["2000000", "9000000"])
def test_changed_rate_that_somebody_puts_back_is_owned_by_the_run_once_more(
    start: Start, theirs: str, restarted: bool
) -> None:
    run = a_long_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, theirs)
    run.until(disturbed)
    set_config(run.client, B3, FOLLOWER_RATE, "5000000")
    run.until(disturbed)
    if restarted:
        run.restart_process()
    ask(run, "throttle", rate_bytes_per_s=4 * MB)
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "4000000"
    run.restores(Outcome.DONE)
    after_by_config = {c.where: c.after for c in changes(run.journal.records(), run.state)}
    assert after_by_config["follower rate of broker 3"] == "unset"


@pytest.mark.parametrize("rate", [MB, 4 * MB], ids=["slower", "faster"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_two_runs_on_the_same_brokers_leave_no_throttles(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    rate: int,
) -> None:
    """The second one belongs to another user: it knows nothing of the first."""
    client = cluster({"t": [(1, 2)] * 5}, size_bytes=50 * MB)
    first_run = start(client, {("t", p): (3, 2) for p in (0, 1)}, rate=5 * MB)
    first_run.until(submitted)
    spend(first_run, 4)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "other"))
    targets = {("t", 2 + p): (3, 2) for p in range(partitions)}
    two = start(client, targets, rate=rate)
    runs = [first_run, two]
    while going := [run for run in runs if run.state.ended is None]:
        assert client.elapsed_seconds < 2000
        for run in going:
            run.runner.advance()
    assert {run.state.ended for run in runs} == {Outcome.DONE}
    assert throttles(client) == first_run.found


@pytest.mark.parametrize("later_seconds", [4.35, 4.4])
def test_rates_end_as_found_if_another_run_began_after_our_last_poll(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_seconds: float
) -> None:
    """Nothing of it is in our journal when our last move ends: it is seen as rates go back."""
    client = cluster({"t": [(1, 2)], "v": [(1, 2)]}, size_bytes=20 * MB)
    ours = start(client, {("t", 0): (4, 2)}, rate=5 * MB)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "another"))
    theirs = start(client, {("v", 0): (4, 2)}, rate=2 * MB)
    ours.until(submitted)
    spend(ours, later_seconds)
    theirs.until(submitted)
    both = (ours, theirs)
    while any(run.state.ended is None for run in both):
        for run in both:
            if run.state.ended is None:
                run.runner.advance()
    assert throttles(client) == ours.found


def test_lower_rate_that_somebody_sets_and_then_deletes_leaves_the_runs_rate(start: Start) -> None:
    run = a_long_run(start, megabytes=600)
    set_config(run.client, B3, FOLLOWER_RATE, "2000000")
    run.until(disturbed)
    delete(run.client, B3, FOLLOWER_RATE)
    run.until(disturbed)
    spend(run, 3)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert own(run.client, B3, FOLLOWER_RATE) is None


def test_rate_cleared_while_no_process_was_running_is_set_anew(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=100 * MB)
    for broker in (1, 2, 3):
        for name in (FOLLOWER_RATE, LEADER_RATE):
            set_config(client, Resource.broker(broker), name, "80000000")
    run = start(client, {("t", p): (3, 2) for p in range(3)}, batch_size=1)
    run.until(submitted)
    ask(run, "pause")
    run.until(lambda _: run.state.moves[0].phase is Phase.DONE)
    spend(run, 3)
    for name in (FOLLOWER_RATE, LEADER_RATE):
        for broker in (1, 2, 3):
            set_config(client, Resource.broker(broker), name, "80000000")
    run.restart_process()
    ask(run, "resume")
    began = client.elapsed_seconds
    run.restores(Outcome.DONE)
    assert client.elapsed_seconds - began > 30, "200 MB at 5 MB/s"


def test_every_throttle_that_somebody_deletes_is_put_back(start: Start) -> None:
    """Kafka's own tool deletes all of them when it verifies a plan and no move is in flight."""
    run = a_long_run(start, megabytes=2000)

    def verify_of_kafkas_tool() -> None:
        for broker in range(1, 7):
            delete(run.client, Resource.broker(broker), LEADER_RATE, FOLLOWER_RATE)
        delete(run.client, T, LEADER_LIST, FOLLOWER_LIST)

    before = throttles(run.client)
    for _ in range(3):
        verify_of_kafkas_tool()
        run.until(disturbed)
        spend(run, 3)
        after = throttles(run.client)
        assert after[Resource.broker(1)] == before[Resource.broker(1)]
        assert own(run.client, B3, FOLLOWER_RATE)
        for name in (LEADER_LIST, FOLLOWER_LIST):
            assert entries(own(run.client, T, name)) == entries(before[T][name].value)
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert not any(v.value for configs in throttles(run.client).values() for v in configs.values())


def test_throttle_deleted_between_two_batches_is_reinstated_before_the_next(
    start: Start,
) -> None:
    run = start(count=2, size_bytes=20 * MB, rate=5 * MB, batch_size=1)
    run.until(submitted)
    run.journal.ask(run.client.now, "pause", {"floor": False, "who": "ann", "host": "here"})
    run.until(lambda step: run.state.moves[0].phase is Phase.DONE)
    spend(run, 3)
    delete(run.client, B3, FOLLOWER_RATE)
    spend(run, 6)
    run.journal.ask(run.client.now, "resume", {"who": "ann", "host": "here"})
    run.until(submitted)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) is None


@pytest.mark.parametrize("cancelled", [False, True])
def test_externally_overwritten_list_regains_our_pairs_and_ends_as_overwritten(
    start: Start, cancelled: bool
) -> None:
    run = a_long_run(start)
    set_config(run.client, T, FOLLOWER_LIST, "9:9")
    run.until(disturbed)
    spend(run, 3)
    assert own(run.client, T, FOLLOWER_LIST) == "9:9,0:3,1:3,2:3"
    if cancelled:
        run.cancel()
    assert run.to_the_end() is (Outcome.CANCELLED if cancelled else Outcome.DONE)
    assert own(run.client, T, FOLLOWER_LIST) == "9:9"
    assert own(run.client, T, LEADER_LIST) is None


@pytest.mark.parametrize("deleted", ["in flight", "before the batch", "twice"])
@pytest.mark.parametrize("all_", [True, False], ids=["all replicas", "entries"])
def test_external_entries_a_run_relies_on_are_restored_if_deleted_and_gone_at_the_end(
    start: Start, all_: bool, deleted: str
) -> None:
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=600 * MB)
    before = throttles(client)
    ours = {LEADER_LIST: "0:1,0:2,0:3,1:1,1:2,1:3,2:1,2:2,2:3", FOLLOWER_LIST: "0:3,1:3,2:3"}
    for name, pairs in ours.items():
        set_config(client, T, name, "*" if all_ else pairs)
    run = start(client, {("t", p): (3, 2) for p in range(3)}, rate=5 * MB)
    run.until(submitted if deleted != "before the batch" else is_set)
    began = client.elapsed_seconds
    delete(client, T, *ours)
    if deleted == "before the batch":
        run.until(lambda _: bool(run.state.in_flight))
        began = client.elapsed_seconds
    else:
        run.until(disturbed)
        spend(run, 3)
    for name, pairs in ours.items():
        assert entries(own(client, T, name)) == entries(pairs)
    if deleted == "twice":
        delete(client, T, *ours)
        spend(run, 8)
        assert entries(own(client, T, FOLLOWER_LIST)) == entries(ours[FOLLOWER_LIST])
    assert run.to_the_end() is Outcome.DONE
    assert run.kinds.count(Kind.DISTURBED) <= 4
    assert client.elapsed_seconds - began > 100, "limited"
    assert throttles(client) == before


def is_set(step: Step) -> bool:
    return isinstance(step, SetThrottles)


def test_list_set_to_star_externally_is_left_unchanged(start: Start) -> None:
    run = a_long_run(start)
    set_config(run.client, T, FOLLOWER_LIST, "*")
    spend(run, 20)
    assert Kind.DISTURBED not in run.kinds
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, T, FOLLOWER_LIST) == "*"


@pytest.mark.parametrize("after", [Kind.DISTURBED, Kind.PAIRS_PUTTING])
def test_deleted_throttles_are_reinstated_by_the_next_process_too(
    start: Start, after: Kind
) -> None:
    run = a_long_run(start)
    delete(run.client, B3, FOLLOWER_RATE)
    delete(run.client, T, FOLLOWER_LIST)
    run.until(
        lambda step: run.journal.records()[-1].kind is after or isinstance(step, ReinstatePairs)
    )
    run.restart_process()
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    assert own(run.client, T, FOLLOWER_LIST) == "0:3,1:3,2:3"
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) is None
    assert own(run.client, T, FOLLOWER_LIST) is None
