"""What the cluster refuses, hides or does not answer: said, compared, and never done twice."""

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
    answering,
    ask,
    cluster,
    refusing,
    spend,
    submitted,
    throttles,
    unreachable,
)

from core.cluster.configs import (
    FOLLOWER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Resource,
)
from core.cluster.kafka_errors import AllDeniedError, Fault
from core.cluster.metadata import TopicPartition
from core.run.engine.executor import Executor
from core.run.external.throttles import fetch_throttles
from core.run.journal.move_state import Outcome
from core.run.reporting.config_changes import changes
from core.run.reporting.report import report
from core.run.reporting.runs import with_throttles
from core.run.reporting.views import MoveStatus, RunStatus
from core.run.steps import Poll, Preflight, Submit
from core.units import format_rate

T = Resource.topic("t")


def test_topic_deleted_during_the_run_is_no_error(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    run.client.delete_topic("t")
    assert run.to_the_end(60) is Outcome.DONE
    assert [m.why for m in run.view().moves] == ["its topic was deleted"] * 2 + [""]
    assert all(FOLLOWER_RATE not in a for r, a in throttles(run.client).items() if r.name == "4")


def test_run_whose_topics_are_all_deleted_ends_incomplete_and_reports_why(start: Start) -> None:
    client = cluster(TWO)
    before = throttles(client)
    run = start(client, {("t", 0): (4, 2), ("t", 1): (2, 3)})
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
    client, without_t = cluster(TWO), cluster({"u": TWO["u"]}).describe_cluster()
    targets = {("u", 0): (4, 1, 2), ("t", 0): (4, 2)}
    run = start(client, targets, batch_size=batch_size)
    run.until(lambda step: isinstance(step, Submit))
    run.faulty.replaced["describe_cluster"] = lambda real: without_t
    run.faulty.replaced["describe_configs"] = lambda real, resources, names=None: (
        real(resources, names) | ({T: answer} if answer and T in resources else {})
    )
    run.until(lambda step: isinstance(step, Poll) and reason in step.waiting, 600)
    since = client.elapsed_seconds
    run.until(lambda _: client.elapsed_seconds > since + 60)
    assert run.view().state is RunStatus.WAITING
    assert reason in run.view().why
    run.faulty.replaced = {}
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "u-0": (4, 1, 2)}


def test_refused_partition_does_not_hold_up_the_other_moves(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)

    def refuse(real: Callable[..., Any], targets: dict[TopicPartition, Any]) -> Any:
        kept = {tp: target for tp, target in targets.items() if tp != ("t", 0)}
        refused = {TopicPartition("t", 0): Fault("INVALID_REPLICA_ASSIGNMENT", "no such broker")}
        return {**real(kept), **(refused if ("t", 0) in targets else {})}

    run.faulty.replaced["alter_reassignments"] = refuse
    run.restores(Outcome.INCOMPLETE)
    assert [m.state for m in run.view().moves] == [
        MoveStatus.FAILED,
        MoveStatus.DONE,
        MoveStatus.DONE,
    ]
    assert "INVALID_REPLICA_ASSIGNMENT" in run.view().moves[0].why


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrives", "it is lost"])
def test_unanswered_submission_is_verified_and_repeated_only_if_it_was_lost(
    start: Start, arrives: bool
) -> None:
    run = start(cluster(TWO), TARGETS)
    sent: list[int] = []

    def lose(real: Callable[..., Any], targets: Any) -> Any:
        sent.append(len(targets))
        if len(sent) > 1:
            return real(targets)
        if arrives:
            real(targets)
        return unreachable()

    run.faulty.replaced["alter_reassignments"] = lose
    assert run.runner.run() is Outcome.DONE
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3), "u-0": (3, 1, 2)}
    assert sent == ([3] if arrives else [3, 3])


def deaf(real: Callable[..., Any], changes: Any) -> Any:
    heard = [change for change in changes if change.name != FOLLOWER_RATE]
    return real(heard) if heard else {}


