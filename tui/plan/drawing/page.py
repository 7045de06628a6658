"""The Plan screen as lines: the diff and what speaks against it, beside throttle and impact."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core.cluster.state import ClusterState
from core.plan.checks.catalogue import Severity, has_unknowns
from core.plan.plan import Plan
from core.plan.planner.evenness import Evenness
from core.units import counted, format_duration, format_rate
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    plain,
    rule,
    side_by_side,
    width_of,
)
from tui.plan.assessment import PlanAssessment, RateAssessment, total_to_copy
from tui.plan.drawing.broker_tables import (
    balance_spans,
    bar_lines,
    effect_lines,
    effect_sentence,
    worst_spans,
)
from tui.plan.drawing.checks import check_lines
from tui.plan.drawing.diff import copied_words, diff_header, diff_lines
from tui.plan.drawing.impact import impact_line, impact_lines
from tui.plan.drawing.throttle_table import reason_lines, throttle_lines
from tui.plan.drawing.time_lanes import lane_lines
from tui.plan.suggested_plan import SuggestedPlan

SIDE_BY_SIDE = 110
"""Columns from which throttle and impact stand beside the diff."""


class Pane(Enum):
    """What keys go through, and what has the room; the throttle table is beside the moves."""

    MOVES = "moves"
    THROTTLE = "throttle"
    BROKERS = "brokers"
    IMPACT = "impact"


@dataclass(frozen=True, slots=True)
class PlanView:
    """What the Plan screen shows: `assessment` is None until the first one of this plan is done."""

    state: ClusterState
    plan: Plan
    assessment: PlanAssessment | None
    rate_bytes_per_s: int
    cursor: int
    pane: Pane = Pane.MOVES
    rate_pending: bool = False
    """Whether keys wait for the table to choose a rate from."""
    even: Evenness | None = None
    suggested: SuggestedPlan | None = None
    """The plan that was suggested last."""
    planner: str = ""
    """What is said while one is being made."""
    broker: int = 0
    """The one under the cursor, where all brokers are shown."""
    top: int = 0
    """The first line, where it is shown who notices it."""
    rate_chosen: bool = False
    """Whether somebody has chosen the rate; else it is the one that suits."""
    order: tuple[int, ...] | None = None
    """The moves' indices, those that help most for their bytes first; None by topic."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the planner says that no plan can do, while its plan is there."""
        if self.suggested is None or not self.suggested.is_part_of(self.plan):
            return ()
        return self.suggested.result.notes

    @property
    def at_rate(self) -> RateAssessment | None:
        """Return the assessment at the rate chosen, else at the one that apply proposes."""
        return None if self.assessment is None else self.assessment.at(self.rate_bytes_per_s)

    @property
    def checks_title(self) -> str:
        """Return at which rate it is checked."""
        estimate = None if self.at_rate is None else self.at_rate.estimate
        if estimate is None or not estimate.total_bytes or estimate.rate_bytes_per_s < 0:
            return "checks"
        proposed = "" if self.rate_chosen else ", as proposed"
        return f"checks at {format_rate(estimate.rate_bytes_per_s)}{proposed}"

    @property
    def estimating(self) -> Line:
        """Return what stands where the table will be."""
        return (dim("  estimating" + ("; your choice is taken then" if self.rate_pending else "")),)


def plan_lines(view: PlanView, width: int, height: int) -> Lines:
    """Return the whole screen in `height` lines."""
    if not len(view.plan):
        return (_planning_line(view) if view.planner else BLANK, *EMPTY)
    if view.pane is Pane.BROKERS and view.even is not None:
        head = (*head_lines(view, width), BLANK)
        return (*head, *bar_lines(view.even, view.broker, width, height - len(head)))
    if view.pane is Pane.IMPACT and view.assessment is not None:
        lines = impact_lines(view.assessment.impact, width)
        top = min(view.top, max(len(lines) - height, 0))
        return lines[top : top + height]
    if width >= SIDE_BY_SIDE:
        panel = 70 if width >= 160 else 52
        main = width - panel - 4
        first, second = _main(view, main, height), _panel(view, panel, height)
        # The border is as much shorter as the panel is longer than the moves.
        rows = max(height - max(len(second) - len(first), 0), len(second))
        return side_by_side(first, second, (main, panel), rows)
    return _stacked_layout(view, width, height)


