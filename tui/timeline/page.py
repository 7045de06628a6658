"""The Timeline as lines: lanes of brokers, below what happened, the newest last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import TrimtabError
from core.units import format_duration
from core.watch.timeline.coverage import MAX_SILENCE
from core.watch.timeline.events import Kind
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    RowHit,
    Span,
    Tone,
    bright,
    dim,
    empty_page,
    filter_line,
    plain,
    row_line,
    rule,
    window,
)
from tui.session import Session
from tui.timeline.history import Comparison, RecordedTimeline, TimelineRow
from tui.timeline.lane_rendering import lane_lines


def why_nothing(session: Session, error: TrimtabError | None, *, looked: bool) -> tuple[str, ...]:
    """Return a title and sentences."""
    if error is not None:
        return (error.title, error.next or "")
    if session.state is None:
        return (f"asking {session.cluster_name} …",)
    if not looked:
        return ("reading …",)
    if session.address is None:
        return (
            "A saved document has no past.",
            "Open the cluster itself: what happens there is recorded while this is open.",
        )
    if session.address.is_simulated:
        return (
            "Simulated clusters are not recorded.",
            "They are gone with their demo. On real brokers a recorder runs beside this "
            "dashboard: trimtab sandbox demo starts some on this machine.",
        )
    here = f"trimtab -b {session.address.bootstrap} timeline --record"
    if not session.load_enabled:
        return (
            "Nothing has been recorded of this cluster on this machine.",
            "With --no-load no recorder runs beside the dashboard.",
            f"Open it without that, or record by hand: {here}",
        )
    return (
        "Nothing has been recorded yet.",
        "The recorder has just been started: its first look takes some seconds.",
        f"If it does not come: {here}",
    )


_MARKS = (
    (Kind.BROKER_DOWN | Kind.OFFLINE, "✗", Tone.ACT),
    (Kind.ISR_SHRINK, "!", Tone.LOOK),
    (Kind.GAP | Kind.TOPIC_DELETED, "▲", Tone.LOOK),
    (Kind.BROKER_UP | Kind.ISR_EXPAND, "√", Tone.FINE),
    (Kind.LEADER | Kind.CONTROLLER, "●", Tone.YOURS),
    (Kind.CLIENT | Kind.LOAD | Kind.FAULT, "◆", Tone.LOOK),
    (Kind.RUN | Kind.GROUP | Kind.AUTOPILOT, "◆", Tone.YOURS),
)


@dataclass(frozen=True, eq=False, slots=True)
class TimelineView:
    """What the Timeline shows; without `past` it says why there is none."""

    past: RecordedTimeline | None
    why: tuple[str, ...]
    """A title, and sentences, for when nothing was recorded."""
    rows: tuple[TimelineRow, ...]
    cursor: int
    compared: Comparison | None
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
        return self.past is not None and self.now - self.past.span[1] > MAX_SILENCE


def timeline_lines(view: TimelineView, width: int, height: int) -> Lines:
    """Return the whole screen in at most `height` lines."""
    past = view.past
    if past is None:
        title, *sentences = view.why
        return empty_page(title, sentences, width)[:height]
    head: list[Line] = [_title(view, past)]
    if view.typing or past.timeline_filter.words or past.timeline_filter.kind:
        kind = past.timeline_filter.kind
        only = (dim("   only "), bright(kind)) if kind else ()
        head.append((*filter_line(past.timeline_filter.words, typing=view.typing), *only))
    if height >= 30:
        head.append(BLANK)
    brokers = min(len(past.lanes.brokers), max((height - len(head)) // 3, 2))
    head += lane_lines(past, view.horizon, _moments(view), width, brokers, silent=view.silent)
    if height >= 30:
        head.append(BLANK)
    if view.compared is None:
        note = f"{len(past.groups):,} of {_count(len(past.events))}"
        head.append(rule("what happened", width, note=note))
    else:
        note = f"{len(view.compared.groups):,} of {_count(view.compared.changes)}"
        head.append(rule(f"what is different since {clock(view.compared.since)}", width, note=note))
    return (*head, *_list(view, past, width, height - len(head)))[:height]


def _count(events: int) -> str:
    return f"{events:,} change{'' if events == 1 else 's'}"


def _title(view: TimelineView, past: RecordedTimeline) -> Line:
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
    recorded = f"recorded since {days}{since:%H:%M} UTC, {until:%-d %b}"
    if view.silent:
        recorded = f"recorded {days}{since:%H:%M} to {until:%H:%M:%S} UTC, {until:%-d %b}"
    if past.cut or past.reported_cut:
        recorded += ", the newest shown"
    words = Span(f"▲ {recorded}", Tone.LOOK) if view.silent else dim(recorded)
    return (plain(" "), *at, *fine, plain("   "), words)


def _moments(view: TimelineView) -> tuple[datetime, ...]:
    """Return the moments that are marked in the lanes, the one that must be in sight first."""
    if view.compared is not None:
        return (view.compared.since, view.compared.until)
    fine = () if view.fine_at is None else (view.fine_at,)
    if view.rows and not view.following:
        return (view.rows[view.cursor].until, *fine)
    return fine


def clock(at: datetime) -> str:
    here = at.astimezone(UTC)
    return f"{here:%H:%M:%S}.{here.microsecond // 100_000}"


def dated(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d} {clock(at)}"


def _list(view: TimelineView, past: RecordedTimeline, width: int, height: int) -> Lines:
    if not view.rows:
        none = (
            "nothing here is what is asked for: esc drops the filter"
            if past.events
            else f"Nothing has changed since {past.span[0]:%H:%M:%S}."
        )
        if view.compared is not None and not view.compared.changes:
            none = "Nothing is different: all that changed meanwhile has gone back."
        return ((dim(f"  {none}"),),)
    days = past.span[0].date() != past.span[1].date()
    lines = []
    for n in window(len(view.rows), height, view.cursor):
        line = _row(view, n, days=days)
        lines.append(row_line(line, width, RowHit(n), chosen=n == view.cursor))
    return tuple(lines)


def _row(view: TimelineView, n: int, *, days: bool) -> Line:
    row, at = view.rows[n], view.rows[n].at.astimezone(UTC)
    day = f"{at:%m-%d} " if days else ""
    when = "" if view.compared else f"{day}{clock(at)} "  # a difference has no time of its own
    cursor = Span("▸ " if n == view.cursor else "  ", Tone.YOURS, bold=True)
    if row.event is not None:
        indent = " " * 8 if when else " " * 4
        return (cursor, dim(f"{when}{indent}"), plain(row.text))
    mark, tone = next(
        ((mark, tone) for kinds, mark, tone in _MARKS if kinds & row.key.kind), (" ", Tone.PLAIN)
    )
    many = len(row.happening.events) > 1
    weight = tone in (Tone.ACT, Tone.LOOK)
    return (
        cursor,
        dim(when),
        dim("+ " if many else "  "),
        Span(f"{mark} ", tone, bold=weight),
        Span(row.text, tone if weight else Tone.PLAIN, bold=tone is Tone.ACT),
    )