@pytest.mark.parametrize(
    ("alter_configs", "why"),
    [(deaf, "do not read back"), (refusing(Resource.broker(4)), "POLICY_VIOLATION")],
    ids=["do not read back", "refused"],
)
def test_throttles_that_cannot_be_set_are_undone_and_nothing_is_submitted(
    start: Start, alter_configs: Callable[..., Any], why: str
) -> None:
    run = start(cluster(TWO), TARGETS)
    run.faulty.replaced["alter_configs"] = alter_configs
    run.restores(Outcome.FAILED)
    assert why in run.view().why
    assert "alter_reassignments" not in run.faulty.calls


@pytest.mark.parametrize("theirs", [None, "44444444"], ids=["deleted", "raised"])
def test_a_rate_that_somebody_changes_right_after_it_was_set_is_set_once_more(
    start: Start, theirs: str | None
) -> None:
    """Seen on real brokers: the run had ended at once, and left its other moves undone."""
    run = start(cluster(TWO), TARGETS)
    changed: list[ConfigChange] = []

    def overtaken(real: Callable[..., Any], changes: Any) -> Any:
        answer = real(changes)
        rates = [change for change in changes if change.name == FOLLOWER_RATE]
        if rates and not changed:
            op = ConfigOp.DELETE if theirs is None else ConfigOp.SET
            changed.append(ConfigChange(rates[0].resource, FOLLOWER_RATE, op, theirs))
            run.client.alter_configs(changed)
        return answer

    run.faulty.replaced["alter_configs"] = overtaken
    assert run.to_the_end() is Outcome.DONE
    resource = changed[0].resource
    if theirs is not None:
        run.found[resource] |= {FOLLOWER_RATE: ConfigValue(theirs, ConfigSource.BROKER)}
    assert throttles(run.client) == run.found


@pytest.mark.parametrize("resource", [T, Resource.broker(4)], ids=["list", "rate"])
def test_throttle_that_cannot_be_put_back_is_reported_and_retried_at_long_intervals(
    start: Start, resource: Resource
) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced["alter_configs"] = refusing(resource)
    run.until(lambda _: "POLICY_VIOLATION" in run.state.waiting)
    records, since = len(run.journal.records()), run.client.elapsed_seconds
    run.until(lambda _: run.client.elapsed_seconds > since + 300)
    assert "POLICY_VIOLATION" in run.view().why
    assert run.view().state is RunStatus.WAITING
    assert len(run.journal.records()) - records < 10
    run.faulty.replaced = {}
    run.restores(Outcome.DONE, 60)


def test_throttle_that_cannot_be_put_back_holds_up_no_move_and_no_other_throttle(
    start: Start,
) -> None:
    targets = {("t", 0): (4, 2), ("u", 0): (2, 5)}
    run = start(cluster({"t": [(1, 2)], "u": [(2, 3)]}), targets, batches=((0,), (1,)))
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced["alter_configs"] = refusing(T)
    run.until(lambda _: [m.state for m in run.view().moves] == [MoveStatus.DONE] * 2)
    run.until(lambda _: len(run.state.throttles.rates) == 0)
    assert run.view().state is RunStatus.WAITING
    assert "topic t cannot be put back: POLICY_VIOLATION" in run.view().why
    assert {r for r, configs in throttles(run.client).items() if configs != run.found[r]} == {T}
    run.faulty.replaced = {}
    run.restores(Outcome.DONE, 60)


def _most(rate: int) -> Callable[..., Any]:
    """A broker whose policy for configs refuses rates above this one."""

    def refuse(real: Callable[..., Any], changes: list[ConfigChange]) -> Any:
        over = {
            c.resource
            for c in changes
            if c.op is ConfigOp.SET and c.name == FOLLOWER_RATE and int(c.value) > rate
        }
        answers = real([c for c in changes if c.resource not in over])
        return answers | dict.fromkeys(over, Fault("POLICY_VIOLATION", "no more than that"))

    return refuse


