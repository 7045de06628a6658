"""The header of every screen: cluster, read-only or not, age of each source, screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC

from textual import events

from core.load.load import Source
from tui.actions.action import LOAD, MAP, SCREENS
from tui.drawing.canvas import Canvas, Row
from tui.session import Session, age_words
from tui.theming import Glyphs, Palette

EDGE = 1
NAME_WIDTH = 24
WIDE = 110
KNOWN_THEN = "shown is what was known then"
PAST_SCREENS = (MAP, LOAD)
"""The screens that show the past while there is one."""


@dataclass(frozen=True, slots=True)
class Tab:
    """Where a screen's name is drawn, for the mouse."""

    screen: str
    start: int
    end: int


def header_row(
    session: Session,
    active: str,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
) -> tuple[Row, tuple[Tab, ...]]:
    """Return the header and where its tabs are; what does not fit is left out, least first."""
    row = Row(width, palette.style("dim", "panel"))
    shown = [(f" {n} {SCREENS[screen]} ", screen) for n, screen in enumerate(SCREENS, 1)]
    name = session.cluster_name
    if len(name) > NAME_WIDTH:
        name = name[: NAME_WIDTH - 1] + "…"
    counts = _count_variants(session, glyphs)
    past = session.past_moment if active in PAST_SCREENS else None
    ages = [] if past else _ages(session, glyphs, width)
    then = f" PAST {past.at.astimezone(UTC):%-d %b %H:%M}Z " if past else ""
    ages_width = sum(len(text) for text, _ in ages)
    access = then or (" EDIT " if session.writable else " READ ")
    fixed = EDGE * 2 + len(name) + len(access) + ages_width + 4
    own = [tab for tab in shown if tab[1] == active]
    variants = [
        *((facts, shown) for facts in counts[:-2]),
        *((facts, own) for facts in counts),
        ("", []),
    ]
    # Facts before tabs that a digit opens; the name, the access and the ages always stay.
    facts, placed = variants[-1]
    for facts, placed in variants:
        if fixed + len(facts) + 2 + sum(len(text) for text, _ in placed) <= width:
            break
    if session.cluster_color is None:
        x = row.put(EDGE, name, palette.style("bright", "panel", bold=True)) + 2
    else:
        x = row.put(EDGE - 1, f" {name} ", palette.cluster(session.cluster_color)) + 1
    if facts:
        x = row.put(x, facts, palette.style("dim", "panel"))
    if then or session.writable:
        x = row.put(x + 1, access, palette.style("on_strong", "look", bold=True))
    else:
        x = row.put(x, access, palette.style("dim", "panel", bold=True))
    x += 2
    for text, role in ages:
        x = row.put(x, text, palette.style(role, "panel", bold=role in ("look", "act")))
    at = width - EDGE - sum(len(text) for text, _ in placed)
    tabs = []
    for text, screen in placed:
        here = screen == active
        role, ground = ("bright", "raised") if here else ("dim", "panel")
        row.put(at, text, palette.style(role, ground, bold=here))
        tabs.append(Tab(screen, at, at + len(text)))
        at += len(text)
    return row, tuple(tabs)


def _count_variants(session: Session, glyphs: Glyphs) -> list[str]:
    state = session.state
    if state is None:
        return ["waiting for a password" if session.awaits_password else "connecting"]
    brokers = f"{len(state.brokers)} brokers"
    racks = len({broker.rack for broker in state.brokers if broker.rack is not None})
    partitions = f"{state.partition_count:,} partitions"
    dot = f" {glyphs.dot} "
    full = [brokers, *([f"{racks} racks"] if racks > 1 else []), partitions]
    short = f"{brokers}{dot}{state.partition_count:,} part."
    return [dot.join(full), dot.join([brokers, partitions]), short, brokers, ""]


def _ages(session: Session, glyphs: Glyphs, width: int) -> list[tuple[str, str]]:
    """Return the ages as (text, role), amber when older than twice the interval.

    Of a cluster that does not answer, since when: that is how old all of it is.
    """
    parts: list[tuple[str, str]] = []
    if words := session.lost_words:
        return [(words + (f": {KNOWN_THEN}" if width >= WIDE else ""), "act")]
    metadata = session.metadata_age
    if metadata is not None:
        stale = metadata.stale(session.now)
        parts.append((f"kafka {age_words(metadata.age(session.now))}", "look" if stale else "dim"))
        parts.append((f" {glyphs.dot} ", "dim"))
    age, load = session.load_age, session.load
    if load is not None and load.source is Source.DOCUMENT:
        parts.append(("load saved", "dim"))
    elif age is None or load is None or load.source is None:
        parts.append(("load waiting" if session.load_enabled else "no load", "dim"))
    else:
        word = "live" if load.source is Source.LIVE else "load"
        stale = age.stale(session.now)
        parts.append((f"{word} {age_words(age.age(session.now))}", "look" if stale else "dim"))
    if (auto := session.autopilot) is not None and auto.switch.mode.value != "off":
        gone = auto.process is None
        words = f"auto {auto.switch.mode.value}" + (" gone" if gone else "")
        parts.append((f" {glyphs.dot} ", "dim"))
        parts.append((words, "look" if gone else "yours"))
    if session.paused:
        parts.append((f" {glyphs.dot} paused", "yours"))
    return parts


class HeaderLine(Canvas):
    """The header; a click on a tab shows that screen."""

    DEFAULT_CSS = "HeaderLine { height: 1; dock: top; background: $surface; }"

    def __init__(self, show_screen: Callable[[str], None]) -> None:
        super().__init__(id="header")
        self._show_screen = show_screen
        self._tabs: tuple[Tab, ...] = ()

    def show(
        self, session: Session, active: str, width: int, palette: Palette, glyphs: Glyphs
    ) -> None:
        row, self._tabs = header_row(session, active, width, palette, glyphs)
        self.put_rows([row])

    def on_click(self, event: events.Click) -> None:
        for tab in self._tabs:
            if tab.start <= event.x < tab.end:
                self._show_screen(tab.screen)
