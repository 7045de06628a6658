"""The batch plan of a run: what each batch holds, which one is under way, what comes after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from core.run.reporting.views import IN_FLIGHT, MoveProgress, MoveStatus, RunView
from core.units import format_bytes, format_duration
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bar,
    bright,
    dim,
    highlight_line,
    left,
    partition_name,
    plain,
    right,
    rule,
    window,
)
from tui.moves.drawing.rows import amount_words, change_of, is_starved, rate_words, state_of
from tui.moves.drawing.status import headline, notice_lines, overall


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a run; numbers count from 1."""

    number: int
    moves: tuple[MoveProgress, ...]

    @property
    def total_bytes(self) -> int:
        return sum(move.total_bytes or 0 for move in self.moves)

    @property
    def is_lower_bound(self) -> bool:
        """Return whether the size of one of them is not known."""
        return any(move.total_bytes is None for move in self.moves)

    @property
    def moved_bytes(self) -> int:
        return sum(move.moved_bytes for move in self.moves)

    def count(self, *states: MoveStatus) -> int:
        return sum(move.state in states for move in self.moves)

    @property
    def is_running(self) -> bool:
        return self.count(*IN_FLIGHT) > 0


def batches_of(moves: Sequence[MoveProgress]) -> tuple[Batch, ...]:
    """Return the batches in their order."""
    moves_by_batch: defaultdict[int, list[MoveProgress]] = defaultdict(list)
    for move in moves:
        moves_by_batch[move.batch].append(move)
    return tuple(Batch(number, tuple(moves_by_batch[number])) for number in sorted(moves_by_batch))


def current_batch(batches: Sequence[Batch]) -> int:
    """Return the place of the batch that is under way, else of the next one, else of the last."""
    running = [i for i, batch in enumerate(batches) if batch.is_running]
    queued = [i for i, batch in enumerate(batches) if batch.count(MoveStatus.QUEUED)]
    return next(iter([*running, *queued]), max(len(batches) - 1, 0))


def batches_lines(run: RunView, cursor: int | None, width: int, height: int) -> Lines:
    """Return the whole page; `cursor` is the place of a batch, None the one under way."""
    batches = batches_of(run.moves)
    at = current_batch(batches) if cursor is None else min(max(cursor, 0), max(len(batches) - 1, 0))
    top: list[Line] = [headline(run, width), overall(run, width), *notice_lines(run, width), BLANK]
    top.append(rule("batches", width, note=f"{len(batches)}"))
    if not batches:
        return tuple(top)
    top.append(_header(width))
    room = height - len(top) - 3
    shown = min(len(batches), max(room // 2, 3))
    for i in window(len(batches), shown, at):
        line = _batch_line(batches[i], width, selected=i == at)
        top.append(highlight_line(line, width) if i == at else line)
    batch = batches[at]
    bound = "at least " if batch.is_lower_bound else ""
    held = f"{len(batch.moves)} in it, {bound}{format_bytes(batch.total_bytes)} to copy"
    top += [BLANK, rule(f"batch {batch.number}", width, note=held)]
    inside = height - len(top)
    cut = len(batch.moves) > inside
    for move in batch.moves[: inside - cut]:
        top.append(_move_line(move, width))
    if cut:
        rest = len(batch.moves) - max(inside - 1, 0)
        top.append((dim(f"  and {rest} more"),))
    return tuple(top[:height])


def _header(width: int) -> Line:
    words = f"  {left('batch', 8)}{left('', _bar_width(width))}  {left('bytes', 15)}"
    return (dim(f"{words}{right('moves', 7)}  {left('stands', 30)}"),)


def _bar_width(width: int) -> int:
    return 40 if width >= 160 else 25 if width >= 110 else 12


def _batch_line(batch: Batch, width: int, *, selected: bool) -> Line:
    total = batch.total_bytes
    ended = not batch.count(MoveStatus.QUEUED, *IN_FLIGHT)
    share = 1.0 if ended and not total else batch.moved_bytes / total if total else 0.0
    number = left(f"{batch.number}", 8)
    words, tone = _counts_words(batch)
    return (
        Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
        bright(number) if selected else plain(number),
        *bar(share, _bar_width(width), Tone.FINE if ended else Tone.YOURS),
        plain("  "),
        plain(left(amount_words(batch.moved_bytes, total), 15)),
        plain(right(f"{len(batch.moves)}", 7)),
        Span(f"  {words}", tone),
    )


def _counts_words(batch: Batch) -> tuple[str, Tone]:
    moves_words = (
        (MoveStatus.FAILED, "failed"),
        (MoveStatus.STUCK, "stuck"),
        (MoveStatus.MOVING, "moving"),
        (MoveStatus.DONE, "done"),
        (MoveStatus.CANCELLED, "cancelled"),
        (MoveStatus.SKIPPED, "skipped"),
        (MoveStatus.QUEUED, "queued"),
    )
    if batch.count(MoveStatus.QUEUED) == len(batch.moves):
        return "queued", Tone.DIM
    counts = ((batch.count(state), word) for state, word in moves_words)
    parts = [f"{n} {word}" for n, word in counts if n]
    if batch.count(MoveStatus.FAILED):
        return f"✗ {', '.join(parts)}", Tone.ACT
    if batch.count(MoveStatus.STUCK):
        return f"▲ {', '.join(parts)}", Tone.LOOK
    if batch.is_running:
        return f"● {', '.join(parts)}", Tone.YOURS
    all_done = batch.count(MoveStatus.DONE) == len(batch.moves)
    return f"{'√ ' if all_done else ''}{', '.join(parts)}", Tone.FINE if all_done else Tone.LOOK


def _move_line(move: MoveProgress, width: int) -> Line:
    name = 32 if width >= 160 else 24
    return (
        plain(f"  {left(partition_name(move.tp, name - 1), name)}"),
        plain(left(change_of(move), 13) + " "),
        dim(right("" if move.total_bytes is None else format_bytes(move.total_bytes), 9)),
        plain("   "),
        _state(move, max(width - name - 30, 10)),
    )


def _state(move: MoveProgress, width: int) -> Span:
    """Return a move's state; one that moves says how fast and how long yet, or why not."""
    if move.state is not MoveStatus.MOVING or is_starved(move):
        return state_of(move, width)
    now = rate_words(move)
    rate = f"moving, {now}" if now else "moving"
    left_words = "" if move.left_seconds is None else f", {format_duration(move.left_seconds)} left"
    return Span(left(rate + left_words, width), Tone.YOURS)
