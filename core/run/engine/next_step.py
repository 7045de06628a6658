"""What a run does next: `next_step(history, observed)`, a pure function over a table of rules.

The journal's fold and what the cluster shows decide everything, so a run that crashed goes on
where the two say it is. Nothing here talks to a cluster (docs/runs.md tells the order and why).
"""

from __future__ import annotations

from collections.abc import Callable

from core.run.engine.cancellation import add_moves, take_back
from core.run.engine.completion import elect, finish, restore_retention, shorten
from core.run.engine.endings import STOPPING, endings
from core.run.engine.log_dirs import move_dirs
from core.run.engine.submission import go_on, submit_again
from core.run.journal.fold import History, Phase
from core.run.journal.produce_latency import Measured
from core.run.steps import NoteEnded, NoteMeasured, Observed, Poll, Preflight, Step
from core.run.throttles.drift import catch_up, change_rates, move_pairs, note_disturbed
from core.run.throttles.release import give_back

MEASURING = "measuring what producers wait, to compare with"
BEGUN = "what producers waited before the run is not known: it has begun"
Rule = Callable[[History, Observed], Step | None]


def preflight(history: History, _: Observed) -> Preflight | None:
    """What is to move is looked at once more before anything is written."""
    begun = history.preflight or history.stopped or history.cancel_requested
    return None if begun or not history.queued else Preflight()


def note_ended(history: History, observed: Observed) -> NoteEnded | None:
    """Moves have ended, or are not to begin."""
    ended = tuple(endings(history, observed))
    if not ended:
        return None
    changed = [e for e in ended if e.phase is Phase.FAILED and e.why in STOPPING]
    stop = f"{history.moves[changed[0].index].move.tp} {changed[0].why}" if changed else ""
    if changed and observed.balancer is not None:
        stop += f" ({observed.balancer}: pause it before going on)"
    return NoteEnded(ended, stop)


def measure(history: History, observed: Observed) -> NoteMeasured | Poll | None:
    """A run that adapts its rate first learns what producers wait, to compare with."""
    if not history.adapts_rate or history.measured is not None or not history.queued:
        return None
    if history.in_flight:
        return NoteMeasured(Measured({}, BEGUN))
    return Poll(MEASURING) if observed.measured is None else NoteMeasured(observed.measured)


RULES: tuple[Rule, ...] = (
    note_ended,
    preflight,
    take_back,
    note_disturbed,
    catch_up,
    change_rates,
    move_pairs,
    move_dirs,
    restore_retention,
    give_back,
    add_moves,
    shorten,
    submit_again,
    measure,
    go_on,
    elect,
    finish,
)
"""The first that has a step is followed: clean up before going on, a cancel before both."""


def next_step(history: History, observed: Observed) -> Step:
    """Return what to do now."""
    return next(step for rule in RULES if (step := rule(history, observed)) is not None)
