"""A compositor that sends only the columns which changed, and only the attributes which changed.

Textual 8.2 starts each partial update at the left edge of the widget, whatever changed in it, and
writes every segment with all its colours and a reset: four times the bytes, over a thin line.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.color import Color, ColorSystem
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.color import Color as BackgroundColor
from textual.filter import LineFilter
from textual.strip import Strip

from core.text.terminal import in_ascii

RESET = "\x1b[0m"
_OBEYED = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))
"""What a terminal would obey; Textual, which draws labels, counts it as no cell."""
_ATTRIBUTES = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("reverse", "7"),
    ("strike", "9"),
)


@lru_cache(maxsize=4096)
def _color(color: Color | None, system: ColorSystem, foreground: bool) -> str:
    if color is None:
        return "39" if foreground else "49"
    return ";".join(color.downgrade(system).get_ansi_codes(foreground))


@lru_cache(maxsize=4096)
def _sgr_codes(style: Style, system: ColorSystem) -> tuple[str, str, str]:
    """Return a style's attributes, foreground and background as SGR parameters."""
    attributes = ";".join(code for name, code in _ATTRIBUTES if getattr(style, name))
    return attributes, _color(style.color, system, True), _color(style.bgcolor, system, False)


class Pen:
    """Writes segments, and before each only what differs from the segment before."""

    def __init__(self, system: ColorSystem) -> None:
        self._system = system
        self._attributes = ""
        self._foreground = "39"
        self._background = "49"
        self.sequences: list[str] = [RESET]

    def move_to(self, x: int, y: int) -> None:
        self.sequences.append(Control.move_to(x, y).segment.text)

    def write(self, segments: Iterable[Segment]) -> None:
        for text, style, control in segments:
            if control:
                self.sequences.append(text)
            elif text:
                self._style(style or Style.null(), blank=text.isspace())
                self.sequences.append(text if text.isprintable() else text.translate(_OBEYED))

    def _style(self, style: Style, *, blank: bool) -> None:
        attributes, foreground, background = _sgr_codes(style, self._system)
        if blank and not (style.reverse or style.underline or style.strike):
            # Nothing is drawn in the foreground: leave it, and what is bold, as they are.
            foreground = self._foreground
            plain = not self._attributes or self._attributes in ("1", "2")
            attributes = self._attributes if plain else attributes
        parts: list[str] = []
        if attributes != self._attributes:
            if self._attributes:
                parts.append("0")
                self._foreground, self._background = "39", "49"
            parts.append(attributes)
        if foreground != self._foreground:
            parts.append(foreground)
        if background != self._background:
            parts.append(background)
        codes = ";".join(part for part in parts if part)
        if codes:
            self.sequences.append(f"\x1b[{codes}m")
        self._attributes, self._foreground = attributes, foreground
        self._background = background

    def text(self) -> str:
        return "".join([*self.sequences, RESET])


def _pen(console: Console) -> Pen:
    return Pen(console._color_system or ColorSystem.TRUECOLOR)


class AsciiOnly(LineFilter):
    """Draws with ASCII alone what Textual is about to show, on every screen and dialog."""

    def apply(self, segments: list[Segment], background: BackgroundColor) -> list[Segment]:
        return [
            segment if segment.text.isascii() else segment._replace(text=in_ascii(segment.text))
            for segment in segments
        ]


class PreciseUpdate(ChopsUpdate):
    """Spans of lines, each from its first changed column to its last."""

    def render_segments(self, console: Console) -> str:
        pen = _pen(console)
        for y, x1, x2 in self.spans:
            at = -1
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                start, stop = max(x, x1), min(end, x2)
                if start != at:
                    pen.move_to(start, y)
                pen.write(strip.crop(start - x, stop - x))
                at = stop
        return pen.text()


class PreciseLayout(LayoutUpdate):
    """The whole screen."""

    def render_segments(self, console: Console) -> str:
        pen = _pen(console)
        for y, line in enumerate(self.strips, self.region.y):
            pen.move_to(self.region.x, y)
            for strip in line:
                assert isinstance(strip, Strip)
                pen.write(strip)
        return pen.text()


class PreciseCompositor(Compositor):
    """Textual's compositor with updates that send less."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        if update is None:
            return None
        return PreciseUpdate(update.chops, update.spans, update.chop_ends)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        update = super().render_full_update(simplify)
        return PreciseLayout(update.strips, update.region)
