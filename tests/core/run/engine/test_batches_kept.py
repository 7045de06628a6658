"""Batches that a plan was cut into stay apart when their moves go back, or are tried again."""

from __future__ import annotations

from run_help import MB, Run, Start, ask, cluster, plan_of

from core.run.journal.move_state import Outcome, Phase
from core.run.steps import Step, Submit

COUNT = 6


def begin(start: Start, *batches: tuple[int, ...]) -> Run:
    client = cluster({"t": [(1, 2)] * COUNT}, size_bytes=4 * MB)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(COUNT)})
    return start(client, plan, rate=1 * MB, batches=batches)


def submissions(run: Run) -> list[set[int]]:
    """Carry the run on to its end; return which partitions are submitted together."""
    found: list[set[int]] = []

    def seen(step: Step) -> bool:
        if isinstance(step, Submit):
            moves = run.runner.state.moves
            found.append({moves[index].move.tp.partition for index in step.moves})
        return run.runner.state.ended is not None

    run.until(seen)
    return found


def test_a_roll_back_goes_batch_by_batch_as_the_run_did(start: Start) -> None:
    run = begin(start, (0,), (1, 2), (3, 4), (5,))
    run.until(lambda step: run.runner.state.moves[4].phase is Phase.DONE)
    ask(run, "rollback")
    assert submissions(run) in ([{0}, {1, 2}, {3, 4}], [{0}, {1, 2}, {3, 4}, {5}])
    assert run.runner.state.ended is Outcome.CANCELLED
    assert set(run.replicas().values()) == {(1, 2)}


def test_what_is_tried_again_goes_batch_by_batch_as_it_was_to_go(start: Start) -> None:
    run = begin(start, (0,), (1, 2), (3, 4), (5,))
    ask(run, "skip", moves=[1, 2, 3, 5])
    run.until(lambda step: isinstance(step, Submit))
    ask(run, "retry", moves=[5, 1, 3, 2])
    again = submissions(run)
    assert run.runner.state.ended is Outcome.DONE
    assert again == [{4}, {1, 2}, {3}, {5}]
