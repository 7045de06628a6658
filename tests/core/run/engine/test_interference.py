"""What befalls a run on a simulated cluster while it works, and what it makes of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from next_step_help import MOVE, history, observed
from run_help import (
    MB,
    Faulty,
    Start,
    ask,
    cluster,
    own,
    spend,
    submitted,
)

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.run.engine import run_completion as finishing
from core.run.engine.next_step import next_step
from core.run.journal.held_throttles import PairState
from core.run.journal.move_state import MoveRequest, Outcome, Phase
from core.run.journal.throttle_values import entries
from core.run.reporting.views import MoveStatus
from core.run.steps import (
    Cancel,
    Ending,
    NoteEnded,
    Poll,
    ReinstatePairs,
    Reorder,
    Submit,
    SuspendPairs,
)

T, B3 = Resource.topic("t"), Resource.broker(3)
TP = TopicPartition("t", 0)


# -- a follower that falls out of step ------------------------------------------------------------


@pytest.mark.parametrize("dies", [False, True], ids=["", "and the process dies meanwhile"])
def test_leader_is_out_of_the_leader_throttle_list_until_the_isr_is_complete(
    start: Start, dies: bool
) -> None:
    run = start(
        cluster({"t": [(1, 2)]}, size_bytes=400 * MB, in_bytes_per_s={TP: 2.0 * MB}),
        {("t", 0): (1, 2, 3)},
        rate=8 * MB,
        allow={"rf-change"},
    )
    run.until(submitted)
    run.client.stop_broker(2)
    spend(run, 20)
    run.client.start_broker(2)
    run.until(lambda step: isinstance(step, SuspendPairs))
    assert entries(own(run.client, T, LEADER_LIST)) == {"0:2", "0:3"}
    if dies:
        run.restart_process()
    assert set(run.state.throttles.away.values()) == {PairState.TAKEN}
    run.until(lambda step: isinstance(step, ReinstatePairs))
    assert entries(own(run.client, T, LEADER_LIST)) == {"0:1", "0:2", "0:3"}
    state = run.client.describe_cluster()
    assert 2 in state.row(state.find(TP) or 0).isr
    run.restores(Outcome.DONE)


# -- moves overridden in place --------------------------------------------------------------------


def test_move_adding_and_removing_the_same_broker_is_reported_to_need_a_cancel() -> None:

    stale = Reassignment((2, 1, 3, 0), (0,), (3, 0))
    seen = observed((2, 1, 3, 0), (2, 1, 3, 0), listed=stale, steady=60)
    past = history(MOVE, phase=Phase.SUBMITTED)
    step = next_step(past, seen)
    assert isinstance(step, Poll)
    assert step.waiting == "foo-1 was overridden in place and never ends by itself: cancel it"
    past.moves[0].request = MoveRequest.CANCEL
    assert next_step(past, seen) == Cancel((0,))
    past.moves[0].cancel_intended = past.moves[0].cancel_sent = True
    grown = observed((2, 1, 3, 0), (2, 1, 3), steady=60)
    assert next_step(past, grown) == Reorder((0,))
    assert next_step(past, observed((3, 2, 1), steady=3)) == NoteEnded(
        (Ending(0, Phase.CANCELLED, "cancelled, order as before", 3),)
    )


def test_a_submission_without_an_answer_is_not_taken_for_cancelled_at_once() -> None:

    past = history(MOVE, phase=Phase.SUBMITTING)
    past.moves[0].request = MoveRequest.CANCEL
    assert isinstance(next_step(past, observed((3, 2, 1), steady=5)), Poll)
    assert isinstance(next_step(past, observed((3, 2, 1), steady=16)), NoteEnded)


# -- disks ----------------------------------------------------------------------------------------


def _failing_on(broker: int) -> Callable[..., Any]:
    def failing(real: Callable[..., Any], brokers: Any) -> Any:
        return tuple(
            replace(
                answer,
                log_dirs=tuple(replace(d, error="KAFKA_STORAGE_ERROR") for d in answer.log_dirs),
                replicas=(),
            )
            if answer.broker == broker
            else answer
            for answer in real(brokers)
        )

    return failing


def test_failing_log_dir_is_reported_and_no_further_batch_goes_there(start: Start) -> None:

    run = start(count=2, size_bytes=100 * MB, batch_size=1)
    run.until(submitted)
    run.faulty.replaced["describe_log_dirs"] = _failing_on(3)
    run.until(lambda step: "of broker 3 fails (KAFKA_STORAGE_ERROR)" in run.state.waiting)
    spend(run, 60)
    assert [m.tries for m in run.state.moves] == [1, 0]
    run.cancel()
    assert run.to_the_end() is not Outcome.DONE


def test_repaired_log_dir_is_noticed_though_no_move_is_in_flight_there(
    start: Start,
) -> None:

    targets: dict[tuple[str, int], tuple[int, ...]] = {("t", 0): (3, 2), ("t", 1): (3, 2)}
    run = start(cluster({"t": [(1, 2)] * 2}, size_bytes=100 * MB), targets, batch_size=1)
    run.until(submitted)
    run.faulty.replaced["describe_log_dirs"] = _failing_on(3)
    run.until(lambda step: "of broker 3 fails (KAFKA_STORAGE_ERROR)" in run.state.waiting)
    ask(run, "cancel", moves=[0])
    run.until(lambda step: run.state.moves[0].phase is Phase.CANCELLED)
    spend(run, 30)
    assert run.state.moves[1].phase is Phase.QUEUED
    del run.faulty.replaced["describe_log_dirs"]
    assert run.to_the_end() is Outcome.INCOMPLETE
    assert run.replicas() == {"t-0": (1, 2), "t-1": (3, 2)}


# -- around a run ---------------------------------------------------------------------------------


def test_preferred_leaders_are_elected_at_the_end_when_requested(start: Start) -> None:
    run = start(cluster({"t": [(1, 2), (2, 1)]}), {("t", 0): (2, 1), ("t", 1): (1, 3)}, elect=True)
    assert run.to_the_end() is Outcome.DONE
    state = run.client.describe_cluster()
    assert [int(state.leader[state.find(TopicPartition("t", p)) or 0]) for p in (0, 1)] == [2, 1]
    assert run.state.ended_why == ""


def test_no_leader_is_elected_while_the_run_is_paused(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (2, 1)}, elect=True)
    run.until(submitted)
    ask(run, "pause")
    spend(run, 30)
    assert run.state.waiting == "paused, as asked: leaders are not elected yet"
    assert run.client.describe_cluster().leader[0] == 1
    ask(run, "resume")
    assert run.to_the_end() is Outcome.DONE
    assert run.client.describe_cluster().leader[0] == 2


def test_every_leader_election_is_tried_once_before_refused_ones_are_retried(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lots follow one another a second apart; only a whole round without success waits longer."""
    monkeypatch.setattr(finishing, "MAX_ELECTED_AT_ONCE", 2)
    faulty = Faulty(cluster({"t": [(1, 2)] * 5}))
    client = faulty.client
    asked: list[tuple[float, int]] = []

    def refuse(real: Any, tps: Any, *more: Any) -> Any:
        asked.append((client.elapsed_seconds, len(tps)))
        return {tp: Fault("PREFERRED_LEADER_NOT_AVAILABLE") for tp in tps}

    faulty.replaced["elect_leaders"] = refuse
    run = start(client, {("t", p): (2, 1) for p in range(5)}, through=faulty, elect=True)
    assert run.to_the_end(300) is Outcome.DONE
    why = "the preferred leader of t-0 and 4 more was not elected"
    assert run.view().why == why
    assert run.view().events[-1].text.endswith(f"; throttles as found; {why}")
    assert not run.view().events[-2].text.startswith("goes on")
    assert [n for _, n in asked] == [2, 2, 1] * finishing.MAX_ELECTIONS
    gaps = [round(later - at) for (at, _), (later, _) in pairwise(asked)]
    assert gaps == ([1, 1, 5] * finishing.MAX_ELECTIONS)[:-1]


