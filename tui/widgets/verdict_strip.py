"""The verdict strip: the cluster's troubles in words, worst first, each a click or a key away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.load.view.verdicts import Verdict, Weight
from tui.widgets.canvas import Row
from tui.widgets.topic_rows import Brush

GAP = 3


@dataclass(frozen=True, slots=True)
class Placed:
    """A verdict and where it stands, for the mouse."""

    verdict: Verdict
    start: int
    end: int


def draw_verdicts(
    row: Row, verdicts: Sequence[Verdict], brush: Brush, selected: str | None = None
) -> tuple[Placed, ...]:
    """Draw what fits, worst first: in full if all fit, else shorter, else without good news."""
    glyphs = brush.glyphs
    marks = {
        Weight.ACT: (glyphs.act, "act"),
        Weight.LOOK: (glyphs.look, "look"),
        Weight.MOVING: (glyphs.moving, "yours"),
        Weight.FINE: (glyphs.fine, "fine"),
    }
    trouble = [verdict for verdict in verdicts if verdict.weight is not Weight.FINE]
    variants = [
        [(verdict, verdict.sentence) for verdict in verdicts],
        [(verdict, verdict.short) for verdict in verdicts],
        [(verdict, verdict.short) for verdict in trouble],
    ]
    chosen = variants[-1]
    for chosen in variants:
        length = sum(len(marks[v.weight][0]) + 1 + len(text) + GAP for v, text in chosen)
        if length - GAP + 2 <= row.width:
            break
    placed: list[Placed] = []
    x = 1
    for verdict, text in chosen:
        mark, role = marks[verdict.weight]
        words = f"{mark} {text.replace('×', glyphs.times)}"
        if x + len(words) > row.width:
            break
        style = brush.style(role, bold=verdict.weight <= Weight.LOOK)
        end = row.put(x, words, style)
        if verdict.id == selected:
            row.tint(x, end, brush.style(role, "cursor", bold=True))
        placed.append(Placed(verdict, x, end))
        x = end + GAP
    return tuple(placed)
