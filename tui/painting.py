"""A compositor that sends only the columns which changed.

Textual 8.2 starts each partial update at the left edge of the widget, whatever changed in it: the
age at the end of the header would resend the whole line. `ChopsUpdate` is cropped on both sides.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor


class PreciseUpdate(ChopsUpdate):
    """Spans of lines, each from its first changed column to its last."""

    def render_segments(self, console: Console) -> str:
        sequences: list[str] = []
        for y, x1, x2 in self.spans:
            at = -1
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                start, stop = max(x, x1), min(end, x2)
                if start != at:
                    sequences.append(Control.move_to(start, y).segment.text)
                sequences.append(strip.crop(start - x, stop - x).render(console))
                at = stop
        return "".join(sequences)


class PreciseCompositor(Compositor):
    """Textual's compositor with PreciseUpdate for partial updates."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        if update is None:
            return None
        return PreciseUpdate(update.chops, update.spans, update.chop_ends)
