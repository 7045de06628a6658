"""The help screen: every key of the place the user came from, then those that work everywhere."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from tui.actions.action import CARRY, GLOBAL, MAP, PAST_MAP, PLACES
from tui.actions.table import actions_of, keys_of, written
from tui.drawing.canvas import Canvas, Row
from tui.screen.services import DashboardPart
from tui.theming import Glyphs, Palette

KEYS_WIDTH = 16
NAME_WIDTH = 14
HELP_AT = 2 + KEYS_WIDTH + NAME_WIDTH


def help_rows(
    place: str,
    writable: bool,
    reason: str,
    keys: Mapping[str, str],
    width: int,
    palette: Palette,
    glyphs: Glyphs,
    *,
    drills: bool = False,
) -> list[Row]:
    """Return all keys of a place as rows: key, name, what it does."""
    places = [place, *([CARRY, PAST_MAP] if place == MAP else []), GLOBAL]
    rows: list[Row] = []

    def line() -> Row:
        row = Row(width, palette.style())
        rows.append(row)
        return row

    for name in places:
        if rows:
            line()
        title = line()
        title.put(1, PLACES[name], palette.style("bright", bold=True))
        for action in actions_of(name, drills=drills):
            row = line()
            off = action.needs_write and not writable
            chosen = [written(key) for key in keys_of(action, keys)]
            words = f"{chosen[0]} … {chosen[-1]}" if len(chosen) > 3 else " ".join(chosen)
            row.put(
                2, words[: KEYS_WIDTH - 1], palette.style("dim" if off else "yours", bold=not off)
            )
            row.put(2 + KEYS_WIDTH, action.name, palette.style("dim" if off else "text"))
            more = f" {glyphs.dot} {reason}" if off else ""
            for part in textwrap.wrap(action.help + more, max(width - HELP_AT, 1)):
                row.put(HELP_AT, part, palette.style("dim"))
                row = Row(width, palette.style())
                rows.append(row)
            rows.pop()
    return rows


class HelpScreen(ModalScreen[None], DashboardPart[None]):
    """All keys; any of esc, q and ? closes it."""

    BINDINGS = [
        Binding("escape,q,question_mark,enter", "close", "close"),
        Binding("j,down", "scroll_keys(1)", "down"),
        Binding("k,up", "scroll_keys(-1)", "up"),
        Binding("ctrl+d,pagedown,space", "scroll_keys(10)", "page down"),
        Binding("ctrl+u,pageup", "scroll_keys(-10)", "page up"),
        Binding("g,home", "scroll_keys(-1000)", "top"),
        Binding("G,end", "scroll_keys(1000)", "bottom"),
    ]
    DEFAULT_CSS = """
    HelpScreen { background: $background; }
    HelpScreen Canvas { width: 1fr; height: 1fr; }
    """

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place
        self._top = 0

    def compose(self) -> ComposeResult:
        yield Canvas(id="keys")

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll_keys(self, rows: int) -> None:
        self._top += rows
        self._draw()

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll_keys(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll_keys(-3)

    def _draw(self) -> None:
        size = self.size
        if size.height < 2:
            return
        dashboard = self.dashboard
        session, palette = dashboard.session, dashboard.palette
        rows: Sequence[Row] = help_rows(
            self._place,
            session.writable,
            session.read_only_reason,
            dashboard.user_keys,
            size.width,
            palette,
            dashboard.glyphs,
            drills=session.ground is not None,
        )
        room = size.height - 1
        self._top = max(0, min(self._top, len(rows) - room))
        last = Row(size.width, palette.style("text", "panel"))
        x = last.put(1, "esc", palette.style("yours", "panel", bold=True))
        x = last.put(x + 1, "close", palette.style("text", "panel"))
        if len(rows) > room:
            x = last.put(x + 3, "j k", palette.style("yours", "panel", bold=True))
            last.put(x + 1, "scroll", palette.style("text", "panel"))
        shown = list(rows[self._top : self._top + room])
        blank = [Row(size.width, palette.style()) for _ in range(room - len(shown))]
        self.query_one(Canvas).put_rows([*shown, *blank, last])
