"""The rows of a run: a bar for each partition, brokers against their limits, what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC

from core.cluster.state import TopicPartition
from core.run.progress import BrokerProgress, Level, MoveProgress, MoveState, RunEvent
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
    name, change, progress, state = _columns(width)
    return fit(
        (
            dim(f"  {left('partition', name)}{left('move', change)}{left('progress', progress)}  "),
            dim(f"{left('bytes', 14)}{right('now', 9)}{right('left', 9)}"),
            dim(f"  {left('state', state)}"),
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
    name, change, progress, state = _columns(width)
    total = move.total_bytes
    fraction = 1.0 if move.state is MoveState.DONE else move.moved_bytes / total if total else 0.0
    active = move.state in (MoveState.MOVING, MoveState.STUCK)
    stuck = move.state is MoveState.STUCK
    amount = (
        "" if move.state is MoveState.QUEUED or not total else amount_words(move.moved_bytes, total)
    )
    tone = Tone.DIM if move.state in (MoveState.QUEUED, MoveState.CANCELLED) else Tone.PLAIN
    title = left(str(move.tp), name - 1) + " "
    return fit(
        (
            Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
            bright(title) if selected else Span(title, tone),
            Span(left(change_words(move.before, move.after), change - 1) + " ", tone),
            *bar(fraction, progress, _bar_tone(move.state)),
            plain("  "),
            Span(left(amount, 14), tone),
            Span(
                right(format_rate(move.bytes_per_s or 0.0) if active else "", 9),
                Tone.LOOK if stuck else Tone.PLAIN,
            ),
            bright(
                right(format_duration(move.left_seconds), 9)
                if move.state is MoveState.MOVING and move.left_seconds is not None
                else " " * 9
            ),
            plain("  "),
            state_of(move, state),
        ),
        width,
    )


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
        case MoveState.CANCELLED:
            return Span(left(move.why or "cancelled", width), Tone.LOOK)


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
    number, unit = whole.split(" ")
    factor = total / float(number) if float(number) else 1.0
    part = moved / factor
    return (
        f"{part:.1f}{between}{whole}"
        if part < 10 <= total / factor or "." in number
        else (f"{part:.0f}{between}{number} {unit}")
    )


def _number(rate: float) -> str:
    return f"{rate / 1e6:.0f}" if rate == 0 or rate >= 9.95e6 else f"{rate / 1e6:.1f}"


def _columns(width: int) -> tuple[int, int, int, int]:
    """Return the widths of partition, move, progress and state."""
    if width >= 160:
        return 30, 14, 60, width - 2 - 30 - 14 - 60 - 36
    if width >= 110:
        return 19, 11, 30, width - 2 - 19 - 11 - 30 - 36
    state = 14
    name = 14
    change = 7
    return name, change, max(width - 2 - name - change - 36 - state, 4), state


def _bar_tone(state: MoveState) -> Tone:
    match state:
        case MoveState.STUCK:
            return Tone.LOOK
        case MoveState.FAILED:
            return Tone.ACT
        case MoveState.DONE:
            return Tone.FINE
        case _:
            return Tone.YOURS
