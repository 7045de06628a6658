"""What is asked of a run after something else was: the later word holds, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Run, Start, ask, cluster, plan_of, spend, submitted

from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.journal.replay import fold

TARGETS: dict[tuple[str, int], tuple[int, ...]] = {("t", p): (3, 2) for p in range(2)}


def begun(start: Start) -> Run:
    """Return a run of two batches, the first of which is in flight."""
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB)
    run = start(client, plan_of(client, TARGETS), batch_size=1)
    run.until(submitted)
    return run


def refusals(run: Run) -> list[str]:
    requests = [r.payload for r in run.journal.records() if r.kind is Kind.REQUEST]
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
def test_a_move_that_was_to_go_elsewhere_does_not_when_it_is_taken_out(
    start: Start, index: int, kind: str, phase: Phase, between: int
) -> None:
    run = begun(start)
    ask(run, "retarget", move=index, after=[4, 2])
    for _ in range(between):
        run.runner.advance()
    ask(run, kind, moves=[index])
    run.again()
    run.to_the_end()
    moves = run.runner.state.moves
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
def test_what_would_undo_a_cancel_or_a_rollback_is_refused(
    start: Start, taken_back_by: str, kind: str, payload: dict[str, Any], why: str
) -> None:
    run = begun(start)
    ask(run, "skip", moves=[1])
    spend(run, 2)
    ask(run, taken_back_by)
    ask(run, kind, **payload)
    run.again()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (1, 2), "t-1": (1, 2)}
    assert refusals(run) == [why]


def test_a_journal_that_took_such_a_request_up_tells_what_was_done(start: Start) -> None:
    """Earlier versions carried a retry out after a cancel: the same records fold to the same."""
    run = begun(start)
    ask(run, "skip", moves=[1])
    spend(run, 2)
    who = {"who": "ann", "host": "here"}
    run.journal.write(run.client.now, Kind.REQUEST, {**who, "kind": "cancel", "seq": 2})
    again = {**who, "kind": "retry", "seq": 3, "moves": [1]}
    run.journal.write(run.client.now, Kind.REQUEST, again)
    history = fold(run.journal.records())
    assert (history.cancel_requested, history.moves[1].batch) == (False, 2)
