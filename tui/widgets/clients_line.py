"""The line under the map that says what clients feel at each broker: the larger p99, or a mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.clients import client_number
from tui.map_view import Model
from tui.widgets.canvas import Row
from tui.widgets.columns import Columns
from tui.widgets.topic_rows import Brush

if TYPE_CHECKING:
    from core.watch.clients.report import Report

TITLE = "clients p99 ms"


def draw_clients(row: Row, report: Report, model: Model, columns: Columns, brush: Brush) -> None:
    """Draw it; a broker that is not probed yet has nothing."""
    row.put(columns.name_at, TITLE[: columns.cells_at - 2], brush.style("text"))
    for column, broker in enumerate(model.state.brokers):
        at, seen = columns.at(column), report.of(broker.id)
        if at is None or seen is None:
            continue
        value, role = client_number(seen)
        suffers = role != "text"
        text = (brush.glyphs.act if suffers else "") if value is None else _short(value)
        if len(text) > columns.digits and not suffers and column != model.column:
            text = ""  # numbers that touch cannot be told apart
        if len(text) > columns.cell:
            text = brush.glyphs.look if suffers else ""
        row.put_right(at + columns.cell, text, brush.style(role, bold=suffers))


def _short(milliseconds: float) -> str:
    """Return it in at most four characters: `0.8`, `12`, `310`, `4.1k` from ten seconds on."""
    if milliseconds < 9.95:
        return f"{milliseconds:.1f}"
    return f"{milliseconds:.0f}" if milliseconds < 9999.5 else f"{milliseconds / 1000:.0f}k"
