"""The rows of a run: a bar for each partition, brokers against their limits, what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import NamedTuple

from rich.cells import cell_len

from core.cluster.state import TopicPartition
from core.run.view import BrokerProgress, Level, MoveProgress, MoveState, RunEvent
from core.units import UNLIMITED, format_bytes, format_duration, format_rate
from tui.widgets.bars import bar
from tui.widgets.lines import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    fit,
    highlighted,
    hitting,
    left,
    plain,
    right,
    window,
)
from tui.widgets.plan_diff import change_words

_ORDER = (
    MoveState.FAILED,
    MoveState.STUCK,
    MoveState.MOVING,
    MoveState.QUEUED,
    MoveState.CANCELLED,
    MoveState.SKIPPED,
    MoveState.DONE,
)
_LEVELS = {
    Level.INFO: Tone.PLAIN,
    Level.GOOD: Tone.FINE,
    Level.LOOK: Tone.LOOK,
    Level.ACT: Tone.ACT,
}


@dataclass(frozen=True, slots=True)
class PartitionHit:
    """A click on a move of the run."""

    tp: TopicPartition


def in_order(moves: Iterable[MoveProgress]) -> tuple[MoveProgress, ...]:
    """Return moves as they matter: in trouble, moving, waiting, then done, the newest first."""

    def key(move: MoveProgress) -> tuple[int, float, TopicPartition]:
        done = -move.done_at.timestamp() if move.done_at else 0.0
        return _ORDER.index(move.state), done, move.tp

    return tuple(sorted(moves, key=key))


def move_header(width: int) -> Line:
    c = _columns(width)
    return fit(
        (
            dim(f"  {left('partition', c.name)}{left('move', c.change)}"),
            dim(f"{left('progress', c.progress)}  {left('bytes', c.amount)}{right('now', c.rate)}"),
            dim(right("left", c.left) if c.left else ""),
            dim(f"  {left('state' if c.left else 'left', c.state)}"),
        ),
        width,
    )


def move_lines(
    moves: Sequence[MoveProgress], cursor: TopicPartition | None, width: int, height: int
) -> Lines:
    """Return one line for each of the moves in view, the cursor's among them."""
    at = next((i for i, move in enumerate(moves) if move.tp == cursor), 0)
    lines = []
    for i in window(len(moves), height, at):
        line = move_line(moves[i], width, selected=i == at)
        hit = PartitionHit(moves[i].tp)
        lines.append(highlighted(line, width, hit) if i == at else hitting(line, hit))
    return tuple(lines)


def move_line(move: MoveProgress, width: int, *, selected: bool = False) -> Line:
    c = _columns(width)
    total = move.total_bytes
    done = move.state is MoveState.DONE
    fraction = 1.0 if done else move.moved_bytes / total if total else 0.0
    active = move.state in (MoveState.MOVING, MoveState.STUCK)
    amount = "" if move.state is MoveState.QUEUED or not total else _amount(move, total, c)
    tone = Tone.DIM if move.state in (MoveState.QUEUED, MoveState.CANCELLED) else Tone.PLAIN
    title = left(partition_name(move.tp, c.name - 1), c.name)
    rate = "" if not active else format_rate(move.bytes_per_s) if move.bytes_per_s else "0 MB/s"
    moving = move.state is MoveState.MOVING and move.left_seconds is not None
    time_left = format_duration(move.left_seconds) if moving else ""
    return fit(
        (
            Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
            bright(title) if selected else Span(title, tone),
            Span(left(change_words(move.before, move.after), c.change - 1) + " ", tone),
            *bar(fraction, c.progress, _bar_tone(move.state)),
            plain("  "),
            Span(left(amount, c.amount), tone),
            Span(
                right(rate, c.rate),
                Tone.LOOK if move.state is MoveState.STUCK else Tone.PLAIN,
            ),
            bright(right(time_left, c.left) if c.left else ""),
            plain("  "),
            bright(left(time_left, c.state))
            if time_left and not c.left
            else state_of(move, c.state),
        ),
        width,
    )


def partition_name(tp: TopicPartition, width: int) -> str:
    """Return `topic-17`; a topic that is too long loses its end, never the number."""
    number = f"-{tp.partition}"
    return left(tp.topic, min(width - len(number), cell_len(tp.topic))) + number


