"""The line above the map while it shows the past: which moment, and that it is not now."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from core.units import format_duration
from tui.session import Session
from tui.theming import Glyphs, Palette
from tui.widgets.canvas import Canvas, Row

if TYPE_CHECKING:
    from tui.past import Then


def banner_row(session: Session, palette: Palette, glyphs: Glyphs, width: int) -> Row:
    """Return the banner; what does not fit is left out from the right."""
    row = Row(width, palette.style("text", "raised"))
    then, state = session.then, session.state
    if then is None or state is None:
        return row
    at = then.at.astimezone(UTC)
    ago = max((state.fetched_at - then.at).total_seconds(), 0)
    x = row.put(0, f" AS IT WAS {at:%H:%M:%S}Z ", palette.style("on_strong", "look", bold=True))
    parts = [
        f"{at:%-d %b}, {format_duration(ago)} ago",
        "edits off",
        *_known(then),
    ]
    for part in parts:
        text = f"{' ' if part is parts[0] else f' {glyphs.dot} '}{part}"
        if x + len(text) <= width:
            x = row.put(x, text, palette.style("text", "raised"))
    told = session.past.told_at(then.at) if session.past else ""
    room = width - x - 4
    if told and room >= 12:
        told = told if len(told) <= room else told[: room - 1] + glyphs.ellipsis
        told = told.replace("→", glyphs.arrow)
        row.put(x + 3, told, palette.style("bright", "raised", bold=True))
    return row


def _known(then: Then) -> tuple[str, ...]:
    """Say which load is shown, by the end of its window; sizes were never kept."""
    if then.load is None or then.load.as_of is None:
        return ("load and sizes unknown",)
    return f"load until {then.load.as_of.astimezone(UTC):%H:%M}Z", "sizes unknown"


class ThenBanner(Canvas):
    """The banner; not displayed while the map shows what is."""

    DEFAULT_CSS = "ThenBanner { height: 1; display: none; }"

    def show(self, session: Session, palette: Palette, glyphs: Glyphs, width: int) -> None:
        if session.then is not None:
            self.put_rows([banner_row(session, palette, glyphs, width)])