def test_refused_rate_increase_is_given_up_and_blocks_no_later_rate_change(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 4}, size_bytes=2000 * MB)
    before, faulty = throttles(client), Faulty(client)
    targets = {("t", p): (4, 2) for p in range(4)}
    run = start(client, targets, through=faulty, batch_size=2)
    run.until(submitted)
    faulty.replaced["alter_configs"] = _most(100 * MB)

    def rate() -> int:
        return int(throttles(client)[Resource.broker(4)][FOLLOWER_RATE].value or 0)

    ask(run, "throttle", rate_bytes_per_s=500 * MB)
    spend(run, 60)
    risen = rate()
    assert 10 * MB < risen <= 100 * MB
    (event_text,) = [e.text for e in run.view().events if "throttles kept" in e.text]
    assert "POLICY_VIOLATION" in event_text
    assert f"b4 follower {format_rate(risen)}, not " in event_text
    ask(run, "throttle", rate_bytes_per_s=2 * MB)
    spend(run, 5)
    assert rate() == 2 * MB
    ask(run, "pause", floor=True)
    spend(run, 5)
    assert rate() == 1
    ask(run, "resume")
    ask(run, "throttle", rate_bytes_per_s=90 * MB)
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client) == before
    config_changes = changes(run.journal.records(), run.state)
    during = [int(v) for c in config_changes if c.config == FOLLOWER_RATE for v in c.during]
    assert max(during) <= 100 * MB


def test_unanswered_rate_increase_is_superseded_by_a_lower_rate_requested_later(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    before, faulty = throttles(client), Faulty(client)
    run = start(client, {("t", 0): (4, 2)}, through=faulty)
    run.until(submitted)
    faulty.replaced["alter_configs"] = answering("REQUEST_TIMED_OUT")
    ask(run, "throttle", rate_bytes_per_s=500 * MB)
    spend(run, 30)
    set_to: list[int] = []

    def noted(real: Callable[..., Any], changes: list[ConfigChange]) -> Any:
        set_to.extend(int(c.value) for c in changes if c.name == FOLLOWER_RATE)
        return real(changes)

    ask(run, "throttle", rate_bytes_per_s=2 * MB)
    spend(run, 30)
    faulty.replaced["alter_configs"] = noted
    spend(run, 30)
    assert set_to
    assert max(set_to) == 2 * MB
    faulty.replaced = {}
    ask(run, "throttle", rate_bytes_per_s=90 * MB)
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client) == before


@pytest.mark.parametrize("hidden", ["lists", "all"])
def test_topic_denied_in_mid_run_holds_up_only_its_own_throttle_lists(
    start: Start, hidden: str
) -> None:
    """A real client raises where all that one call asks for is denied: one topic, mostly."""
    client = cluster({"t": [(1, 2)], "u": [(2, 3)]})
    before, faulty = throttles(client), Faulty(client)
    targets = {("t", 0): (4, 2), ("u", 0): (2, 5)}
    run = start(client, targets, through=faulty, batches=((0,), (1,)))
    run.until(lambda step: isinstance(step, Poll))
    denied = {"alter_configs", "fetch_list_entries"} | (
        {"describe_configs"} if hidden == "all" else set()
    )
    for call in denied:
        faulty.replaced[call] = _denying(T)
    run.until(lambda _: [m.state for m in run.view().moves] == [MoveStatus.DONE] * 2, 600)
    run.until(lambda _: len(run.state.throttles.rates) == 0, 60)
    assert "topic t cannot be put back: TOPIC_AUTHORIZATION_FAILED" in run.view().why
    assert {r for r, configs in throttles(client).items() if configs != before[r]} == {T}
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert run.view().why.endswith("it is left")


def _denying(topic: Resource) -> Callable[..., Any]:
    """Answer as KafkaClient does: a fault for what is denied, an error where that is all."""

    def deny(real: Callable[..., Any], arguments: list[Any], *names: Any) -> Any:
        fault = Fault("TOPIC_AUTHORIZATION_FAILED", "no")
        refused = [argument for argument in arguments if _touched(argument) == topic]
        if refused and len(refused) == len(arguments):
            raise AllDeniedError(fault, "ALTER_CONFIGS")
        answers = real([argument for argument in arguments if argument not in refused], *names)
        keys = (topic if isinstance(argument, ConfigChange) else argument for argument in refused)
        return answers | dict.fromkeys(keys, fault)

    return deny