def state_of(move: MoveProgress, width: int) -> Span:
    """Return a move's state in words."""
    match move.state:
        case MoveState.QUEUED:
            return dim(left(f"queued, batch {move.batch}", width))
        case MoveState.MOVING:
            return dim(left(move.why, width))
        case MoveState.STUCK:
            why = move.why or "stuck"
            words = why if why.startswith("stuck") else f"stuck: {why}"
            return Span(left(words, width), Tone.LOOK, bold=True)
        case MoveState.DONE:
            at = f" {move.done_at.astimezone(UTC):%H:%M}Z" if move.done_at else ""
            return Span(left(f"√{at} in ISR", width), Tone.FINE)
        case MoveState.FAILED:
            return Span(left(f"✗ {move.why or 'failed'}", width), Tone.ACT, bold=True)
        case MoveState.CANCELLED | MoveState.SKIPPED:
            return Span(left(move.why or move.state.value, width), Tone.LOOK)


def broker_lines(brokers: Sequence[BrokerProgress], width: int, height: int) -> Lines:
    """Return brokers against their limits; what is left out is counted on the last line."""
    if not brokers:
        return (fit((dim("  no broker has a part in it yet"),), width),)
    track = max(min(width // 3, 40), 10)
    lines = []
    for broker in brokers[:height]:
        limit = broker.limit_bytes_per_s
        now = broker.bytes_per_s or 0.0
        unlimited = limit is None or limit == UNLIMITED
        fraction = 0.0 if unlimited or not limit else now / limit
        tone = Tone.LOOK if broker.why and now == 0 else Tone.PLAIN if now else Tone.DIM
        against = format_rate(now) if unlimited else f"{_number(now)} / {format_rate(limit)}"
        why = broker.why or ("no limit" if unlimited else "")
        lines.append(
            fit(
                (
                    bright(f"  {f'b{broker.broker}':<5}"),
                    dim(f"{broker.side:<10}"),
                    *bar(fraction, track),
                    Span(right(against, 18), tone),
                    Span(f"   {why}", Tone.LOOK if tone is Tone.LOOK else Tone.DIM),
                ),
                width,
            )
        )
    return tuple(lines)


def event_lines(events: Sequence[RunEvent], width: int, height: int) -> Lines:
    """Return the story so far, the newest first."""
    return tuple(
        fit(
            (
                dim(f"  {event.at.astimezone(UTC):%H:%M:%S}  "),
                Span(event.text, _LEVELS[event.level]),
            ),
            width,
        )
        for event in list(reversed(events))[:height]
    )


def amount_words(moved: int, total: int, between: str = " / ") -> str:
    """Return `157 / 212 GB`: both in the total's unit, so that they can be compared."""
    whole = format_bytes(total)
    number, _, unit = whole.partition(" ")
    factor = total / float(number) if float(number) else 1.0
    part = moved / factor
    digits = f"{part:.1f}" if 0 < part < 10 else f"{part:.0f}"
    return f"{digits.removesuffix('.0')}{between}{number} {unit}"


def _amount(move: MoveProgress, total: int, columns: _Columns) -> str:
    return amount_words(move.moved_bytes, total, " / " if columns.left else "/")


def _number(rate: float) -> str:
    return f"{rate / 1e6:.0f}" if rate == 0 or rate >= 9.95e6 else f"{rate / 1e6:.1f}"


class _Columns(NamedTuple):
    """Widths; `left` 0 means that time left and state share a column."""

    name: int
    change: int
    progress: int
    amount: int
    rate: int
    left: int
    state: int


def _columns(width: int) -> _Columns:
    if width >= 160:
        return _Columns(32, 14, 60, 15, 10, 10, width - 147)
    if width >= 110:
        return _Columns(20, 10, 25, 15, 9, 9, width - 94)
    progress = max(width - 67, 4)
    return _Columns(17, 7, progress, 11, 9, 0, 17)


def _bar_tone(state: MoveState) -> Tone:
    match state:
        case MoveState.STUCK:
            return Tone.LOOK
        case MoveState.FAILED:
            return Tone.ACT
        case MoveState.DONE:
            return Tone.FINE
        case MoveState.CANCELLED:
            return Tone.DIM
        case _:
            return Tone.YOURS
