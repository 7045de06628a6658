"""A run as lines: its headline and overall bar, its rows, and what stands below them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from core.cluster.state import TopicPartition
from core.run.view import MoveState, RunState, RunView
from core.units import UNLIMITED, format_duration, format_rate
from tui.widgets.bars import line_bar
from tui.widgets.lines import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    fit,
    plain,
    rule,
    wrapped,
)
from tui.widgets.run_rows import (
    amount_words,
    broker_lines,
    event_lines,
    in_order,
    move_header,
    move_lines,
)

_ENDS = {
    RunState.DONE: ("√", Tone.FINE, "done"),
    RunState.CANCELLED: ("·", Tone.LOOK, "cancelled"),
    RunState.INCOMPLETE: ("▲", Tone.LOOK, "not complete"),
    RunState.FAILED: ("✗", Tone.ACT, "failed"),
    RunState.DIED: ("✗", Tone.ACT, "its process died"),
}


def run_lines(run: RunView, cursor: TopicPartition | None, width: int, height: int) -> Lines:
    """Return the whole screen of one run in `height` lines."""
    moves = in_order(run.moves)
    roomy = height >= 30
    gap: Lines = (BLANK,) if roomy else ()
    top: Lines = (headline(run, width), overall(run, width), *gap, move_header(width))
    ending = ending_lines(run, width, roomy=roomy)
    taking_part = not (run.state.ended and not run.brokers)
    room = height - len(top) - len(ending) - 2 * (1 + len(gap)) - len(gap)
    brokers = min(len(run.brokers), max(room // 4, 2))
    events = min(len(run.events), max((room - brokers) // 3, 2))
    shown = min(len(moves), max(room - brokers - events, 1))
    events = min(len(run.events), max(room - brokers - shown, 0))
    lines: list[Line] = [*top, *move_lines(moves, cursor, width, shown), *gap]
    if taking_part:
        note = "against the limit" if width >= 100 else ""
        lines += [rule("brokers in this run", width, note=note)]
        lines += [*broker_lines(run.brokers, width, brokers), *gap]
    lines += [rule("what happened", width), *event_lines(run.events, width, events), *gap]
    return tuple(lines[: height - len(ending)]) + ending


def ending_of(state: RunState) -> tuple[str, Tone, str]:
    """Return mark, tone and word of a state, for runs that have ended and those that go on."""
    return _ENDS.get(state, ("●", Tone.YOURS, state.value))


def headline(run: RunView, width: int) -> Line:
    """Return what the run is and how far: as many facts as fit, the most important ones first."""
    started = f"run {run.started_at.astimezone(UTC):%H:%M}Z"
    amount = amount_words(run.moved_bytes, run.total_bytes, " of ")
    count = f"{run.done} of {len(run.moves)} done"
    rate = format_rate(run.rate_bytes_per_s)
    facts: list[Line] = []
    if run.state.ended:
        mark, tone, word = ending_of(run.state)
        facts.append(
            (Span(f"{mark} {started}", tone, bold=True), Span(f" {word}", tone, bold=True))
        )
        facts.append((plain(count),))
        after = "took" if run.state is RunState.DONE else "after"
        took = f"{after} {format_duration(run.elapsed_seconds)}"
        estimated = (
            f" (estimated {format_duration(run.estimated_seconds)})"
            if run.estimated_seconds
            else ""
        )
        facts.append((bright(took), dim(estimated)))
        facts.append((plain(amount),))
    else:
        facts.append((Span(f"● {started}", Tone.YOURS, bold=True),))
        if run.state is not RunState.RUNNING:
            facts.append((Span(run.state.value, Tone.LOOK, bold=True),))
        facts.append((plain(count),))
        if run.state is not RunState.WAITING:
            # What waits for a broker has no end that could be told.
            facts.append((bright(f"{format_duration(run.left_seconds)} left"), *_left_range(run)))
        if run.stuck:
            facts.append((Span(f"▲ {run.stuck} stuck", Tone.LOOK, bold=True),))
        facts.append((plain(amount),))
        a_side = "no throttle" if run.rate_bytes_per_s == UNLIMITED else f"{rate} a side"
        facts.append((plain(a_side),))
    if run.why:
        tone = Tone.ACT if run.state in (RunState.FAILED, RunState.DIED) else Tone.LOOK
        facts.append((Span(run.why, tone),))
    return _joined(facts, width)


def overall(run: RunView, width: int) -> Line:
    """Return the thin bar of the whole run: moved, being moved, still queued."""
    total = sum(move.total_bytes or 0 for move in run.moves) or run.total_bytes
    begun = sum(move.total_bytes or 0 for move in run.moves if move.state is not MoveState.QUEUED)
    if run.state is RunState.DONE:
        return (plain(" "), Span("━" * (width - 2), Tone.FINE))
    moved = run.moved_bytes / total if total else 0.0
    return (plain(" "), *line_bar(moved, begun / total if total else 0.0, width - 2))


def ending_lines(run: RunView, width: int, *, roomy: bool) -> Lines:
    """Return what stands below: that the run goes on alone, or what it left behind."""
    lines: list[Line] = [rule("", width)]
    attach = Span(f"trimtab runs attach {run.run}", Tone.YOURS)
    if run.leftovers is not None:
        gone = f"The process of this run (pid {run.pid}) is gone."
        says = gone if run.state is RunState.DIED else "This run gave up before all was put back."
        lines.append(fit((Span(f"  {says}", Tone.ACT, True),), width))
        for text in leftover_words(run):
            lines += [fit((plain(f"  {part}"),), width) for part in wrapped(text, width - 4)[:2]]
        show = Span(f"trimtab runs show {run.run}", Tone.YOURS)
        lines.append(fit((dim("  All of it, entry by entry:  "), show), width))
    elif run.state.ended:
        show = Span(f"trimtab runs show {run.run}", Tone.YOURS)
        lines.append(fit((dim("  What was asked, done and restored:  "), show), width))
    else:
        process = f" (pid {run.pid})" if run.pid else ""
        alone = f"  The run goes on without this screen{process}. Attach again any time with "
        if len(alone) + len(attach.text) > width:
            alone = "  It goes on without this screen.  "
        lines.append(fit((dim(alone), attach), width))
        if roomy:
            words = "  Throttles return to what they were, broker by broker, as moves end."
            lines.append(fit((dim(words),), width))
    return tuple(lines)


def leftover_words(run: RunView) -> list[str]:
    """Return in words what a run that died or gave up left in the cluster."""
    left_behind = run.leftovers
    if not left_behind:
        return ["It left nothing: no move in flight, no throttle."]
    words = []
    if left_behind.moves:
        named = ", ".join(str(tp) for tp in left_behind.moves[:4])
        more = f" and {len(left_behind.moves) - 4} more" if len(left_behind.moves) > 4 else ""
        words.append(f"It left in flight: {named}{more}; Kafka goes on with them.")
    if left_behind.rates:
        rates = ", ".join(f"b{b} {side} {format_rate(r)}" for b, side, r in left_behind.rates[:6])
        words.append(f"Throttle rates still set: {rates}.")
    if left_behind.lists:
        topics = ", ".join(sorted({topic for topic, *_ in left_behind.lists})[:6])
        words.append(f"Throttle lists still hold its entries: {topics}.")
    return words


def _left_range(run: RunView) -> Line:
    if run.left_range is None:
        return ()
    low, high = (format_duration(seconds) for seconds in run.left_range)
    return (dim(f"  ({low} – {high})"),) if low != high else ()


def _joined(facts: Sequence[Line], width: int) -> Line:
    """Return facts three columns apart, as many as fit."""
    spans: list[Span] = [plain(" ")]
    used = 1
    for fact in facts:
        size = sum(len(span.text) for span in fact)
        if used + 3 + size > width and used > 1:
            continue
        spans += [*((plain("   "),) if used > 1 else ()), *fact]
        used += size + (3 if used > 1 else 0)
    return fit(tuple(spans), width)
