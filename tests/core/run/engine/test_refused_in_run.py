"""What a cluster refuses in mid-run rests for a while, and all else of the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from run_help import (
    MB,
    TARGETS,
    TWO,
    Faulty,
    Run,
    Start,
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

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError
from core.run.external.leftovers import fetch_leftovers
from core.run.external.throttles import fetch_throttles
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.journal.throttle_values import entries
from core.run.reporting.views import Leftovers
from core.run.steps import NoteEnded, Poll

T, U = Resource.topic("t"), Resource.topic("u")
TWO_TOPICS = {("t", 0): (1, 2, 3), ("u", 0): (4, 6)}


def start_submitted(start: Start, client: SimulatedCluster) -> Run:
    run = start(client, TWO_TOPICS, rate=8 * MB, allow={"rf-change"})
    run.until(submitted)
    return run


def other_move_is_given_back(run: Run) -> None:
    """Cancel the move that nothing is refused of: it must be undone and its throttles taken."""
    ask(run, "cancel", moves=[1])
    run.until(lambda _: run.state.moves[1].phase is Phase.CANCELLED, seconds=60)
    run.until(lambda _: own(run.client, U, LEADER_LIST) is None, seconds=30)
    assert run.state.moves[0].phase is Phase.SUBMITTED
    assert "POLICY_VIOLATION" in run.view().why


def test_throttle_list_pairs_that_cannot_be_put_back_hold_up_no_other_move(start: Start) -> None:
    run = start_submitted(start, cluster({"t": [(1, 2)], "u": [(4, 5)]}, size_bytes=3000 * MB))
    spend(run, 4)
    delete(run.client, T, LEADER_LIST)
    run.faulty.replaced["alter_configs"] = refusing(T)
    run.until(lambda _: "POLICY_VIOLATION" in run.state.waiting, seconds=60)
    other_move_is_given_back(run)
    run.faulty.replaced.clear()
    spend(run, 10)
    assert entries(own(run.client, T, LEADER_LIST)) == {"0:1", "0:2", "0:3"}
    run.cancel()
    run.to_the_end(120)
    assert throttles(run.client) == run.found


def test_leader_that_cannot_be_taken_out_of_its_throttle_list_holds_up_no_other_move(
    start: Start,
) -> None:
    written = {TopicPartition("t", 0): 2.0 * MB}
    layout = {"t": [(1, 2)], "u": [(4, 5)]}
    run = start_submitted(start, cluster(layout, size_bytes=3000 * MB, in_bytes_per_s=written))
    run.client.stop_broker(2)
    spend(run, 60)
    run.faulty.replaced["alter_configs"] = refusing(T)
    run.client.start_broker(2)
    run.until(lambda _: "POLICY_VIOLATION" in run.state.waiting, seconds=60)
    other_move_is_given_back(run)
    assert "0:1" in entries(own(run.client, T, LEADER_LIST))
    run.faulty.replaced.clear()
    run.until(lambda _: "0:1" not in entries(own(run.client, T, LEADER_LIST)), seconds=30)
    run.cancel()
    run.to_the_end(120)
    assert throttles(run.client) == run.found


@pytest.mark.parametrize("call", ["alter_configs", "alter_reassignments"])
def test_access_denied_by_the_cluster_fails_the_run_and_leaves_nothing_changed(
    start: Start, call: str
) -> None:
    run = start(cluster(TWO), TARGETS)
    denials: list[str] = []

    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if not denials:
            denials.append("no")
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    run.faulty.replaced[call] = deny
    assert run.runner.run() is Outcome.FAILED
    assert "The cluster says no" in run.view().why
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2, 3)}
    assert throttles(run.client) == run.found


@pytest.mark.parametrize(
    ("all_topics", "why"),
    [
        (True, "The cluster says no: TOPIC_AUTHORIZATION_FAILED."),
        (False, "reading the throttle of topic t failed: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_run_that_may_not_read_topic_throttles_fails_and_moves_nothing(
    start: Start, *, all_topics: bool, why: str
) -> None:
    client = cluster(TWO)
    before, faulty, hidden = throttles(client), Faulty(client), Resource.topic("t")

    def deny(real: Callable[..., Any], resources: Collection[Resource], *names: Any) -> Any:
        if all_topics and hidden in resources:
            raise AccessDeniedError("The cluster says no: TOPIC_AUTHORIZATION_FAILED.")
        fault = Fault("TOPIC_AUTHORIZATION_FAILED")
        return {r: fault if r == hidden else a for r, a in real(resources, *names).items()}

    faulty.replaced["describe_configs"] = deny
    run = start(client, TARGETS, through=faulty)
    assert run.runner.run() is Outcome.FAILED
    assert run.view().why == why
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2, 3)}
    assert throttles(client) == before


def denying_until(client: SimulatedCluster, until: float) -> Callable[..., Any]:
    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if client.elapsed_seconds < until:
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    return deny


@pytest.mark.parametrize("call", ["fetch_reassignments", "describe_cluster", "alter_configs"])
def test_run_whose_rights_were_revoked_goes_on_once_they_are_restored(
    start: Start, call: str
) -> None:
    """Ended, it would leave moves in flight under throttles that nobody puts back."""
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced[call] = denying_until(run.client, run.client.elapsed_seconds + 3600)
    assert run.runner.run() is Outcome.DONE
    assert run.client.elapsed_seconds > 3600
    assert throttles(run.client) == run.found
    (event_text,) = {e.text for e in run.view().events if e.text.startswith("The cluster says no")}
    assert event_text == (
        "The cluster says no: CLUSTER_AUTHORIZATION_FAILED: give the run's user its rights "
        "back and it goes on (a cancel leaves what it may not put back)"
    )


@pytest.mark.parametrize("call", ["alter_reassignments", "alter_configs"])
def test_batch_is_held_until_rights_revoked_after_the_first_batch_are_restored(
    start: Start, call: str
) -> None:
    run = start(count=3, batch_size=1)
    run.until(lambda step: isinstance(step, Poll))
    run.faulty.replaced[call] = denying_until(run.client, run.client.elapsed_seconds + 600)
    assert run.runner.run() is Outcome.DONE
    assert run.client.elapsed_seconds > 600
    assert throttles(run.client) == run.found
    assert any("rights back" in event.text for event in run.view().events)
    assert len(run.journal.records()) < 100, "what is waited for is said once"


def test_run_whose_rights_were_revoked_for_good_ends_when_it_is_cancelled(start: Start) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    denied = denying_until(run.client, 10**9)

    def denied_and_cancelled(real: Callable[..., Any], *args: Any) -> Any:
        if run.client.elapsed_seconds > 600 and not run.journal.requests():
            run.cancel()
        return denied(real, *args)

    run.faulty.replaced["fetch_reassignments"] = denied_and_cancelled
    assert run.runner.run() is Outcome.INCOMPLETE
    assert run.client.elapsed_seconds > 600
    assert "may be left" in run.view().why
    assert run.view().leftovers


def test_cancel_completes_after_rights_were_missing_for_a_moment(
    start: Start,
) -> None:
    run = start(cluster(TWO), TARGETS)
    run.until(lambda step: isinstance(step, Poll))
    run.cancel()
    run.until(lambda step: run.state.cancel_requested)
    run.faulty.replaced["fetch_reassignments"] = denying_until(
        run.client, run.client.elapsed_seconds + 60
    )
    assert run.runner.run() is Outcome.CANCELLED
    assert run.client.elapsed_seconds > 60
    assert throttles(run.client) == run.found
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (3, 1, 2)}


def test_unreadable_throttles_are_not_treated_as_absent() -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    secret = Resource.topic("t")
    set_config(client, secret, LEADER_LIST, "0:1")
    refused = {secret: Fault("TOPIC_AUTHORIZATION_FAILED", "no")}
    faulty.replaced["describe_configs"] = lambda real, resources, names: (
        real(resources, names) | {r: f for r, f in refused.items() if r in resources}
    )
    through: Any = faulty
    assert fetch_throttles(through, client.describe_cluster(), []) == ((), refused)


def test_unreadable_leftovers_are_not_treated_as_gone() -> None:
    client = cluster(TWO)
    faulty: Any = Faulty(client)
    refused = Fault("TOPIC_AUTHORIZATION_FAILED", "no")
    gone = Fault("UNKNOWN_TOPIC_OR_PARTITION")
    faulty.replaced["describe_configs"] = lambda real, resources, names: {
        r: refused if r.name == "t" else gone for r in resources
    }
    left = Leftovers(lists=(("t", "leader", ("0:1",)), ("u", "leader", ("0:1",))))
    assert fetch_leftovers(faulty, left).lists == (("t", "leader", ("0:1",)),)


TP = TopicPartition("t", 0)


def until_lost(start: Start, count: int = 1, **options: Any) -> Run:
    """Return a run whose submission is lost without an answer."""
    run = start(count=count, size_bytes=60 * MB, **options)
    put_off = dict.fromkeys((TopicPartition("t", p) for p in range(count)), Fault("TIMED_OUT"))
    run.faulty.replaced["alter_reassignments"] = lambda real, targets: put_off
    run.until(submitted)
    run.faulty.replaced.clear()
    return run


def test_lost_submission_is_not_repeated_once_the_run_is_stopped(start: Start) -> None:
    run = start(count=2, size_bytes=600 * MB)

    def half(real: Callable[..., Any], targets: Any) -> Any:
        other = TopicPartition("t", 1)
        return {
            **real({tp: targets[tp] for tp in targets if tp != other}),
            other: Fault("TIMED_OUT"),
        }

    run.faulty.replaced["alter_reassignments"] = half
    run.until(submitted)
    run.client.cancel_reassignments([TP])
    run.client.alter_reassignments({TP: (5, 6)})
    run.until(lambda step: isinstance(step, NoteEnded))
    assert run.state.stopped
    run.faulty.replaced.clear()
    run.faulty.calls.clear()
    assert run.to_the_end() is Outcome.FAILED
    assert "alter_reassignments" not in run.faulty.calls
    lost = run.state.moves[1]
    assert lost.phase is Phase.CANCELLED
    assert lost.why == "not started: t-0 was changed by somebody else"


def test_lost_submission_is_not_repeated_while_its_destination_is_down(start: Start) -> None:
    run = until_lost(start)
    run.client.stop_broker(3)
    run.faulty.calls.clear()
    spend(run, 60)
    assert "alter_reassignments" not in run.faulty.calls
    assert run.state.waiting == "broker 3 is down: no further batch starts"
    run.client.start_broker(3)
    assert run.to_the_end() is Outcome.DONE


def denied(real: Callable[..., Any], targets: Any) -> Any:
    raise AccessDeniedError("May not alter the cluster.")


def refused(real: Callable[..., Any], targets: Any) -> Any:
    return dict.fromkeys(targets, Fault("POLICY_VIOLATION"))


@pytest.mark.parametrize("answer", [denied, refused])
def test_refused_second_submission_does_not_hide_a_first_one_that_takes_effect_late(
    start: Start, answer: Callable[..., Any]
) -> None:
    run = until_lost(start)
    run.faulty.replaced["alter_reassignments"] = answer
    run.until(submitted)
    assert run.state.moves[0].phase is Phase.SUBMITTING
    spend(run, 5)
    run.client.alter_reassignments({TP: (3, 2)})
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 2)}


@pytest.mark.parametrize("answer", [denied, refused])
def test_refused_second_submission_fails_a_move_that_the_cluster_does_not_show(
    start: Start, answer: Callable[..., Any]
) -> None:
    run = until_lost(start)
    run.faulty.replaced["alter_reassignments"] = answer
    assert run.to_the_end(120) is Outcome.FAILED
    assert run.kinds.count(Kind.SUBMITTING) == 2
    assert run.state.moves[0].phase is Phase.FAILED
