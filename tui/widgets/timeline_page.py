"""The Timeline as lines: lanes of brokers and autopilot, below what happened, the newest last."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from core.units import format_duration
from core.watch.timeline.events import Kind
from core.watch.timeline.unseen import SILENT
from tui.lanes import AUTOPILOT, Lane
from tui.past import Compared, Past, PastRow
from tui.widgets.lines import (
    BLANK,
    Ground,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    fit,
    highlighted,
    hitting,
    plain,
    rule,
    window,
    wrapped,
)

HORIZONS: tuple[float | None, ...] = (300.0, 900.0, 3600.0, 21600.0, 86400.0, None)
"""Seconds that the lanes may show; None is all that was read."""
USUAL = 3600.0

_CELLS = {
    Lane.ABSENT: (" ", Tone.FAINT),
    Lane.UP: ("─", Tone.FAINT),
    Lane.LEADS: ("●", Tone.YOURS),
    Lane.TOLD: ("◆", Tone.LOOK),
    Lane.BACK: ("√", Tone.FINE),
    Lane.UNSEEN: ("╌", Tone.DIM),
    Lane.BEHIND: ("!", Tone.LOOK),
    Lane.DOWN: ("✗", Tone.ACT),
    Lane.SUGGESTS: ("─", Tone.FAINT),
    Lane.ACTS: ("━", Tone.FAINT),
    Lane.WAITED: ("·", Tone.LOOK),
    Lane.DECIDED: ("◆", Tone.YOURS),
}
_QUIET = (Lane.ABSENT, Lane.UP, Lane.SUGGESTS, Lane.ACTS)
_LEGEND = (
    (Lane.DOWN, "down"),
    (Lane.BEHIND, "out of sync"),
    (Lane.BACK, "back"),
    (Lane.LEADS, "leaders changed"),
    (Lane.TOLD, "told of"),
    (Lane.UNSEEN, "nobody looked"),
)
_AUTOPILOT_LEGEND = (
    (Lane.ACTS, "may act"),
    (Lane.SUGGESTS, "suggests"),
    (Lane.DECIDED, "decided"),
    (Lane.WAITED, "waited"),
)
_MARKS = (
    (Kind.BROKER_DOWN | Kind.OFFLINE, "✗", Tone.ACT),
    (Kind.ISR_SHRINK, "!", Tone.LOOK),
    (Kind.UNSEEN | Kind.TOPIC_DELETED, "▲", Tone.LOOK),
    (Kind.BROKER_UP | Kind.ISR_EXPAND, "√", Tone.FINE),
    (Kind.LEADER | Kind.CONTROLLER, "●", Tone.YOURS),
    (Kind.CLIENT | Kind.LOAD | Kind.FAULT, "◆", Tone.LOOK),
    (Kind.RUN | Kind.GROUP | Kind.AUTOPILOT, "◆", Tone.YOURS),
)


@dataclass(frozen=True, slots=True)
class RowHit:
    """A click on a row of the list."""

    index: int


@dataclass(frozen=True, slots=True)
class LaneHit:
    """A click on a mark in a lane: when that was."""

    at: datetime


@dataclass(frozen=True, slots=True)
class BrokerHit:
    """A click on a broker's name."""

    broker: int


@dataclass(frozen=True, eq=False, slots=True)
class TimelineView:
    """What the Timeline shows; without `past` it says why there is none."""

    past: Past | None
    why: tuple[str, ...]
    """A title, and sentences, for when nothing was recorded."""
    rows: tuple[PastRow, ...]
    cursor: int
    compared: Compared | None
    """What differs between two moments, when that is listed instead of what happened."""
    fine_at: datetime | None
    following: bool
    horizon: float | None
    """Seconds that the lanes show, None for all."""
    now: datetime
    """When the cluster was last looked at, by its clock."""
    typing: bool

    @property
    def silent(self) -> bool:
        """Return whether nobody records any more."""
        return self.past is not None and self.now - self.past.span[1] > SILENT


