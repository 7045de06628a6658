"""The rows of a run: a bar for each partition, with bytes, rate, time left and state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC
from typing import NamedTuple

from core.cluster.metadata import TopicPartition
from core.run.reporting.views import IN_FLIGHT, MoveProgress, MoveStatus
from core.units import format_bytes, format_duration, format_rate
from tui.drawing.spans import (
    Line,
    Lines,
    RowHit,
    Span,
    Tone,
    bar,
    bright,
    dim,
    left,
    partition_name,
    plain,
    right,
    row_line,
    window,
)
from tui.memoize import memoize_last
from tui.plan.drawing.diff import change_words

_ORDER = (
    MoveStatus.FAILED,
    MoveStatus.STUCK,
    MoveStatus.MOVING,
    MoveStatus.QUEUED,
    MoveStatus.CANCELLED,
    MoveStatus.SKIPPED,
    MoveStatus.DONE,
)
_BARS = {
    MoveStatus.STUCK: Tone.LOOK,
    MoveStatus.FAILED: Tone.ACT,
    MoveStatus.DONE: Tone.FINE,
    MoveStatus.CANCELLED: Tone.DIM,
}


@memoize_last
def sort_moves(moves: tuple[MoveProgress, ...]) -> tuple[int, ...]:
    """Return the indices of moves as they matter: in trouble, moving, waiting, then done."""

    def key(index: int) -> tuple[int, int, float, TopicPartition]:
        move = moves[index]
        queued = move.state is MoveStatus.QUEUED
        done = -move.done_at.timestamp() if move.done_at else 0.0
        return _ORDER.index(move.state), move.batch if queued else 0, done, move.tp

    return tuple(sorted(range(len(moves)), key=key))


def move_header(width: int) -> Line:
    c = _columns(width)
    return (
        dim(f"  {left('partition', c.name)}{left('move', c.change)}"),
        dim(f"{left('progress', c.progress)}  {left('bytes', c.amount)}{right('now', c.rate)}"),
        dim(right("average", c.average) if c.average else ""),
        dim(right("left", c.left) if c.left else ""),
        dim(f"  {left('state' if c.left else 'left', c.state)}"),
    )


def move_lines(
    moves: Sequence[MoveProgress],
    order: Sequence[int],
    at: int,
    width: int,
    height: int,
    marked: Collection[int] = (),
) -> Lines:
    """Return one line for each of the moves in view, the one at place `at` of them highlighted."""
    lines = []
    for i in window(len(order), height, at):
        move = moves[order[i]]
        line = move_line(move, width, selected=i == at, marked=order[i] in marked)
        lines.append(row_line(line, width, RowHit(order[i]), chosen=i == at))
    return tuple(lines)


def change_of(move: MoveProgress) -> str:
    """Return what a move of a run changes, in short."""
    return change_words(move.before, move.after, [broker for broker, _ in move.dir_moves])


def move_line(
    move: MoveProgress, width: int, *, selected: bool = False, marked: bool = False
) -> Line:
    c = _columns(width)
    total = move.total_bytes
    done = move.state is MoveStatus.DONE
    fraction = 1.0 if done else move.moved_bytes / total if total else 0.0
    active = move.state in IN_FLIGHT
    amount = ""
    if total and move.state is not MoveStatus.QUEUED:
        words = amount_words(move.moved_bytes, total, " / " if c.left else "/")
        amount = f"~{words}" if move.held else words
    tone = Tone.DIM if move.state in (MoveStatus.QUEUED, MoveStatus.CANCELLED) else Tone.PLAIN
    title = left(partition_name(move.tp, c.name - 1), c.name)
    rate = rate_words(move) if active else ""
    average = format_rate(move.average_bytes_per_s) if active and move.average_bytes_per_s else ""
    moving = move.state is MoveStatus.MOVING and move.left_seconds is not None
    time_left = format_duration(move.left_seconds) if moving else ""
    return (
        Span(("▸" if selected else " ") + ("*" if marked else " "), Tone.YOURS, bold=True),
        bright(title) if selected or marked else Span(title, tone),
        Span(left(change_of(move), c.change - 1) + " ", tone),
        *bar(fraction, c.progress, _BARS.get(move.state, Tone.YOURS)),
        plain("  "),
        Span(left(amount, c.amount), tone),
        Span(right(rate, c.rate), Tone.LOOK if move.state is MoveStatus.STUCK else Tone.PLAIN),
        dim(right(average, c.average) if c.average else ""),
        bright(right(time_left, c.left) if c.left else ""),
        plain("  "),
        bright(left(time_left, c.state))
        if time_left and not c.left and not is_starved(move)
        else state_of(move, c.state),
    )


def is_starved(move: MoveProgress) -> bool:
    """Return whether a move in flight gets nothing for the moment, and it is known why."""
    return bool(move.why) and not move.bytes_per_s


def rate_words(move: MoveProgress) -> str:
    """Return what a move gets now; "" while nobody knows."""
    if move.bytes_per_s is None:
        return ""
    return format_rate(move.bytes_per_s) if move.bytes_per_s else "0 MB/s"


def state_of(move: MoveProgress, width: int) -> Span:
    """Return a move's state in words."""
    match move.state:
        case MoveStatus.QUEUED:
            return dim(left(move.why or f"queued, batch {move.batch}", width))
        case MoveStatus.MOVING:
            return dim(left(move.why, width))
        case MoveStatus.STUCK:
            why = move.why or "stuck"
            words = why if why.startswith("stuck") else f"stuck: {why}"
            return Span(left(words, width), Tone.LOOK, bold=True)
        case MoveStatus.DONE:
            at = f" {move.done_at.astimezone(UTC):%H:%M}Z" if move.done_at else ""
            return Span(left(f"√{at} in ISR", width), Tone.FINE)
        case MoveStatus.FAILED:
            return Span(left(f"✗ {move.why or 'failed'}", width), Tone.ACT, bold=True)
        case MoveStatus.CANCELLED | MoveStatus.SKIPPED:
            return Span(left(move.why or move.state.value, width), Tone.LOOK)


def amount_words(moved: int, total: int, between: str = " / ") -> str:
    """Return `157 / 212 GB`: both in the total's unit, so that they can be compared."""
    whole = format_bytes(total)
    number, _, unit = whole.partition(" ")
    factor = total / float(number) if float(number) else 1.0
    part = moved / factor
    digits = f"{part:.1f}" if 0 < part < 10 else f"{part:.0f}"
    return f"{digits.removesuffix('.0')}{between}{number} {unit}"


class _Columns(NamedTuple):
    """Widths; `left` 0 means that time left and state share a column, `average` 0 that none is."""

    name: int
    change: int
    progress: int
    amount: int
    rate: int
    average: int
    left: int
    state: int


def _columns(width: int) -> _Columns:
    if width >= 160:
        return _Columns(32, 14, 50, 15, 10, 11, 10, width - 148)
    if width >= 110:
        return _Columns(20, 10, 25, 15, 9, 0, 10, width - 95)
    progress = max(width - 67, 4)
    return _Columns(17, 7, progress, 11, 9, 0, 0, 17)
