"""The banner over a screen that shows the past: when, how long ago, and what is not known."""

from __future__ import annotations

from datetime import UTC

from core.units import format_duration
from tui.actions.action import MAP
from tui.drawing.canvas import Canvas, Row
from tui.session import PastMoment, Session
from tui.theming import Glyphs, Palette

LACKING = "load and sizes unknown"


def banner_row(session: Session, place: str, palette: Palette, glyphs: Glyphs, width: int) -> Row:
    """Return the banner; what does not fit is left out from the right."""
    row = Row(width, palette.style("text", "raised"))
    then, state = session.past_moment, session.state
    if then is None or state is None:
        return row
    at = then.at.astimezone(UTC)
    ago = max((state.fetched_at - then.at).total_seconds(), 0)
    x = row.put(0, f" AS IT WAS {at:%H:%M:%S}Z ", palette.style("on_strong", "look", bold=True))
    parts = [f"{at:%-d %b}, {format_duration(ago)} ago", *_notes(then, place)]
    for part in parts:
        text = f"{' ' if part is parts[0] else f' {glyphs.dot} '}{part}"
        if x + len(text) <= width:
            x = row.put(x, text, palette.style("text", "raised"))
    last_event = session.recorded.described_at(then.at) if session.recorded else ""
    room = width - x - 4
    if last_event and room >= 12:
        if len(last_event) > room:
            last_event = last_event[: room - 1] + "…"
        row.put(x + 3, last_event, palette.style("bright", "raised", bold=True))
    return row


def _notes(then: PastMoment, place: str) -> list[str]:
    """Return what to know of a moment, most important first; sizes of then are the Load's only."""
    as_of = then.load.as_of if then.load else None
    until = "load unknown" if as_of is None else f"load until {as_of.astimezone(UTC):%H:%M}Z"
    if place != MAP:
        return [until]
    notes = []
    if then.observed_at is None:
        notes.append("on the replicas of now")
    elif then.observed_at < then.at:
        notes.append(f"on the replicas of {then.observed_at.astimezone(UTC):%-d %b %H:%M}Z")
    return [*notes, "edits off", *((until, "sizes unknown") if as_of else (LACKING,))]


class PastBanner(Canvas):
    """The banner; not displayed while its screen shows what is."""

    DEFAULT_CSS = "PastBanner { height: 1; display: none; }"

    def show(
        self, session: Session, place: str, palette: Palette, glyphs: Glyphs, width: int
    ) -> bool:
        """Draw the banner; return whether it came, or went."""
        before, self.display = self.display, session.past_moment is not None
        if self.display:
            self.put_rows([banner_row(session, place, palette, glyphs, width)])
        return before != self.display
