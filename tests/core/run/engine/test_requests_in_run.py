"""What a run is asked for while it works, on a simulated cluster: done, and all left as found."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.configs import FOLLOWER_RATE, LEADER_RATE, Resource
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError, UnreachableError, UsageError
from core.run.control import request
from core.run.journal.move_state import Outcome, Phase, Role
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.steps import Cancel, ChangeRates, NoteEnded, Step
from core.units import UNLIMITED

FOUR = {"t": [(1, 2)] * 4}
TARGETS: dict[tuple[str, int], tuple[int, ...]] = {("t", p): (3, 2) for p in range(4)}
DEST = (3, FOLLOWER_RATE)


def value(client: SimulatedCluster, broker: int, name: str) -> str | None:
    config = throttles(client)[Resource.broker(broker)].get(name)
    return config.value if config else None


# -- pause ----------------------------------------------------------------------------------------


def test_pause_lets_moves_in_flight_finish_and_starts_no_further_move(start: Start) -> None:
    run = start(count=4, batch_size=1)
    run.until(submitted)
    ask(run, "pause", floor=False)
    spend(run, 120)
    assert run.phases == [Phase.DONE, *[Phase.QUEUED] * 3]
    assert run.state.waiting == "paused, as asked"
    run.restart_process()
    spend(run, 30)
    assert run.phases.count(Phase.QUEUED) == 3
    ask(run, "resume")
    run.restores(Outcome.DONE)


def test_floor_pause_limits_only_destinations_and_resume_raises_the_rate_by_tenths(
    start: Start,
) -> None:
    run = start(count=4, size_bytes=100 * MB, rate=5 * MB)
    run.until(submitted)
    spend(run, 5)
    ask(run, "pause", floor=True)
    run.until(lambda step: isinstance(step, ChangeRates))
    assert value(run.client, *DEST) == "1"
    assert value(run.client, 1, LEADER_RATE) == "5000000"
    moved = run.view().moved_bytes
    spend(run, 60)
    assert run.view().moved_bytes - moved < 6 * 4.2 * MB, "one round of fetches a window, no more"
    ask(run, "resume")
    run.until(lambda step: isinstance(step, ChangeRates))
    assert int(value(run.client, *DEST) or 0) <= 500_001
    run.until(lambda step: value(run.client, *DEST) == "5000000")
    run.restores(Outcome.DONE)


def test_pause_does_not_hold_up_a_cancel(start: Start) -> None:
    run = start(count=4, batch_size=2)
    run.until(submitted)
    ask(run, "pause", floor=True)
    spend(run, 3)
    run.cancel()
    run.restores(Outcome.CANCELLED)
    assert set(run.replicas().values()) == {(1, 2)}


# -- rates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [False, True], ids=["", "and the process dies meanwhile"])
@pytest.mark.parametrize("rate", [2 * MB, 10 * MB], ids=["slower", "faster"])
def test_lower_rate_applies_at_once_and_a_higher_rate_step_by_step(
    start: Start, rate: int, dies: bool
) -> None:
    run = start(count=4, size_bytes=100 * MB, rate=5 * MB)
    run.until(submitted)
    ask(run, "throttle", rate_bytes_per_s=rate)
    run.until(lambda step: isinstance(step, ChangeRates))
    if dies:
        run.restart_process()
    run.until(
        lambda step: value(run.client, 1, LEADER_RATE) == value(run.client, *DEST) == str(rate)
    )
    changes = run.payloads(Kind.RATES_CHANGING)
    rates = [5 * MB, *(p["rates"][0]["rate_bytes_per_s"] for p in changes)]
    assert (len(changes) == 1) == (rate < 5 * MB)
    assert all(b - a <= rate / 10 + 1 for a, b in pairwise(rates))
    assert all(p["why"] for p in changes)
    run.restores(Outcome.DONE)


def test_a_rate_is_not_raised_above_what_somebody_else_had_set(start: Start) -> None:
    client = cluster(FOUR, size_bytes=100 * MB)
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "7000000")
    run = start(client, TARGETS, rate=5 * MB)
    run.until(submitted)
    ask(run, "throttle", rate_bytes_per_s=20 * MB)
    spend(run, 20)
    assert value(client, *DEST) == "7000000"
    assert value(client, 1, LEADER_RATE) == "20000000"
    run.restores(Outcome.DONE)


def test_a_run_without_a_limit_can_be_given_one(start: Start) -> None:
    run = start(count=4, size_bytes=4000 * MB, rate=UNLIMITED)
    run.until(submitted)
    assert value(run.client, *DEST) is None
    ask(run, "pause", floor=True)
    ask(run, "throttle", rate_bytes_per_s=50 * MB)
    spend(run, 3)
    refused = [p.get("refused") for p in run.payloads(Kind.REQUEST)]
    assert refused == ["an unlimited run has no throttle to lower: give it one first", None]
    assert value(run.client, *DEST) == "50000000"
    run.restores(Outcome.DONE)


# -- single moves ---------------------------------------------------------------------------------


def test_one_move_is_cancelled_and_the_other_moves_go_on(start: Start) -> None:
    targets = {("t", 0): (2, 3), ("t", 1): (2, 3), ("t", 2): (3, 2)}
    run = start(cluster({"t": [(1, 2), (2, 1), (1, 2)]}), targets, batch_size=2)
    run.until(submitted)
    ask(run, "cancel", moves=[0])
    run.restores(Outcome.INCOMPLETE)
    assert run.state.ended_why == "t-0 was cancelled, as asked"
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 3), "t-2": (3, 2)}


def test_a_skipped_move_is_not_begun_and_the_run_is_done(start: Start) -> None:
    run = start(count=4, batch_size=1)
    run.until(submitted)
    ask(run, "skip", moves=[0, 2])
    run.restores(Outcome.DONE)
    assert run.phases == [Phase.DONE, Phase.DONE, Phase.SKIPPED, Phase.DONE]
    assert run.state.ended_why == "1 skipped, as asked"


def test_cancelled_or_skipped_moves_are_retried_at_the_end(start: Start) -> None:
    run = start(count=4, batch_size=1)
    run.until(submitted)
    ask(run, "cancel", moves=[0])
    ask(run, "skip", moves=[1])
    run.until(lambda step: run.phases[:2] == [Phase.CANCELLED, Phase.SKIPPED])
    ask(run, "retry", moves=[0, 1])
    run.restores(Outcome.DONE)
    assert set(run.replicas().values()) == {(3, 2)}
    assert [m.batch for m in run.state.moves] == [4, 5, 2, 3]


def test_a_move_is_retargeted_when_its_destination_has_died(start: Start) -> None:
    run = start(cluster({"t": [(1, 2), (1, 2)]}), {("t", 0): (3, 2), ("t", 1): (4, 2)})
    run.until(submitted)
    run.client.stop_broker(3)
    spend(run, 15)
    ask(run, "retarget", move=0, after=[5, 2])
    run.until(lambda step: len(run.state.moves) == 3)
    added = run.state.moves[2]
    assert (added.role, added.instead_of, added.move.after) == (Role.RETARGET, 0, (5, 2))
    run.until(lambda step: run.state.moves[2].phase is Phase.DONE)
    run.client.start_broker(3)
    run.restores(Outcome.DONE)
    assert run.replicas() == {"t-0": (5, 2), "t-1": (4, 2)}


@pytest.mark.parametrize(
    ("after", "why"),
    [([6, 2], "Broker 6 is down"), ([9, 2], "Broker 9 does not exist"), ([4], "rf-change")],
    ids=["a broker that is down", "a broker that is none", "fewer replicas"],
)
def test_refused_retarget_does_not_cancel_the_move_or_discard_its_copy(
    start: Start, after: list[int], why: str
) -> None:
    run = start(size_bytes=100 * MB)
    run.until(submitted)
    run.client.stop_broker(6)
    spend(run, 10)
    ask(run, "retarget", move=0, after=after)
    run.runner.advance()
    (request,) = run.payloads(Kind.REQUEST)
    assert why in request["refused"]
    assert run.phases == [Phase.SUBMITTED]
    assert run.to_the_end() is Outcome.DONE
    assert Kind.CANCELLING not in run.kinds
    assert run.replicas() == {"t-0": (3, 2)}


def test_retarget_request_may_allow_the_check_that_would_refuse_it(start: Start) -> None:
    run = start(size_bytes=100 * MB)
    run.until(submitted)
    run.client.stop_broker(6)
    spend(run, 10)
    ask(run, "retarget", move=0, after=[6, 2], allow=["dead-broker"])
    run.until(lambda step: len(run.state.moves) == 2)
    assert "(despite dead-broker)" in run.view().requests[-1].what
    run.client.start_broker(6)
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (6, 2)}


@pytest.mark.parametrize(
    "error", [UnreachableError("Nobody answers."), AccessDeniedError("It says no.")]
)
def test_retarget_that_cannot_be_checked_is_refused_and_the_next_cancel_is_accepted(
    start: Start, error: Exception
) -> None:
    run = start(size_bytes=100 * MB)
    run.until(submitted)

    def fails(*_: object) -> None:
        raise error

    ask(run, "retarget", move=0, after=[4, 2])
    run.cancel()
    run.faulty.replaced["describe_cluster"] = fails
    with pytest.raises(type(error)):
        run.runner.advance()
    requests = run.payloads(Kind.REQUEST)
    assert [bool(p.get("refused")) for p in requests] == [True, False]
    assert str(error) in requests[0]["refused"]
    run.faulty.replaced.clear()
    assert run.to_the_end() is Outcome.CANCELLED


@pytest.mark.parametrize("other_moves", [0, 1])
def test_retarget_destination_that_dies_during_the_cancel_is_reported_at_the_end(
    start: Start, other_moves: int
) -> None:
    run = start(
        cluster({"t": [(1, 2)] * (1 + other_moves)}, size_bytes=100 * MB),
        {("t", p): (3, 2) for p in range(1 + other_moves)},
    )
    run.until(submitted)
    ask(run, "retarget", move=0, after=[6, 2])
    run.until(lambda step: isinstance(step, Cancel))
    run.client.stop_broker(6)
    run.client.advance(10)
    assert run.to_the_end() is (Outcome.INCOMPLETE if other_moves else Outcome.CANCELLED)
    assert "t-0: Refused by a check: dead-broker" in run.state.ended_why


def test_move_that_ended_before_it_could_be_retargeted_stays_done(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2), (1, 2)]}), {("t", 0): (3, 2), ("t", 1): (4, 2)}, batch_size=1
    )
    run.until(submitted)
    run.client.advance(60)
    ask(run, "retarget", move=0, after=[5, 2])
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 2), "t-1": (4, 2)}
    (added,) = run.payloads(Kind.MOVES_ADDED)
    assert added["refused"] == [[0, "it had moved before it could be taken elsewhere"]]


# -- back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_moves", range(5))
def test_rollback_after_any_number_of_moves_restores_the_original_replicas(
    start: Start, after_moves: int
) -> None:
    targets = {("t", 0): (3, 2), ("t", 1): (2, 4), ("t", 2): (2, 1), ("t", 3): (5, 6)}
    run = start(cluster({"t": [(1, 2), (2, 1), (1, 2), (2, 3)]}), targets, batch_size=1)
    original = run.replicas()
    run.until(lambda step: submitted(step) and run.kinds.count(Kind.MOVED) >= min(after_moves, 3))
    if after_moves == 4:
        run.until(lambda step: Phase.QUEUED not in run.phases and not run.state.in_flight)
    ask(run, "rollback")
    run.runner.advance()
    run.restart_process()
    run.restores(Outcome.CANCELLED)
    assert run.state.ended_why == "rolled back"
    assert run.replicas() == original


def test_rollback_of_a_retargeted_move_restores_its_original_replicas(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2), (1, 2)]}, size_bytes=40 * MB), {("t", 0): (3, 2), ("t", 1): (4, 2)}
    )
    run.until(submitted)
    ask(run, "retarget", move=0, after=[5, 2])
    run.until(lambda step: run.replicas()["t-0"] == (5, 2) and not run.state.in_flight)
    ask(run, "rollback")
    run.restores(Outcome.CANCELLED)
    assert run.replicas() == {"t-0": (1, 2), "t-1": (1, 2)}


def test_rollback_can_be_cancelled(start: Start) -> None:
    run = start(count=4, batch_size=2)
    run.until(lambda step: run.phases.count(Phase.DONE) == 2)
    ask(run, "rollback")
    run.until(lambda step: submitted(step) and run.state.rolling_back)
    run.cancel()
    run.restores(Outcome.INCOMPLETE)
    assert set(run.replicas().values()) <= {(1, 2), (3, 2)}


def test_requests_after_a_restart_are_carried_out_by_the_new_process(start: Start) -> None:
    run = start(count=4, batch_size=1)
    run.until(submitted)
    run.restart_process()
    ask(run, "skip", moves=[3])
    ask(run, "pause", floor=False)
    ask(run, "resume")
    assert run.to_the_end() is Outcome.DONE
    assert run.phases[3] is Phase.SKIPPED
    assert TopicPartition("t", 3) not in run.client.fetch_reassignments()


TWO_TARGETS: dict[tuple[str, int], tuple[int, ...]] = {("t", p): (3, 2) for p in range(2)}


def begun_twice(start: Start) -> Run:
    """Return a run of two batches, the first of which is in flight."""
    run = start(count=2, size_bytes=60 * MB, batch_size=1)
    run.until(submitted)
    return run


def refusals(run: Run) -> list[str]:
    requests = run.payloads(Kind.REQUEST)
    return [p["refused"] for p in requests if p.get("refused")]


@pytest.mark.parametrize(
    ("index", "kind", "phase", "between"),
    [
        (0, "cancel", Phase.CANCELLED, 0),
        (0, "cancel", Phase.CANCELLED, 1),
        (1, "cancel", Phase.CANCELLED, 0),
        (1, "skip", Phase.SKIPPED, 0),
    ],
    ids=["cancelled", "cancelled as it is taken back", "cancelled in the queue", "skipped"],
)
def test_retarget_is_dropped_when_its_move_is_then_cancelled_or_skipped(
    start: Start, index: int, kind: str, phase: Phase, between: int
) -> None:
    run = begun_twice(start)
    ask(run, "retarget", move=index, after=[4, 2])
    for _ in range(between):
        run.runner.advance()
    ask(run, kind, moves=[index])
    run.restart_process()
    run.to_the_end()
    moves = run.state.moves
    assert [m.phase for m in moves] == [phase if i == index else Phase.DONE for i in (0, 1)]
    assert run.replicas()[f"t-{index}"] == (1, 2)


OF_A_MOVE = [
    ("retarget", {"move": 0, "after": [4, 2]}),
    ("skip", {"moves": [1]}),
    ("retry", {"moves": [1]}),
]
OF_THE_RUN = [
    ("throttle", {"rate_bytes_per_s": 50 * MB}),
    ("pause", {"floor": True}),
]


@pytest.mark.parametrize(
    ("taken_back_by", "kind", "payload", "why"),
    [
        ("cancel", *asked, "the run is being cancelled: it is asked for nothing else")
        for asked in OF_A_MOVE + OF_THE_RUN
    ]
    + [
        ("rollback", *asked, "the run is being rolled back: its moves stay as they are")
        for asked in OF_A_MOVE
    ],
)
def test_request_that_would_undo_a_cancel_or_a_rollback_is_refused(
    start: Start, taken_back_by: str, kind: str, payload: dict[str, Any], why: str
) -> None:
    run = begun_twice(start)
    ask(run, "skip", moves=[1])
    spend(run, 2)
    ask(run, taken_back_by)
    ask(run, kind, **payload)
    run.restart_process()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (1, 2), "t-1": (1, 2)}
    assert refusals(run) == [why]


def test_journalled_retry_after_a_cancel_by_an_earlier_version_replays_as_carried_out(
    start: Start,
) -> None:
    """Earlier versions carried a retry out after a cancel: the same records fold to the same."""
    run = begun_twice(start)
    ask(run, "skip", moves=[1])
    spend(run, 2)
    who = {"who": "ann", "host": "here"}
    run.journal.write(run.client.now, Kind.REQUEST, {**who, "kind": "cancel", "seq": 2})
    again = {**who, "kind": "retry", "seq": 3, "moves": [1]}
    run.journal.write(run.client.now, Kind.REQUEST, again)
    history = fold(run.journal.records())
    assert (history.cancel_requested, history.moves[1].batch) == (False, 2)


def has_ended(step: Step) -> bool:
    return isinstance(step, NoteEnded)


def request_of(run: Run, kind: str, **payload: Any) -> None:
    history = run.state
    request(history.cluster_id, history.run_id, kind, payload)


def rolled_back(start: Start) -> Run:
    """Return a run of which a move back is in flight, and another is queued."""
    run = start(
        cluster({"t": [(1, 2)] * 3}, size_bytes=60 * MB),
        {("t", p): (1, 3) for p in range(3)},
        batch_size=1,
    )
    run.until(lambda step: run.state.moves[1].phase is Phase.DONE)
    request_of(run, "rollback")
    run.until(lambda step: submitted(step) and run.state.rolling_back)
    return run


def test_run_that_is_rolling_back_can_be_paused_slowed_and_resumed(start: Start) -> None:
    run = rolled_back(start)
    request_of(run, "throttle", rate_bytes_per_s=1 * MB)
    request_of(run, "pause")
    spend(run, 300)
    first, second = (m for m in run.state.moves if m.role is Role.ROLLBACK)
    assert (first.phase, second.phase) == (Phase.DONE, Phase.QUEUED)
    assert run.state.rate_bytes_per_s == 1 * MB
    request_of(run, "resume")
    assert run.to_the_end() is Outcome.CANCELLED
    assert set(run.replicas().values()) == {(1, 2)}


def test_failed_rollback_move_can_be_retried_and_no_other_move(start: Start) -> None:
    run = rolled_back(start)
    with pytest.raises(UsageError, match="being rolled back"):
        request_of(run, "retry", moves=[2])
    index = run.state.in_flight[0]
    run.client.cancel_reassignments([run.state.moves[index].move.tp])
    run.until(has_ended)
    assert run.state.stopped
    request_of(run, "retry", moves=[index])
    run.until(submitted)
    run.to_the_end()
    assert run.state.moves[index].phase is Phase.DONE


def test_move_that_stopped_the_run_can_be_retargeted(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}, size_bytes=600 * MB), {("t", 0): (1, 3)})
    run.until(submitted)
    spend(run, 3)
    run.client.cancel_reassignments([TopicPartition("t", 0)])
    run.until(has_ended)
    assert run.state.stopped
    request_of(run, "retarget", move=0, after=[1, 4])
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (1, 4)}


def two_batches(start: Start, client: SimulatedCluster) -> Run:
    run = start(client, {("t", p): (3, 2) for p in range(2)}, batch_size=1)
    run.until(submitted)
    return run


def test_move_that_a_retarget_has_replaced_cannot_be_retried(start: Start) -> None:
    run = two_batches(start, cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB))
    request_of(run, "retarget", move=1, after=[4, 2])
    run.until(lambda step: len(run.state.moves) == 3)
    with pytest.raises(UsageError, match="another move stands in for it"):
        request_of(run, "retry", moves=[1])
    assert run.to_the_end() is Outcome.DONE


def test_queued_move_whose_retarget_is_refused_keeps_its_planned_destination(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB)
    run = two_batches(start, client)
    client.stop_broker(6)
    client.advance(5)
    request_of(run, "retarget", move=1, after=[6, 2])
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 2), "t-1": (3, 2)}
    assert any("t-1 does not go elsewhere" in event.text for event in run.view().events)
