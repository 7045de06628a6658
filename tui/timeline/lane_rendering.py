"""Draws the lanes of brokers and the autopilot over time; a click on a mark goes to its time."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from core.units import format_duration
from tui.drawing.spans import Ground, Line, Lines, Span, Tone, dim, plain, rule
from tui.timeline.history import RecordedTimeline
from tui.timeline.lane_data import AUTOPILOT, Lane

HORIZONS: tuple[float | None, ...] = (300.0, 900.0, 3600.0, 21600.0, 86400.0, None)
"""Seconds that the lanes may show; None is all that was read."""
USUAL = 3600.0

_CELLS = {
    Lane.ABSENT: (" ", Tone.FAINT),
    Lane.UP: ("─", Tone.FAINT),
    Lane.LEADS: ("●", Tone.YOURS),
    Lane.REPORTED: ("◆", Tone.LOOK),
    Lane.BACK: ("√", Tone.FINE),
    Lane.UNOBSERVED: ("╌", Tone.DIM),
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
    (Lane.REPORTED, "told of"),
    (Lane.UNOBSERVED, "nobody looked"),
)
_AUTOPILOT_LEGEND = (
    (Lane.ACTS, "may act"),
    (Lane.SUGGESTS, "suggests"),
    (Lane.DECIDED, "decided"),
    (Lane.WAITED, "waited"),
)


@dataclass(frozen=True, slots=True)
class LaneHit:
    """A click on a mark in a lane: when that was."""

    at: datetime


@dataclass(frozen=True, slots=True)
class BrokerHit:
    """A click on a broker's name."""

    broker: int


def usual_horizon(past: RecordedTimeline) -> float:
    """Return the least that shows all that was recorded, an hour at most."""
    recorded = (past.span[1] - past.span[0]).total_seconds()
    return next(h for h in HORIZONS if h is not None and (h >= min(recorded, USUAL)))


def _shown_time(
    past: RecordedTimeline, horizon: float | None, at: datetime | None
) -> tuple[float, float]:
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


def lane_lines(
    past: RecordedTimeline,
    horizon: float | None,
    moments: Sequence[datetime],
    width: int,
    max_lines: int,
    *,
    silent: bool,
) -> Lines:
    """Return lanes of the worst `max_lines` brokers over a horizon, `moments` marked in them."""
    since, until = _shown_time(past, horizon, moments[0] if moments else None)
    wide = width >= 110
    label = max(len(str(b)) for b in past.lanes.brokers) + (9 if wide else 3)
    autopilot = " autopilot" if wide else " auto"
    if past.lanes.autopilot:
        label = max(label, len(autopilot) + 1)
    room = max(width - label - 2, 1)
    # A clock that ticks on a quiet screen would only take the eye, and the line's bytes.
    live = until == past.span[1].timestamp() and not silent
    last = "now" if live else f"{datetime.fromtimestamp(until, UTC):%H:%M:%S}"
    marks = {
        min(int((at.timestamp() - since) / (until - since) * room), room - 1): at
        for at in moments
        if since <= at.timestamp() <= until
    }
    chosen = sorted(past.lanes.worst(since, until)[:max_lines])
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
        lines.append((head, *_cells(cells, since, until, marks)))
    if past.lanes.autopilot:
        cells = past.lanes.cells(AUTOPILOT, since, until, room)
        lines.append((plain(autopilot.ljust(label)), *_cells(cells, since, until, marks)))
    lines.append(_axis(since, marks, label, room, last))
    if wide:
        lines.append(_legend(_LEGEND, label))
    if wide and past.lanes.autopilot:
        lines.append(_legend(_AUTOPILOT_LEGEND, label))
    return tuple(lines)


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


def _legend(words: Sequence[tuple[Lane, str]], label: int) -> Line:
    spans = [plain(" " * label)]
    for lane, word in words:
        char, tone = _CELLS[lane]
        spans += [Span(char, tone), dim(f" {word}   ")]
    return tuple(spans)