EMPTY: Lines = (
    (bright("  The plan is empty."),),
    (dim("  Nothing is sent to the cluster while you edit one."),),
    BLANK,
    *(
        (plain("    "), Span(f"{key:<7}", Tone.YOURS, bold=True), plain(words))
        for key, words in (
            ("a", "ask for a whole plan: balance, drain, fill, replace, racks"),
            ("1", "or open the map"),
            ("space", "pick the replica under the cursor up"),
            ("h l", "carry it along its row; what it would do is shown at each broker"),
            ("enter", "drop it: the move is in the plan"),
            ("a", "there: take the move that the map suggests"),
        )
    ),
)
"""What to do when there is no plan yet."""


def title_line(view: PlanView) -> Line:
    """Return the plan in numbers."""
    total, unknown = total_to_copy(view.state, view.plan)
    data = sum(bool(move.receiving) for move in view.plan)
    without_data = len(view.plan) - data
    spans: list[Span] = [
        plain(" "),
        Span("plan  ", Tone.DIM),
        bright(counted(data, "move")),
        *((bright(copied_words(total, unknown)),) if data else ()),
    ]
    if unknown:
        spans.append(Span(f"   {unknown} of unknown size", Tone.LOOK))
    if without_data:
        spans.append(Span(f"   {without_data} without data", Tone.FINE))
    return (*spans, *_verdict(view))


def head_lines(view: PlanView, width: int) -> Lines:
    """Return the plan in two lines: what it costs, and what it comes to."""
    second: Line = ()
    if view.planner:
        second = _planning_line(view)
    elif view.assessment is not None and view.assessment.rebased.changes:
        words = plain(f"the cluster has changed: {view.assessment.rebased.words}")
        second = (plain(" "), Span("▲ ", Tone.LOOK, bold=True), words, dim(" · R rebases"))
    elif view.even is not None and view.at_rate is not None:
        estimate = view.at_rate.estimate
        time: Line = ()
        if estimate.seconds is not None and estimate.total_bytes:
            rate = format_rate(estimate.rate_bytes_per_s)
            time = (dim(" · "), bright(format_duration(estimate.seconds)), dim(f" at {rate}"))
        balance, worst = balance_spans(view.even), worst_spans(view.even)
        first = (plain(" "), *balance, *time)
        whole = (*first, dim(" · "), *worst)
        second = whole if worst and width_of(whole) <= width else first
    return (title_line(view), second)


def _planning_line(view: PlanView) -> Line:
    return (plain(" "), Span(view.planner, Tone.YOURS))


def why_line(view: PlanView) -> Line:
    """Return why the move under the cursor is in the plan: the broker and measure it is for."""
    moves = view.plan.moves
    if view.suggested is None or view.cursor >= len(moves):
        return BLANK
    reason = view.suggested.reason(moves[view.cursor])
    dirs = view.suggested.dir_words(moves[view.cursor])
    if reason is None:
        of = (plain(dirs), dim(" of its fair share")) if dirs else (plain("made by hand"),)
        return (dim("  why   "), *of)
    words = reason.words
    if reason.leaves or reason.requested:  # no share of a broker's is why
        return (dim("  why   "), plain(words), *((plain(f", {dirs}"),) if dirs else ()))
    if view.even is not None and reason.broker in view.even.brokers:
        row = view.even.brokers.index(reason.broker)
        now, then = (
            float(loads[row, reason.measure]) for loads in (view.even.before, view.even.after)
        )
        words = f"b{reason.broker} {reason.measure.words} {now:.0%} → {then:.0%}"
    more = plain(f", {dirs}" if dirs else "")
    return (dim("  why   "), plain(words), dim(" of its fair share"), more)


