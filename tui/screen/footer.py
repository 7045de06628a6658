"""The last line of every screen: what can be done here, and the newest message for a while.

A message that one line does not hold covers the lines above it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.actions.action import Action
from tui.actions.table import keys_of, written
from tui.drawing.canvas import Canvas, Row
from tui.drawing.spans import wrap_text
from tui.theming import Palette

EDGE = 1
GAP = 3
MAX_LINES = 3
"""Of a message: what is being looked at is not covered by it."""


def footer_row(
    actions: Sequence[Action],
    words: Mapping[str, str],
    keys: Mapping[str, str],
    width: int,
    palette: Palette,
    *,
    writable: bool,
) -> Row:
    """Return the keys that fit, each with its word in `words`; the last stays."""
    row = Row(width, palette.style("text", "panel"))
    parts = [
        (
            action.footer_key or written(keys_of(action, keys)[0]),
            words[action.id],
            action.needs_write and not writable,
        )
        for action in actions
        if words[action.id]
    ]

    def taken(chosen: Sequence[tuple[str, str, bool]]) -> int:
        return sum(len(key) + 1 + len(word) + GAP for key, word, _ in chosen) - GAP + 2 * EDGE

    if taken(parts) > width:
        # What an action is set to can be seen elsewhere, too.
        parts = [(key, word.partition(":")[0], off) for key, word, off in parts]
    while len(parts) > 1 and taken(parts) > width:
        # The last one is how to find all the others: it goes last.
        parts.pop(-2)
    x = EDGE
    for key, word, off in parts:
        x = row.put(x, key, palette.style("dim" if off else "yours", "panel", bold=not off))
        x = row.put(x + 1, word, palette.style("dim" if off else "text", "panel")) + GAP
    return row


class FooterLine(Canvas):
    """The footer; `message` is shown instead of the keys until the next one is pressed."""

    DEFAULT_CSS = "FooterLine { height: 1; dock: bottom; background: $surface; }"

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.message: tuple[str, str] | None = None


class LongMessage(Canvas):
    """What of a message is above its last line, which the footer has."""

    DEFAULT_CSS = "LongMessage { layer: above; dock: bottom; margin-bottom: 1; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="message")

    def show(self, rows: Sequence[Row]) -> None:
        self.display = bool(rows)
        if rows:
            self.styles.height = len(rows)
        self.put_rows(rows)


def message_rows(message: tuple[str, str], width: int, palette: Palette) -> list[Row]:
    """Return a message in as many lines as it needs, at most MOST_LINES."""
    text, role = message
    room = width - 2 * EDGE
    rows = []
    for line in wrap_text(text, room, MAX_LINES):
        rows.append(Row(width, palette.style("text", "panel")))
        rows[-1].put(EDGE, line, palette.style(role, "panel", bold=role in ("look", "act")))
    return rows
