"""A run's status in its first lines: state, progress, time left, problems.

What is not simply running is told by a mark, a word in capitals and a sentence, never by colour
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import NamedTuple

from core.run.reporting.views import IN_FLIGHT, PAUSING, MoveStatus, RunStatus, RunView
from core.units import UNLIMITED, format_duration, format_rate
from tui.drawing.spans import Line, Lines, Span, Tone, bright, dim, line_bar, plain, wrap_text
from tui.moves.drawing.rows import amount_words
from tui.plan.drawing.throttle_table import bounds_words


class StatusStyle(NamedTuple):
    """How a state is written: its mark, its tone, and the word for it."""

    mark: str
    tone: Tone
    word: str


STYLES = {
    RunStatus.SCHEDULED: StatusStyle("○", Tone.YOURS, "NOT BEGUN"),
    RunStatus.STARTING: StatusStyle("●", Tone.YOURS, "starting"),
    RunStatus.RECOVERING: StatusStyle("●", Tone.LOOK, "RECOVERING"),
    RunStatus.RUNNING: StatusStyle("●", Tone.YOURS, "running"),
    RunStatus.PAUSED: StatusStyle("‖", Tone.LOOK, "PAUSED"),
    RunStatus.WAITING: StatusStyle("▲", Tone.LOOK, "WAITING"),
    RunStatus.CANCELLING: StatusStyle("◂", Tone.LOOK, "CANCELLING"),
    RunStatus.ROLLING_BACK: StatusStyle("◂", Tone.LOOK, "ROLLING BACK"),
    RunStatus.DONE: StatusStyle("√", Tone.FINE, "done"),
    RunStatus.CANCELLED: StatusStyle("·", Tone.LOOK, "cancelled"),
    RunStatus.ROLLED_BACK: StatusStyle("◂", Tone.LOOK, "rolled back"),
    RunStatus.INCOMPLETE: StatusStyle("▲", Tone.LOOK, "not complete"),
    RunStatus.FAILED: StatusStyle("✗", Tone.ACT, "failed"),
    RunStatus.DIED: StatusStyle("✗", Tone.ACT, "its process died"),
}
HALTED = (RunStatus.SCHEDULED, RunStatus.PAUSED, RunStatus.WAITING, RunStatus.DIED)
"""States of which nobody can tell how long they last."""


def is_paused(run: RunView) -> bool:
    """Return whether a run is paused, or will be as soon as its process is back."""
    kinds = [r.kind for r in run.requests if r.kind in PAUSING and not r.refused]
    return run.state is RunStatus.PAUSED or kinds[-1:] == ["pause"]


def accepts_requests(run: RunView | None) -> bool:
    """Return whether a run may be asked for anything: a dead one may, it takes it up later."""
    return run is not None and (not run.state.ended or run.state is RunStatus.DIED)


def headline(run: RunView, width: int) -> Line:
    """Return what the run is and how far: as many facts as fit, the most important ones first."""
    mark, tone, word = STYLES[run.state]
    started = f"{mark} run {run.started_at.astimezone(UTC):%H:%M}Z"
    amount = plain(amount_words(run.moved_bytes, run.total_bytes, " of "))
    count = plain(f"{run.done:,} of {run.partitions:,} done")
    if run.state is not RunStatus.RUNNING:
        started += f" {word}"
    facts: list[Line] = [(Span(started, tone, bold=True),), (count,)]
    if run.state.ended and run.state is not RunStatus.DIED:
        after = "took" if run.state is RunStatus.DONE else "after"
        took = f"{after} {format_duration(run.elapsed_seconds)}"
        estimated = run.estimated_seconds
        words = f" (estimated {format_duration(estimated)})" if estimated else ""
        facts += [(bright(took), dim(words)), (amount,)]
    else:
        if run.state not in HALTED:
            between = range_words(run.left_range) if run.left_range else ()
            facts.append((bright(f"{format_duration(run.left_seconds)} left"), *between))
        if run.stuck:
            facts.append((Span(f"▲ {run.stuck} stuck", Tone.LOOK, bold=True),))
        if failed := run.count(MoveStatus.FAILED):
            facts.append((Span(f"✗ {failed} failed", Tone.ACT, bold=True),))
        facts.append((amount,))
        limit = run.rate_bytes_per_s
        words = "no throttle" if limit == UNLIMITED else f"{format_rate(limit)} a side"
        if run.bounds is not None:
            words = f"adaptive, {bounds_words(run.bounds)}"
        facts.append((plain(words),))
        if run.bytes_per_s is not None:
            facts.append((plain(f"now {format_rate(run.bytes_per_s)}"),))
        if run.average_bytes_per_s:
            facts.append((plain(f"average {format_rate(run.average_bytes_per_s)}"),))
    return join_facts(facts, width)


def overall(run: RunView, width: int) -> Line:
    """Return the thin bar of the whole run: moved, being moved, still queued."""
    if run.state is RunStatus.DONE:
        return (plain(" "), Span("━" * (width - 2), Tone.FINE))
    in_flight = [m for m in run.moves if m.state in IN_FLIGHT]
    coming = sum((m.total_bytes or m.moved_bytes) - m.moved_bytes for m in in_flight)
    share = 1 / run.total_bytes if run.total_bytes else 0.0
    begun = run.moved_bytes + coming
    return (plain(" "), *line_bar(run.moved_bytes * share, begun * share, width - 2))


def notice_lines(run: RunView, width: int) -> Lines:
    """Return in sentences what is not as usual: why it halts, and what waits to be taken up."""
    tone = STYLES[run.state].tone
    lines: list[Line] = []
    if sentence := _status_sentence(run):
        name = not sentence.split()[0].isalpha()  # a partition's: it stays as it is written
        words = sentence if name else sentence[:1].upper() + sentence[1:]
        lines += [(Span(f"   {part}", tone),) for part in wrap_text(words, width - 4, 2)]
    waiting = [request for request in run.requests if not request.taken]
    if waiting and not (run.state.ended and run.state is not RunStatus.DIED):
        what = ", ".join(request.what for request in waiting[:3])
        more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
        how = "until its process is back" if run.state is RunStatus.DIED else "to be taken up"
        head = Span(f"   ▲ {len(waiting):,} asked, waiting {how}: ", Tone.LOOK, bold=True)
        lines.append((head, plain(f"{what}{more}")))
    elif run.requests and run.requests[-1].refused and not run.state.ended:
        last = run.requests[-1]
        lines.append((Span(f"   ✗ {last.what}: {last.refused}", Tone.ACT),))
    return tuple(lines)


def _status_sentence(run: RunView) -> str:
    match run.state:
        case RunStatus.SCHEDULED:
            at = f" at {run.starts_at.astimezone(UTC):%Y-%m-%d %H:%M}Z" if run.starts_at else ""
            return f"It begins{at}. Nothing has been changed yet."
        case RunStatus.PAUSED if run.paused_itself and run.why:
            return f"{run.why}. P lets it go on."
        case RunStatus.PAUSED:
            in_flight = sum(move.state in IN_FLIGHT for move in run.moves)
            last = next((r for r in reversed(run.requests) if r.kind == "pause"), None)
            how = "are held" if last is not None and "hold" in last.what else "go on to their end"
            goes = f"{in_flight} in flight {how}" if in_flight else "nothing is in flight"
            return f"No batch begins until it is resumed (P); {goes}."
        case RunStatus.RECOVERING:
            return "Its process is back: it reads its journal and looks at the cluster."
        case RunStatus.CANCELLING:
            return run.why or "What is in flight goes back to the replicas and order it had."
        case RunStatus.ROLLING_BACK:
            return run.why or "What was in flight is taken back; what was done moves back."
        case RunStatus.DIED:
            return f"{run.why}. B brings it back: it goes on from its journal."
        case _:
            return run.why


def range_words(between: tuple[float, float]) -> Line:
    """Return a range of times, dim; nothing when both ends read the same."""
    low, high = (format_duration(seconds) for seconds in between)
    return (dim(f"  ({low} – {high})"),) if low != high else ()


def join_facts(facts: Sequence[Line], width: int) -> Line:
    """Return facts three columns apart, as many as fit."""
    spans: list[Span] = [plain(" ")]
    used = 1
    for fact in facts:
        size = sum(len(span.text) for span in fact)
        if used + 3 + size > width and used > 1:
            continue
        spans += [*((plain("   "),) if used > 1 else ()), *fact]
        used += size + (3 if used > 1 else 0)
    return tuple(spans)
