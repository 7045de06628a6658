"""What --ascii draws instead, on every line of every screen and dialog."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from core.text.terminal import in_ascii


class AsciiOnly(LineFilter):
    """Draws what Textual is about to show with ASCII alone."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else segment._replace(text=in_ascii(segment.text))
            for segment in segments
        ]
