"""What applying a plan would mean, in a few lines: bytes, time, what it touches, what is unwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.cluster.state import ClusterState
from core.plan.checks.catalogue import Severity
from core.plan.estimate.estimate import Estimate
from core.plan.impact.clients import find_precautions
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.units import UNLIMITED, counted, format_duration, format_rate
from tui.drawing.spans import Line, Lines, Span, Tone, bright, dim, fit, plain, wrap_text
from tui.plan.assessment import PlanAssessment, total_to_copy
from tui.plan.drawing.diff import copied_words
from tui.plan.drawing.throttle_table import SIDES

LABEL = 9
LEFT_SHOWN = 2


def summary_lines(
    state: ClusterState | None,
    plan: Plan,
    assessment: PlanAssessment | None,
    rate: int,
    width: int,
    *,
    bounds: RateBounds | None = None,
    left: Sequence[str] = (),
    elects: bool = False,
    changed: str = "",
) -> Lines:
    """Return the summary; until the plan is assessed it says that it is being checked.

    `bounds` are those of a rate that adapts itself, `left` says what is not in the plan, and why,
    `elects` that preferred leaders are elected at the end, `changed` what is otherwise than as the
    dialog was opened.
    """
    if state is None:
        return ()
    total, unknown = total_to_copy(state, plan)
    data = sum(bool(move.receiving) for move in plan)
    what: list[Span] = [bright(counted(data, "move"))]
    if data:
        what.append(bright(copied_words(total, unknown)))
    if unknown:
        what.append(Span(f", {unknown} of unknown size", Tone.LOOK))
    if data < len(plan):
        what.append(plain(f", {len(plan) - data} without data"))
    lines: list[Line] = []
    if changed:
        lines += _rows("changed", changed, width, Tone.LOOK, 3, bold=True)
    lines.append(_row("moves", tuple(what), width))
    more = [f"and {len(left) - LEFT_SHOWN} more"] if len(left) > LEFT_SHOWN else []
    for i, text in enumerate((*left[:LEFT_SHOWN], *more)):
        lines.append(_row("" if i else "left out", (Span(text, Tone.LOOK),), width))
    if assessment is None:
        return (*lines, _row("", (dim("checking and estimating"),), width))
    at_rate = assessment.at(rate)
    lines += [_row(label, line, width) for label, line in _time(at_rate.estimate, bounds, width)]
    lines += _affected_lines(plan, width)
    for finding in at_rate.findings:
        if finding.severity is Severity.UNSAFE:
            continue
        illegal = finding.severity is Severity.ILLEGAL
        label, tone = ("illegal", Tone.ACT) if illegal else ("note", Tone.DIM)
        lines += _rows(label, finding.sentence, width, tone, 3)
    alone = find_precautions(state, plan, elects=elects, by="tick elect leaders")
    for sentence in (*assessment.not_compared, *alone):
        lines += _rows("note", sentence, width, Tone.DIM)
    return tuple(lines)


def _time(estimate: Estimate, bounds: RateBounds | None, width: int) -> Iterable[tuple[str, Line]]:
    rate = f"{format_rate(estimate.rate_bytes_per_s)} a side"
    if estimate.rate_bytes_per_s == UNLIMITED:
        rate = "no throttle"
    if bounds is not None:
        rate = f"adaptive, reckoned with {rate}"
    yield "throttle", (plain(rate),)
    if estimate.never is not None:
        for i, text in enumerate(wrap_text(estimate.never, width - LABEL)):
            yield "" if i else "time", (Span("never: " * (not i) + text, Tone.ACT, bold=not i),)
        return
    spans: list[Span] = [bright(format_duration(estimate.seconds))]
    if estimate.range_seconds is not None:
        low, high = (format_duration(seconds) for seconds in estimate.range_seconds)
        spans.append(dim(f"  ({low} – {high})"))
    if estimate.limit is not None:
        spans.append(plain(f"  slowest b{estimate.limit.broker} {SIDES[estimate.limit.side]}"))
    yield "time", tuple(spans)
    if estimate.calibration is not None:
        yield "", (dim(estimate.calibration.words),)


def _affected_lines(plan: Plan, width: int) -> Iterable[Line]:
    topics = sorted({move.tp.topic for move in plan})
    shown = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
    yield _row("topics", (plain(shown),), width)
    senders = _ids(b for move in plan for b in move.before[:1] if move.moves_data)
    receivers = _ids(b for move in plan for b in move.adding)
    if receivers:
        yield _row("brokers", (plain(f"{senders} → {receivers}"),), width)
    leaders = sum(move.before[:1] != move.after[:1] for move in plan)
    if leaders:
        yield _row("leaders", (plain(f"{counted(leaders, 'preferred leader')} changed"),), width)


def _ids(brokers: Iterable[int]) -> str:
    return " ".join(f"b{broker}" for broker in sorted(set(brokers)))


def _rows(
    label: str,
    text: str,
    width: int,
    tone: Tone,
    max_lines: int | None = None,
    *,
    bold: bool = False,
) -> Iterable[Line]:
    """Return a text in as many lines as it takes, the label before the first."""
    for i, part in enumerate(wrap_text(text, width - LABEL, max_lines)):
        yield _row("" if i else label, (Span(part, tone, bold=bold),), width)


def _row(label: str, line: Line, width: int) -> Line:
    return fit((dim(f"{label:<{LABEL}}"), *line), width)