def test_broker_that_died_but_is_not_yet_shown_as_down_does_not_end_the_run(start: Start) -> None:
    """Its configs time out until it is fenced: the next batch waits for that."""
    run = start(
        cluster({"t": [(1, 2), (1, 2)]}), {("t", 0): (1, 3), ("t", 1): (1, 4)}, batch_size=1
    )
    run.until(lambda step: isinstance(step, Submit))
    b2, since = Resource.broker(2), run.client.elapsed_seconds
    run.faulty.replaced["describe_configs"] = lambda real, resources, names=None: (
        real(resources, names) | ({b2: Fault("REQUEST_TIMED_OUT")} if b2 in resources else {})
        if run.client.elapsed_seconds < since + 15
        else real(resources, names)
    )
    run.restores(Outcome.DONE)


def test_move_whose_log_dir_fails_reports_the_failure_at_once(start: Start) -> None:
    """Its replica vanishes from the broker's answer: its bytes are those last known."""
    run = start(cluster({"t": [(1, 2)]}, size_bytes=300 * MB), {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll) and run.client.elapsed_seconds > 10)
    (log,) = run.client.describe_log_dirs([3])[0].replicas
    run.client.fill_disk(3, log.log_dir)
    since = run.client.elapsed_seconds
    run.until(lambda step: isinstance(step, Poll) and run.client.elapsed_seconds > since + 10)
    (move,) = run.view().moves
    assert move.state is MoveStatus.STUCK
    assert move.why == f"log dir {log.log_dir} of broker 3 fails (KAFKA_STORAGE_ERROR)"
    assert "cancel or retarget it" in run.view().why