def _touched(argument: Any) -> Resource:
    if isinstance(argument, ConfigChange):
        return argument.resource
    return argument if isinstance(argument, Resource) else argument[0]


def test_replica_reorder_needs_no_right_to_read_configs(start: Start) -> None:
    run = start(cluster({"t": [(1, 2, 3)]}), {("t", 0): (3, 1, 2)})
    run.faulty.replaced["describe_configs"] = _denying(T)
    assert run.runner.run() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 1, 2)}


def test_cancel_leaves_a_throttle_that_can_never_be_put_back_and_reports_it(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (4, 2)})
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced["alter_configs"] = refusing(T)
    run.until(lambda _: "a cancel leaves it" in run.view().why)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert "topic t cannot be put back: POLICY_VIOLATION" in run.view().why
    assert run.view().why.endswith("it is left")
    left = run.view(living=False).leftovers
    assert left is not None
    assert {entry[0] for entry in left.lists} == {"t"}


def test_second_cancel_still_retries_throttles_that_are_refused_for_a_moment(
    start: Start,
) -> None:
    run = start(cluster({"t": [(1, 2)]}, size_bytes=2000 * MB), {("t", 0): (4, 2)})
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced["cancel_reassignments"] = answering("REQUEST_TIMED_OUT")
    run.cancel()
    run.until(lambda _: "REQUEST_TIMED_OUT" in run.state.waiting)
    run.cancel()
    del run.faulty.replaced["cancel_reassignments"]
    run.faulty.replaced["alter_configs"] = refusing(T)
    run.until(lambda _: "POLICY_VIOLATION" in run.state.waiting)
    spend(run, 10)
    assert run.state.ended is None
    run.faulty.replaced.clear()
    run.restores(Outcome.CANCELLED, 60)


def _refusing(answers: list[Fault]) -> Callable[..., Any]:
    def refuse(real: Callable[..., Any], partitions: Any) -> Any:
        return dict.fromkeys(partitions, answers[0]) if answers else real(partitions)

    return refuse


def test_postponed_submission_is_reported_once_and_retried_less_and_less_often(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    faulty = Faulty(client)
    answers = [Fault("NOT_CONTROLLER", "not now")]
    faulty.replaced["alter_reassignments"] = _refusing(answers)
    run = start(client, {("t", 0): (1, 3)}, through=faulty)
    run.until(lambda step: isinstance(step, Poll) and bool(step.waiting))
    assert run.view().why == "t-0 is not taken yet (NOT_CONTROLLER: not now): it is asked again"
    assert run.view().state is RunStatus.WAITING
    run.until(lambda _: client.elapsed_seconds > 300)
    assert 6 <= faulty.calls.count("alter_reassignments") <= 16
    assert [e.text for e in run.view().events].count(run.view().why) == 1
    answers.clear()
    assert run.to_the_end(120) is Outcome.DONE
    assert run.view().moves[0].why == ""


def test_run_that_gives_up_reports_the_moves_and_throttles_it_left(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced["fetch_reassignments"] = unreachable
    run.runner = Executor(run.journal, run.through, run.client.clock, patience_seconds=0)
    assert run.runner.run() is Outcome.INCOMPLETE
    left = run.view(living=False).leftovers
    assert left is not None
    assert set(left.moves) == set(run.client.fetch_reassignments())
    assert {entry[0] for entry in left.lists} == {"t"}
    assert {rate.broker for rate in left.rates} == {1, 2, 3, 4}
    assert "It left in the cluster:" in report(run.look(living=False))
    state = run.client.describe_cluster()
    (known,) = with_throttles(state.cluster_id)
    ours = [t for t in fetch_throttles(run.client, state, [known]).throttles if t.run is not None]
    assert {t.run for t in ours} == {known.state.run_id}
    assert "which gave up" in ours[0].why