def _verdict(view: PlanView) -> Line:
    """Return in a word whether this plan can be applied as it is."""
    if view.assessment is None or view.at_rate is None:
        return (dim("   checking"),)
    findings = view.at_rate.findings
    for severity, mark, tone, word in (
        (Severity.ILLEGAL, "✗", Tone.ACT, "illegal"),
        (Severity.UNSAFE, "▲", Tone.LOOK, "to allow"),
    ):
        if ids := {finding.id for finding in findings if finding.severity is severity}:
            return (Span(f"   {mark} {len(ids)} {word}", tone, bold=True),)
    if has_unknowns(findings) or view.assessment.not_compared:
        return (Span("   ? safe", Tone.LOOK),)
    return (Span("   √ safe", Tone.FINE),)


def _main(view: PlanView, width: int, height: int) -> Lines:
    lines: list[Line] = [*head_lines(view, width)]
    checks = _checks(view, width, max((height - 3) // 3, 4))
    topics = len({move.tp.topic for move in view.plan})
    hits = () if view.assessment is None else (impact_line(view.assessment.impact, width),)
    room = height - len(lines) - len(checks) - 2 - len(hits)
    lines += _moves(view, width, min(room, len(view.plan) + topics + 1), room)
    return (*lines, why_line(view), *hits, rule(view.checks_title, width), *checks)


def _panel(view: PlanView, width: int, height: int) -> Lines:
    lines: list[Line] = [rule("throttle", width)]
    if view.assessment is None:
        return (*lines, view.estimating)
    at_rate = view.assessment.at(view.rate_bytes_per_s)
    lines += _throttle(view, view.assessment, width, 11)
    reasons = _reasons(at_rate, width, 4)
    lines += [BLANK, *reasons] if reasons else []
    if view.even is not None:
        room = max((height - len(lines) - 4) // 2, 4)
        lines += [BLANK, rule("brokers, % of their fair share", width)]
        lines += bar_lines(view.even, 0, width, room)
    lines += [BLANK, rule("brokers, before and after", width)]
    lines += effect_lines(at_rate.effect, view.assessment.parts, width, height - len(lines))
    return tuple(lines)


def _stacked_layout(view: PlanView, width: int, height: int) -> Lines:
    head: list[Line] = [*head_lines(view, width)]
    below: list[Line] = []
    if view.assessment is None:
        below.append(view.estimating)
    else:
        checks = _checks(view, width, 3)
        why = [why_line(view)] if view.suggested is not None else []
        below += [*why, rule(view.checks_title, width), *checks, rule("throttle", width)]
        rows = min(max(height - len(head) - len(below) - 10, 4), 9)
        below += _throttle(view, view.assessment, width, rows)
        at_rate = view.assessment.at(view.rate_bytes_per_s)
        below += _reasons(at_rate, width, 2)
        then = effect_sentence(at_rate.effect, view.assessment.parts)
        below += [(dim("  then  "), plain(then))]
        below += [impact_line(view.assessment.impact, width)]
    room = max(height - len(head) - len(below), 3)
    diff = _moves(view, width, room, room)
    blank: Lines = (BLANK,) * (room - len(diff))
    return (*head, *diff, *blank, *below)[:height]


def _moves(view: PlanView, width: int, room: int, max_lines: int) -> Lines:
    """Return the moves in `room` lines; while a rate is chosen how it goes over time, in all."""
    timeline = None if view.at_rate is None else view.at_rate.timeline
    if view.pane is Pane.THROTTLE and timeline is not None:
        return lane_lines(timeline, width, max_lines)
    moves = diff_lines(
        view.state,
        view.plan,
        view.cursor,
        width,
        room - 1,
        focused=view.pane is not Pane.THROTTLE,
        order=view.order,
    )
    return (diff_header(width), *moves)


def _checks(view: PlanView, width: int, height: int) -> Lines:
    if view.assessment is None or view.at_rate is None:
        return ((dim("  checking"),),)
    notes = (*view.notes, *view.assessment.not_compared)
    return check_lines(notes, view.at_rate.findings, width, height)


def _throttle(view: PlanView, assessment: PlanAssessment, width: int, height: int) -> Lines:
    chosen, focused = assessment.row_of(view.rate_bytes_per_s), view.pane is Pane.THROTTLE
    return throttle_lines(assessment.table, chosen, width, height, focused=focused)


def _reasons(at_rate: RateAssessment, width: int, height: int) -> Lines:
    lines = reason_lines(at_rate.estimate, width - 4, height, table_width=width)
    return tuple((plain("  "), *line) for line in lines)
