"""What a run does next: `next_step(run, observed)`, a pure function over a table of rules.

The journal's fold and what the cluster shows decide everything, so a run that crashed goes on
where the two say it is. Nothing here talks to a cluster. Order and reasons are in
docs/explanation/runs.md.
"""

from __future__ import annotations

from collections.abc import Callable

from core.run.engine.cancellation import add_moves, cancel_moves
from core.run.engine.log_dir_moves import move_dirs
from core.run.engine.move_outcome import STOPPING, endings
from core.run.engine.run_completion import elect, finish, restore_retention, shorten_logs
from core.run.engine.submission import begin_next_batch, retry_submission
from core.run.journal.move_state import Phase
from core.run.journal.produce_latency import BaselineMeasurement
from core.run.journal.run_state import RunState
from core.run.steps import NoteBaseline, NoteEnded, Observation, Poll, Preflight, Step
from core.run.throttles.rules import (
    adjust_pairs,
    change_rates,
    note_drift,
    release_throttles,
    set_missing_throttles,
)

MEASURING = "measuring what producers wait, to compare with"
BEGUN = "what producers waited before the run is not known: it has begun"
Rule = Callable[[RunState, Observation], Step | None]


def preflight(run: RunState, _: Observation) -> Preflight | None:
    """What is to move is looked at once more before anything is written."""
    begun = run.preflight or run.stopped or run.cancel_requested
    return None if begun or not run.queued else Preflight()


def note_ended(run: RunState, observed: Observation) -> NoteEnded | None:
    """Moves have ended, or are not to begin."""
    ended = tuple(endings(run, observed))
    if not ended:
        return None
    changed = [e for e in ended if e.phase is Phase.FAILED and e.why in STOPPING]
    stop = f"{run.moves[changed[0].index].move.tp} {changed[0].why}" if changed else ""
    if changed and observed.balancer is not None:
        stop += f" ({observed.balancer}: pause it before going on)"
    return NoteEnded(ended, stop)


def measure_baseline(run: RunState, observed: Observation) -> NoteBaseline | Poll | None:
    """A run that adapts its rate first learns what producers wait, to compare with."""
    if not run.adapts_rate or run.measured is not None or not run.queued:
        return None
    if run.in_flight:
        return NoteBaseline(BaselineMeasurement({}, BEGUN))
    return Poll(MEASURING) if observed.measured is None else NoteBaseline(observed.measured)


RULES: tuple[Rule, ...] = (
    note_ended,
    preflight,
    cancel_moves,
    note_drift,
    set_missing_throttles,
    change_rates,
    adjust_pairs,
    move_dirs,
    restore_retention,
    release_throttles,
    add_moves,
    shorten_logs,
    retry_submission,
    measure_baseline,
    begin_next_batch,
    elect,
    finish,
)
"""The first that has a step is followed: clean up before going on, a cancel before both."""


def next_step(run: RunState, observed: Observation) -> Step:
    """Return what to do now."""
    return next(step for rule in RULES if (step := rule(run, observed)) is not None)
