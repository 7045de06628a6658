"""What is asked of a run, taken into its history: what is wanted of it changes, nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from next_step_help import history
from run_help import MB, Start, move

from core.run.journal.move_state import MoveRequest, Outcome, Phase
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.journal.requests import refusal, take
from core.run.journal.run_state import RunState
from core.run.reporting.documents import of_record
from core.run.reporting.event_text import run_requests

MOVES = [move("foo", p, (3, 2, 1), (0, 2, 1)) for p in range(4)]


def a_run() -> RunState:
    """Return a run of four moves: done, in flight, queued, failed."""
    past = history(*MOVES)
    phases = (Phase.DONE, Phase.SUBMITTED, Phase.QUEUED, Phase.FAILED)
    for m, phase in zip(past.moves, phases, strict=True):
        m.phase = phase
    return past


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        ("cancel", {}, {1: MoveRequest.CANCEL, 2: MoveRequest.CANCEL}),
        ("cancel", {"moves": [0, 1]}, {1: MoveRequest.CANCEL}),
        ("skip", {"moves": [0, 1, 2, 3]}, {2: MoveRequest.SKIP}),
        ("rollback", {}, {1: MoveRequest.CANCEL, 2: MoveRequest.CANCEL}),
    ],
    ids=["all that has not ended", "one move", "only queued ones", "what goes on"],
)
def test_request_applies_only_to_moves_that_can_still_follow_it(
    kind: str, payload: dict[str, Any], expected: dict[int, MoveRequest]
) -> None:
    past = a_run()
    take(past, kind, payload)
    requests = {index: m.request for index, m in enumerate(past.moves)}
    assert requests == dict.fromkeys(range(4), MoveRequest.CONTINUE) | expected
    all_of_it = kind == "cancel" and not payload
    assert (past.cancel_requested, past.rollback_requested) == (all_of_it, kind == "rollback")


def test_cancel_after_all_moves_have_ended_gives_up_configs_that_cannot_be_restored() -> None:
    past = a_run()
    take(past, "cancel", {})
    assert not past.leave_requested
    for m in past.moves:
        m.phase = Phase.CANCELLED
    take(past, "cancel", {"moves": None})
    assert past.leave_requested
    take(past, "rollback", {})
    assert not past.leave_requested, "what goes back may wait for what it has set"


def test_second_cancel_while_moves_are_cancelled_leaves_copies_but_no_throttle() -> None:
    past = a_run()
    take(past, "cancel", {})
    past.waiting = "foo-1 is not taken yet: it is asked again"
    take(past, "cancel", {})
    assert (past.leave_copies, past.leave_requested) == (True, False)
    take(past, "rollback", {})
    assert not past.leave_copies


@pytest.mark.parametrize("kind", ["resume", "rollback", "cancel"])
def test_pause_is_ended_by_resume_rollback_or_cancel(kind: str) -> None:
    past = a_run()
    take(past, "pause", {"floor": True})
    assert (past.paused, past.rate_control.floored) == (True, True)
    take(past, kind, {})
    assert (past.paused, past.rate_control.floored) == (False, False)


def test_retried_move_is_queued_after_all_other_moves_and_clears_the_stop() -> None:
    past = a_run()
    past.stopped = "foo-3 was changed by somebody else"
    past.moves[3].tries = 2
    take(past, "retry", {"moves": [0, 1, 3]})
    assert [m.phase for m in past.moves][3] is Phase.QUEUED
    assert (past.moves[3].batch, past.moves[3].tries, past.stopped) == (1, 0, "")
    assert past.moves[0].phase is Phase.DONE


def test_requested_rate_or_bounds_replace_the_rate_of_the_run() -> None:
    past = a_run()
    take(past, "throttle", {"rate_bytes_per_s": 7})
    assert (past.rate_bytes_per_s, past.rate_control.rate_bytes_per_s) == (7, 7)
    take(past, "throttle", {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 9}})
    assert past.rate_control.bounds == RateBounds(1, 9)


def test_retargeted_move_is_cancelled_first() -> None:
    past = a_run()
    take(past, "retarget", {"move": 1, "after": [5, 2, 1]})
    assert (past.moves[1].request, past.moves[1].retarget) == (MoveRequest.CANCEL, (5, 2, 1))
    take(past, "retarget", {"move": 0, "after": [5, 2, 1]})
    assert past.moves[0].retarget is None


@pytest.mark.parametrize(
    ("kind", "payload", "refused"),
    [
        ("dance", {}, "this trimtab does not know what it is to dance"),
        ("skip", {"moves": [9]}, "there is no move 9"),
        ("retarget", {"move": -1, "after": [1]}, "there is no move -1"),
        (
            "retarget",
            {"move": 0, "after": [-1]},
            "a broker's id is never negative, and each broker is named once",
        ),
        (
            "retarget",
            {"move": 0},
            "the request to retarget cannot be read: it needs a move's number and brokers' ids",
        ),
        ("throttle", {"rate_bytes_per_s": 0}, "0 bytes/s is no rate to go on at"),
        ("throttle", {"rate_bytes_per_s": -1}, "-1 bytes/s is no rate to go on at"),
        ("cancel", {"moves": [0]}, ""),
        ("pause", {}, ""),
    ],
)
def test_request_that_cannot_be_accepted_is_refused_with_a_sentence(
    kind: str, payload: dict[str, Any], refused: str
) -> None:
    assert refusal(a_run(), kind, payload) == refused


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("skip", {}),
        ("retry", {"moves": None}),
        ("skip", {"moves": [0.0]}),
        ("skip", {"moves": [True]}),
        ("skip", {"moves": 0}),
        ("skip", {"moves": ["0"]}),
        ("cancel", {"moves": {"t": 0}}),
        ("cancel", {"moves": 7}),
        ("cancel", {"moves": [[0]]}),
        ("retarget", {"move": 0}),
        ("retarget", {"move": 0.0, "after": [4, 2]}),
        ("retarget", {"move": 0, "after": [4, "2"]}),
        ("retarget", {"move": 0, "after": [4, 4]}),
        ("retarget", {"move": 0, "after": []}),
        ("retarget", {"move": 0, "after": [4, 2], "allow": "disk"}),
        ("retarget", {"move": 0, "after": [4, 2], "allow": [["disk"]]}),
        ("throttle", {}),
        ("throttle", {"rate_bytes_per_s": "fast"}),
        ("throttle", {"rate_bytes_per_s": 1.5}),
        ("throttle", {"auto": 5}),
        ("throttle", {"auto": {"least_bytes_per_s": MB}}),
        (
            "throttle",
            {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 2, "spare": [[1, "up", 3]]}},
        ),
        ("throttle", {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 2, "spare": 3}}),
        ("cancel", ["all"]),
        ("cancel", None),
        ("pause", "please"),
        ("dance", {}),
        ("skip", {"moves": [17]}),
    ],
)
def test_malformed_request_is_refused_and_the_run_continues(
    start: Start, kind: str, payload: Any
) -> None:
    run = start()
    run.journal.ask(run.client.now, kind, payload)
    waiting = run_requests((), run.journal.requests(), run.state)
    assert [request.kind for request in waiting] == [kind]
    assert run.to_the_end() is Outcome.DONE
    (taken,) = [r for r in run.journal.records() if r.kind is Kind.REQUEST]
    assert taken.payload["refused"]
    assert fold(run.journal.records()) == run.state
    assert [r.refused for r in run.view().requests] == [taken.payload["refused"]]
    (event,) = of_record(taken, run.state)
    assert (event["request"], event["who"]) == (kind, "?")


def test_journal_with_an_accepted_malformed_request_can_still_be_read(start: Start) -> None:
    run = start()
    taken = {"kind": "skip", "seq": 1, "who": "ann", "host": "here"}
    run.journal.write(run.client.now, Kind.REQUEST, taken)
    run.restart_process()
    assert run.to_the_end() is Outcome.DONE