def timeline_lines(view: TimelineView, width: int, height: int) -> Lines:
    """Return the whole screen in at most `height` lines."""
    past = view.past
    if past is None:
        return _nothing(view.why, width)[:height]
    head: list[Line] = [_title(view, past, width)]
    if view.typing or past.asked.words or past.asked.kind:
        head.append(_filter(view, past, width))
    if height >= 30:
        head.append(BLANK)
    brokers = min(len(past.lanes.brokers), max((height - len(head)) // 3, 2))
    head += _lanes(view, past, width, brokers)
    if height >= 30:
        head.append(BLANK)
    if view.compared is None:
        note = f"{len(past.found):,} of {_count(len(past.events))}"
        head.append(rule("what happened", width, note=note))
    else:
        note = f"{len(view.compared.found):,} of {_count(view.compared.changes)}"
        head.append(rule(f"what is different since {clock(view.compared.since)}", width, note=note))
    return (*head, *_list(view, past, width, height - len(head)))[:height]


def _nothing(why: Sequence[str], width: int) -> Lines:
    title, *sentences = why
    lines: list[Line] = [BLANK, fit((bright(f"  {title}"),), width)]
    for sentence in sentences:
        lines += [fit((dim(f"  {text}"),), width) for text in wrapped(sentence, min(width - 4, 90))]
    return tuple(lines)


def _count(events: int) -> str:
    return f"{events:,} change{'' if events == 1 else 's'}"


def _title(view: TimelineView, past: Past, width: int) -> Line:
    since, until = past.span
    days = "" if since.date() == until.date() else f"{since:%Y-%m-%d} "
    row = view.rows[view.cursor] if view.rows else None
    at: Line = (bright("now"),)
    if view.compared is not None:
        second = "now" if view.compared.now else clock(view.compared.until)
        lasted = (view.compared.until - view.compared.since).total_seconds()
        at = (
            bright(f"{clock(view.compared.since)} against {second}"),
            dim(f"  {format_duration(lasted)}"),
        )
    elif row is not None and not view.following:
        ago = (view.now - row.until).total_seconds()
        at = (bright(f"{clock(row.until)}"), dim(f"  {format_duration(max(ago, 0))} ago"))
    fine = () if view.fine_at is None else (Span(f"   √ fine at {clock(view.fine_at)}", Tone.FINE),)
    silent = view.silent
    recorded = f"recorded since {days}{since:%H:%M} UTC, {until:%-d %b}"
    if silent:
        recorded = f"recorded {days}{since:%H:%M} to {until:%H:%M:%S} UTC, {until:%-d %b}"
    if past.cut or past.told_cut:
        recorded += ", the newest shown"
    words = Span(f"▲ {recorded}", Tone.LOOK) if silent else dim(recorded)
    return fit((plain(" "), *at, *fine, plain("   "), words), width)


def _filter(view: TimelineView, past: Past, width: int) -> Line:
    words = (Span(" / ", Tone.YOURS, bold=True), plain(past.asked.words))
    typing = (Span(" ", Tone.YOURS, bold=True), dim("   enter keeps it, esc drops it"))
    kind = (dim("   only "), bright(past.asked.kind)) if past.asked.kind else ()
    return fit((*words, *(typing if view.typing else ()), *kind), width)


# -- the lanes ------------------------------------------------------------------------------------


def usual_horizon(past: Past) -> float:
    """Return the least that shows all that was recorded, an hour at most."""
    recorded = (past.span[1] - past.span[0]).total_seconds()
    return next(h for h in HORIZONS if h is not None and (h >= min(recorded, USUAL)))


def shown_time(past: Past, horizon: float | None, at: datetime | None) -> tuple[float, float]:
    """Return from when to when the lanes go: to the end, or around the cursor before that."""
    first, last = (moment.timestamp() for moment in past.span)
    if past.cut:
        first = past.events[0].at.timestamp()
    length = max(last - first, 60.0)
    if horizon is not None:
        length = min(horizon, length)
    until = last
    if at is not None and at.timestamp() < last - length:
        until = min(at.timestamp() + length / 2, last)
    return until - length, until


def _lanes(view: TimelineView, past: Past, width: int, most: int) -> Lines:
    moments = _moments(view)
    since, until = shown_time(past, view.horizon, moments[0] if moments else None)
    wide = width >= 110
    label = max(len(str(b)) for b in past.lanes.brokers) + (9 if wide else 3)
    if past.lanes.autopilot:
        label = max(label, len(_pilot(wide)) + 1)
    room = max(width - label - 2, 1)
    # A clock that ticks on a quiet screen would only take the eye, and the line's bytes.
    live = until == past.span[1].timestamp() and not view.silent
    last = "now" if live else f"{datetime.fromtimestamp(until, UTC):%H:%M:%S}"
    marks = {
        min(int((at.timestamp() - since) / (until - since) * room), room - 1): at
        for at in moments
        if since <= at.timestamp() <= until
    }
    chosen = sorted(past.lanes.worst(since, until)[:most])
    hidden = len(past.lanes.brokers) - len(chosen)
    note = format_duration(until - since)
    title = "brokers" if not hidden else f"brokers, {hidden} quieter ones not shown"
    lines: list[Line] = [rule(title, width, note=note)]
    worst = Lane.UP
    for broker in chosen:
        cells = past.lanes.cells(broker, since, until, room)
        worst = max(worst, *cells)
        name = f" {'broker ' if wide else 'b'}{broker}"
        tone = Tone.ACT if cells[-1] is Lane.DOWN else Tone.PLAIN
        head = Span(name.ljust(label), tone, bold=tone is Tone.ACT, hit=BrokerHit(broker))
        lines.append(fit((head, *_cells(cells, since, until, marks)), width))
    if past.lanes.autopilot:
        cells = past.lanes.cells(AUTOPILOT, since, until, room)
        head = plain(_pilot(wide).ljust(label))
        lines.append(fit((head, *_cells(cells, since, until, marks)), width))
    lines.append(_axis(since, marks, label, room, last))
    if wide:
        lines.append(_legend(_LEGEND, label, width))
    if wide and past.lanes.autopilot:
        lines.append(_legend(_AUTOPILOT_LEGEND, label, width))
    return tuple(fit(line, width) for line in lines)


def _pilot(wide: bool) -> str:
    return " autopilot" if wide else " auto"


def _moments(view: TimelineView) -> tuple[datetime, ...]:
    """Return the moments that are marked in the lanes, the one that must be in sight first."""
    if view.compared is not None:
        return (view.compared.since, view.compared.until)
    fine = () if view.fine_at is None else (view.fine_at,)
    if view.rows and not view.following:
        return (view.rows[view.cursor].until, *fine)
    return fine


def _cells(cells: Sequence[Lane], since: float, until: float, marks: Container[int]) -> Line:
    """Return a lane as spans: what is quiet in one, each mark as a click to its time."""
    spans: list[Span] = []
    step = (until - since) / len(cells)
    for n, cell in enumerate(cells):
        char, tone = _CELLS[cell]
        quiet = cell in _QUIET
        ground = Ground.CURSOR if n in marks else Ground.NONE
        last = spans[-1] if spans else None
        if quiet and last and last.hit is None and (last.tone, last.ground) == (tone, ground):
            spans[-1] = replace(last, text=last.text + char)
            continue
        at = None if quiet else LaneHit(datetime.fromtimestamp(since + step * (n + 1), UTC))
        spans.append(Span(char, tone, cell is Lane.DOWN, ground, at))
    return tuple(spans)


def _axis(since: float, marks: Mapping[int, datetime], label: int, room: int, last: str) -> Line:
    """Return the times that are marked, and those at both ends where there is room for them."""
    first = f"{datetime.fromtimestamp(since, UTC):%H:%M:%S}"
    at_marks = [(at, f"{time.astimezone(UTC):%H:%M:%S}", True) for at, time in marks.items()]
    chars, marked = list(" " * room), [False] * room
    for at, text, yours in (*at_marks, (0, first, False), (room, last, False)):
        start = min(max(at - len(text) // 2, 0), max(room - len(text), 0))
        if "".join(chars[max(start - 1, 0) : start + len(text) + 1]).strip():
            continue
        for n, char in enumerate(text[: room - start], start):
            chars[n], marked[n] = char, yours
    spans = [
        Span("".join(chars[n] for n in group), Tone.YOURS if yours else Tone.DIM, bold=yours)
        for yours, group in groupby(range(room), key=marked.__getitem__)
    ]
    return (plain(" " * label), *spans)


def _legend(words: Sequence[tuple[Lane, str]], label: int, width: int) -> Line:
    spans = [plain(" " * label)]
    for lane, word in words:
        char, tone = _CELLS[lane]
        spans += [Span(char, tone), dim(f" {word}   ")]
    return fit(tuple(spans), width)


# -- what happened --------------------------------------------------------------------------------


def clock(at: datetime) -> str:
    here = at.astimezone(UTC)
    return f"{here:%H:%M:%S}.{here.microsecond // 100_000}"


def dated(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d} {clock(at)}"


def _list(view: TimelineView, past: Past, width: int, height: int) -> Lines:
    if not view.rows:
        none = (
            "nothing here is what is asked for: esc drops the filter"
            if past.events
            else f"Nothing has changed since {past.span[0]:%H:%M:%S}."
        )
        if view.compared is not None and not view.compared.changes:
            none = "Nothing is different: all that changed meanwhile has gone back."
        return (fit((dim(f"  {none}"),), width),)
    days = past.span[0].date() != past.span[1].date()
    lines = []
    for n in window(len(view.rows), height, view.cursor):
        line = _row(view, n, width, days=days)
        hit = RowHit(n)
        lines.append(highlighted(line, width, hit) if n == view.cursor else hitting(line, hit))
    return tuple(lines)


def _row(view: TimelineView, n: int, width: int, *, days: bool) -> Line:
    row, at = view.rows[n], view.rows[n].at.astimezone(UTC)
    day = f"{at:%m-%d} " if days else ""
    when = "" if view.compared else f"{day}{clock(at)} "  # a difference has no time of its own
    cursor = Span("▸ " if n == view.cursor else "  ", Tone.YOURS, bold=True)
    if row.event is not None:
        indent = " " * 8 if when else " " * 4
        return fit((cursor, dim(f"{when}{indent}"), plain(row.text)), width)
    mark, tone = next(
        ((mark, tone) for kinds, mark, tone in _MARKS if kinds & row.key.kind), (" ", Tone.PLAIN)
    )
    many = len(row.happening.events) > 1
    weight = tone in (Tone.ACT, Tone.LOOK)
    return fit(
        (
            cursor,
            dim(when),
            dim("+ " if many else "  "),
            Span(f"{mark} ", tone, bold=weight),
            Span(row.text, tone if weight else Tone.PLAIN, bold=tone is Tone.ACT),
        ),
        width,
    )
