"""The newest run beside a wide map: how far it is, what moves, and the story so far."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from core.run.reporting.views import Level, MoveStatus
from core.units import format_duration
from tui.drawing.spans import Span, Tone, dim, partition_name, plain
from tui.map.drawing.preview import move_words

if TYPE_CHECKING:
    from core.run.reporting.views import MoveProgress, RunView
    from tui.map.drawing.panel import Panel

MOVES = 8
EVENTS = 8
NAME = 22
_LEVELS = {Level.GOOD: Tone.FINE, Level.LOOK: Tone.LOOK, Level.ACT: Tone.ACT}
_FIRST = (MoveStatus.STUCK, MoveStatus.MOVING, MoveStatus.FAILED, MoveStatus.QUEUED)


def draw_run(panel: Panel, run: RunView) -> None:
    """Draw the moves under what is already there, and the newest events at the very bottom."""
    started = f"{run.started_at.astimezone(UTC):%H:%M}Z"
    panel.title(f"run {started}", f"{run.done} of {run.partitions} done")
    unfinished = [move for state in _FIRST for move in run.moves if move.state is state]
    for move in unfinished[:MOVES]:
        _draw_move(panel, move)
    if len(unfinished) > MOVES:
        panel.write((dim(f"and {len(unfinished) - MOVES} more"),))
    if not unfinished:
        panel.write((dim("nothing moves any more"),))
    events = list(reversed(run.events))[:EVENTS]
    panel.y = max(panel.y + 1, len(panel.rows) - len(events) - 1)
    panel.title("what happened")
    for event in events:
        at = f"{event.at.astimezone(UTC):%H:%M:%S}"
        panel.write((dim(f"{at}  "), Span(event.text, _LEVELS.get(event.level, Tone.PLAIN))))


def _draw_move(panel: Panel, move: MoveProgress) -> None:
    stuck = move.state in (MoveStatus.STUCK, MoveStatus.FAILED)
    share = move.moved_bytes / move.total_bytes if move.total_bytes else 0.0
    left = format_duration(move.left_seconds) if move.left_seconds is not None else ""
    state = move.state.value if stuck or move.state is MoveStatus.QUEUED else left
    panel.write(
        (
            plain(f"{partition_name(move.tp, NAME):<{NAME}} "),
            Span(f"{move_words(move.as_move()):<8}", Tone.YOURS),
            Span(f"{share:>5.0%}  ", Tone.BRIGHT if share else Tone.DIM),
            Span(state, Tone.LOOK if stuck else Tone.DIM, stuck),
        )
    )
