"""The Plan screen as lines: the diff and what speaks against it, beside throttle and impact."""

from __future__ import annotations

from dataclasses import dataclass

from core.cluster.state import ClusterState
from core.plan.findings import Finding, Severity
from core.plan.plan import Plan
from core.units import format_bytes
from tui.study import Study
from tui.widgets.impact_table import impact_lines, impact_sentence
from tui.widgets.lines import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    beside,
    bright,
    dim,
    fit,
    plain,
    rule,
    width_of,
)
from tui.widgets.plan_diff import diff_header, diff_lines, finding_lines, many, total_to_copy
from tui.widgets.throttle_table import reason_lines, throttle_lines

SIDE_BY_SIDE = 110
"""Columns from which throttle and impact stand beside the diff."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """What the Plan screen shows: `study` is None until the first one of this plan is done."""

    state: ClusterState
    plan: Plan
    study: Study | None
    rate_bytes_per_s: int
    cursor: int
    on_throttle: bool
    wished: bool = False
    """Whether keys wait for the table to choose a rate from."""

    @property
    def estimating(self) -> Line:
        """Return what stands where the table will be."""
        return (dim("  estimating" + ("; your choice is taken then" if self.wished else "")),)


def plan_lines(view: PlanView, width: int, height: int) -> Lines:
    """Return the whole screen in `height` lines."""
    if not len(view.plan):
        return empty_lines(width)
    if width >= SIDE_BY_SIDE:
        panel = 70 if width >= 160 else 46
        main = width - panel - 4
        separator = (plain(" "), Span("│", Tone.FAINT), plain(" "))
        first = _main(view, main, height)
        second = _panel(view, panel, height)
        blank: Lines = (BLANK,) * (height - max(len(first), len(second)))
        return beside((*first, *blank), second, main, gap=separator)
    return _stacked(view, width, height)


def empty_lines(width: int) -> Lines:
    """Return what to do when there is no plan yet."""

    def step(key: str, words: str) -> Line:
        return fit((plain("    "), Span(f"{key:<7}", Tone.YOURS, bold=True), plain(words)), width)

    return (
        BLANK,
        fit((bright("  The plan is empty."),), width),
        fit((dim("  Nothing is sent to the cluster while you edit one."),), width),
        BLANK,
        step("1", "open the map"),
        step("space", "pick the replica under the cursor up"),
        step("h l", "carry it along its row; what it would do is shown at each broker"),
        step("enter", "drop it: the move is in the plan"),
        step("a", "or take the move that the map suggests"),
    )


def title_line(view: PlanView, width: int) -> Line:
    """Return the plan in numbers."""
    total, unknown = total_to_copy(view.state, view.plan)
    data = sum(move.moves_data for move in view.plan)
    others = len(view.plan) - data
    spans: list[Span] = [
        plain(" "),
        Span("plan  ", Tone.DIM),
        bright(many(data, "move")),
        *((bright(f", {format_bytes(total)} to copy"),) if data else ()),
    ]
    if unknown:
        spans.append(Span(f"   {unknown} of unknown size", Tone.LOOK))
    if others:
        spans.append(Span(f"   {others} without data", Tone.FINE))
    return fit((*spans, *_verdict(view, width - width_of(spans))), width)


def _verdict(view: PlanView, room: int) -> Line:
    """Return in a word whether this plan can be applied as it is."""
    if view.study is None:
        return (dim("   checking"),)
    found = view.study.findings_at(view.rate_bytes_per_s)
    worst = {severity: _of(found, severity) for severity in Severity}
    for severity, mark, tone, word in (
        (Severity.ILLEGAL, "✗", Tone.ACT, "illegal"),
        (Severity.UNSAFE, "▲", Tone.LOOK, "to allow"),
    ):
        if worst[severity]:
            return (Span(f"   {mark} {worst[severity]} {word}", tone, bold=True),)
    return (Span("   √ safe", Tone.FINE),)


def _of(findings: tuple[Finding, ...], severity: Severity) -> int:
    return len({finding.id for finding in findings if finding.severity is severity})


def _main(view: PlanView, width: int, height: int) -> Lines:
    lines: list[Line] = [title_line(view, width), BLANK, diff_header(width)]
    checks = _checks(view, width, max((height - 3) // 3, 4))
    topics = len({move.tp.topic for move in view.plan})
    room = min(height - len(lines) - len(checks) - 2, len(view.plan) + topics)
    lines += diff_lines(
        view.state, view.plan, view.cursor, width, room, focused=not view.on_throttle
    )
    return (*lines, BLANK, rule("checks", width), *checks)


def _panel(view: PlanView, width: int, height: int) -> Lines:
    lines: list[Line] = [rule("throttle", width)]
    if view.study is None:
        return (*lines, view.estimating)
    lines += _throttle(view, view.study, width, 11)
    reasons = _reasons(view, view.study, width, 4)
    lines += [BLANK, *reasons] if reasons else []
    lines += [BLANK, rule("brokers, before and after", width)]
    lines += impact_lines(view.study.impact, width, height - len(lines))
    return tuple(lines)


def _stacked(view: PlanView, width: int, height: int) -> Lines:
    head: list[Line] = [title_line(view, width), diff_header(width)]
    below: list[Line] = []
    if view.study is None:
        below.append(view.estimating)
    else:
        checks = _checks(view, width, 3)
        below += [rule("checks", width), *checks, rule("throttle", width)]
        rows = min(max(height - len(head) - len(below) - 8, 4), 9)
        below += _throttle(view, view.study, width, rows)
        below += _reasons(view, view.study, width, 2)
        below += [fit((dim("  then  "), plain(impact_sentence(view.study.impact))), width)]
    room = max(height - len(head) - len(below), 2)
    diff = diff_lines(view.state, view.plan, view.cursor, width, room, focused=not view.on_throttle)
    blank: Lines = (BLANK,) * (room - len(diff))
    return (*head, *diff, *blank, *below)[:height]


def _checks(view: PlanView, width: int, height: int) -> Lines:
    if view.study is None:
        return ((dim("  checking"),),)
    return finding_lines(view.study.findings_at(view.rate_bytes_per_s), width, height)


def _throttle(view: PlanView, study: Study, width: int, height: int) -> Lines:
    chosen = study.row_of(view.rate_bytes_per_s)
    return throttle_lines(
        study.table, study.crowds, chosen, width, height, focused=view.on_throttle
    )


def _reasons(view: PlanView, study: Study, width: int, height: int) -> Lines:
    chosen = study.row_of(view.rate_bytes_per_s)
    lines = reason_lines(
        study.table[chosen], study.crowds[chosen], width - 4, height, table_width=width
    )
    return tuple((plain("  "), *line) for line in lines)
