"""Moves in flight that no run of this machine owns, as lines: shown, never changed.

What is known of them is `core.run.external.moves`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC

from core.run.external.moves import ForeignMove
from core.units import format_bytes, format_duration, format_rate
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bar,
    bright,
    dim,
    left,
    line_bar,
    partition_name,
    plain,
    right,
)
from tui.moves.drawing.rows import amount_words
from tui.moves.drawing.status import join_facts
from tui.plan.drawing.diff import change_words

STUCK_SECONDS = 60.0
NOTE = "Somebody else's: shown, never cleared, never overridden, never changed."


def foreign_page(moves: Sequence[ForeignMove], width: int, height: int) -> Lines:
    """Return the adopted view: how far others' moves are, and that they are others'."""
    known = [m for m in moves if m.total_bytes is not None and m.arrived_bytes is not None]
    total = sum(m.total_bytes or 0 for m in known)
    arrived = sum(m.arrived_bytes or 0 for m in known)
    facts: list[Line] = [
        (Span("◆ NOT OURS", Tone.LOOK, bold=True), bright(f"  {len(moves)} in flight"))
    ]
    if known:
        facts.append((plain(amount_words(arrived, total, " of ")),))
    times = [m.left_seconds for m in moves if m.left_seconds is not None]
    if times and len(times) == len(moves):
        facts.append((bright(f"{format_duration(max(times))} left"),))
    rates = [m.bytes_per_s for m in moves if m.bytes_per_s is not None]
    if rates:
        facts.append((plain(f"now {format_rate(sum(rates))}"),))
    since = min((m.since for m in moves if m.since), default=None)
    if since is not None:
        facts.append((dim(f"seen since {since.astimezone(UTC):%H:%M:%S}Z"),))
    share = arrived / total if total else 0.0
    lines: list[Line] = [
        join_facts(facts, width),
        (plain(" "), *line_bar(share, 1.0, width - 2)),
        (dim(f"   {NOTE}"),),
        BLANK,
        _header(width),
    ]
    return (*lines, *foreign_lines(moves, width, height - len(lines)))


def foreign_lines(moves: Collection[ForeignMove], width: int, height: int) -> Lines:
    """Return one line a move; the last counts those left out."""
    lines: list[Line] = []
    for move in moves:
        if len(lines) == height - 1 and len(moves) > height:
            lines.append((dim(f"  and {len(moves) - len(lines)} more"),))
            break
        lines.append(_line(move, width))
    return tuple(lines)


def _widths(width: int) -> tuple[int, int, int]:
    if width >= 160:
        return 32, 14, 50
    return (20, 10, 25) if width >= 110 else (17, 8, max(width - 66, 6))


def _header(width: int) -> Line:
    name, change, track = _widths(width)
    columns = left("partition", name) + left("move", change) + left("progress", track)
    words = f"{left('bytes', 15)}{right('now', 9)}{right('left', 9)}"
    return (dim(f"  {columns}  {words}"),)


def _line(move: ForeignMove, width: int) -> Line:
    name, change, track = _widths(width)
    known = move.total_bytes and move.arrived_bytes is not None
    share = (move.arrived_bytes or 0) / move.total_bytes if move.total_bytes and known else 0.0
    total = move.total_bytes
    whole = f"of {format_bytes(total)}" if total else "bytes not known"
    amount = amount_words(move.arrived_bytes or 0, total) if known and total else whole
    idle = move.idle_seconds >= STUCK_SECONDS
    rate = "" if move.bytes_per_s is None else format_rate(move.bytes_per_s)
    time_left = "" if move.left_seconds is None or idle else format_duration(move.left_seconds)
    warning = f"▲ no byte for {format_duration(move.idle_seconds)}" if idle else ""
    on = (move.broker,) if move.broker is not None else ()
    changes = change_words(move.before, move.after, on)
    to = f"  to {move.log_dir}" if on and not idle else ""
    return (
        plain("  "),
        plain(left(partition_name(move.tp, name - 1), name)),
        plain(left(changes, change - 1) + " "),
        *bar(share, track, Tone.LOOK if idle else Tone.DIM),
        plain("  "),
        plain(left(amount, 15)),
        Span(right(rate, 9), Tone.LOOK if idle else Tone.PLAIN),
        bright(right(time_left, 9)),
        Span(f"  {warning}", Tone.LOOK, bold=True) if warning else dim(to),
    )
