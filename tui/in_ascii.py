"""What --ascii draws instead: one table, applied to every line of every screen and dialog."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ASCII = str.maketrans(
    {
        **dict.fromkeys("█▉▊▋▌", "#"),
        **dict.fromkeys("▍▎▏", ":"),
        **dict.fromkeys("▖▗▘▝▚▞▀▄▙▛▜▟▐", "*"),
        **dict.fromkeys("┼┤├└┘┬┴┌┐", "+"),
        **dict.fromkeys("→▸≥", ">"),
        **dict.fromkeys("◂≤", "<"),
        **dict.fromkeys("─–—−", "-"),
        **dict.fromkeys("━‖", "="),
        **dict.fromkeys("╌┄░◌", "."),
        **dict.fromkeys("▒▓", "%"),
        "╱": "/",
        "◆": "#",
        "│": "|",
        "●": "*",
        **dict.fromkeys("○•", "o"),
        "·": ".",
        "▲": "^",
        "✗": "x",
        **dict.fromkeys("√✓±", "+"),
        "×": "x",
        "…": "~",
    }
)


def in_ascii(text: str) -> str:
    """Return `text` in ASCII, as many columns wide; what the table lacks, as in a name, is `?`."""
    drawn = text.translate(_ASCII)
    if drawn.isascii():
        return drawn
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in drawn)


class AsciiOnly(LineFilter):
    """Draws what Textual is about to show with ASCII alone."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else segment._replace(text=in_ascii(segment.text))
            for segment in segments
        ]
