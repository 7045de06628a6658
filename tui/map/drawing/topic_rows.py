"""Draws the heads of the map and its topic rows: names, values in warm and cold cells, skew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from rich.style import Style

from core.load.view.heat import PALE, SMALL, HeatMap, Metric
from core.load.view.text import UNKNOWN, Scale, scale_of
from core.load.view.verdicts import SKEW
from tui.drawing.canvas import Row
from tui.drawing.spans import bar_text, cells, ratio, shorten
from tui.map.drawing.columns import Columns
from tui.map.view import Model
from tui.theming import Glyphs, Palette


@dataclass(frozen=True, slots=True)
class Brush:
    """What everything on the map is drawn with."""

    palette: Palette
    glyphs: Glyphs
    few_colors: bool = False

    def style(self, role: str = "text", on: str = "background", *, bold: bool = False) -> Style:
        return self.palette.style(role, on, bold=bold)

    def row(self, width: int) -> Row:
        return Row(width, self.style())


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows of the map by columns of brokers, and what they are drawn with."""

    model: Model
    columns: Columns
    brush: Brush
    stale: bool = False
    """Whether the cluster does not answer: nothing is called hot then."""


def rack_names(model: Model) -> list[str]:
    """Return each broker's rack, empty when the cluster has none."""
    racks = [broker.rack or "" for broker in model.state.brokers]
    return racks if any(racks) else []


def short_racks(racks: Sequence[str], room: int) -> list[str]:
    """Return racks in `room` columns; long ones lose first what they all begin with."""
    drawn = [cells(rack) for rack in racks]
    named = [rack for rack in drawn if rack]
    over = max(map(len, named), default=0) - room
    start = 0
    if over > 0:
        alike = takewhile(lambda chars: len(set(chars)) == 1, zip(*named, strict=False))
        common = "".join(chars[0] for chars in alike)
        start = max(min(len(common), over), 1 + max(map(common.rfind, "-_./:")))
    return [rack[start : start + room] for rack in drawn]


def draw_racks(row: Row, grid: Grid) -> None:
    columns, style = grid.columns, grid.brush.style("dim")
    for column, rack in enumerate(short_racks(rack_names(grid.model), columns.cell)):
        at = columns.at(column)
        if at is not None and columns.pitch >= 2:
            row.put_right(at + columns.cell, rack, style)


def draw_heads(row: Row, grid: Grid, value: str) -> None:
    """Write broker ids, the cursor's bright, and the names of the gutter's columns."""
    model, columns, brush = grid.model, grid.columns, grid.brush
    dim, ids = brush.style("dim"), brush.style("text")
    for column, broker in enumerate(model.state.brokers):
        at = columns.at(column)
        if at is None:
            continue
        text = str(broker.id)
        if not broker.alive:
            style = brush.style("act", bold=True)
        elif column == model.column:
            style = brush.style("bright", bold=True)
        else:
            style = ids
        if len(text) > columns.cell:
            # Too narrow for ids: the last digits, and the cursor's id in full in the panel.
            text = text[-columns.cell :]
            if columns.pitch == 1 and column != model.column and broker.id % 5:
                continue
        elif len(text) == columns.pitch and column % 2 and column != model.column:
            # Ids that touch cannot be told apart.
            continue
        row.put_right(at + columns.cell, text, style)
    if columns.first > 0:
        row.put(columns.cells_at - 1, "◂", brush.style("yours"))
    if columns.first + columns.shown < columns.brokers:
        row.put(columns.cells_end, "▸", brush.style("yours"))
    if model.partitions is None:
        highlight = model.view.highlight
        if highlight is None:
            row.put(columns.name_at - 1, "topic", dim)
        else:  # what is marked among them
            name = shorten(highlight.of, columns.name - 1)
            row.put(1, "◆", brush.style("yours", bold=True))
            row.put(columns.name_at, name, brush.style("yours", bold=True))
        if columns.partitions:
            row.put_right(columns.partitions_end, "parts", dim)
        if columns.total:
            row.put_right(columns.number_end, value, dim)
        if columns.has_skew:
            row.put_right(columns.skew_end, "skew", dim)


def table_scale(heat: HeatMap) -> Scale:
    """Return the one scale of a map's cells and of what its rows sum up to."""
    return scale_of(heat.largest, counted=heat.metric in (Metric.LEADERS, Metric.REPLICAS))


def amount_level(value: float, largest: float) -> int:
    """Return a size as 0 … 4, by square root so that the middle is not all dark."""
    if not largest > 0 or np.isnan(value) or value <= 0:
        return 0
    return min(4, int(5 * (value / largest) ** 0.5))


def draw_topic(row: Row, grid: Grid, at_row: int, *, selected: bool, scale: Scale) -> None:
    """Draw one topic: `at_row` is its row in the heat map."""
    columns, brush = grid.columns, grid.brush
    heat = grid.model.heat
    name = shorten(heat.topics[at_row], columns.name - 1)
    if selected:
        row.put(0, "▸", brush.style("yours", bold=True))
    highlight = grid.model.view.highlight
    highlit = highlight is not None and heat.topics[at_row] in highlight.topics
    if highlit:
        row.put(1, "◆", brush.style("yours", bold=True))
    strong = selected or highlit
    row.put(columns.name_at, name, brush.style("bright" if strong else "text", bold=strong))
    if columns.partitions:
        row.put_right(columns.partitions_end, f"{heat.partitions[at_row]:,}", brush.style("dim"))
    if columns.total:
        text = scale.text(float(heat.total[at_row]), "·")
        role = "text" if columns.partitions else "dim"
        row.put_right(columns.number_end, text, brush.style(role))
    _draw_cells(row, grid, at_row, scale, selected=selected)
    if columns.has_skew:
        # It is worth a colour where it is much above share, and the topic not a tiny one.
        fair = float(np.nansum(heat.total)) / max(1, heat.values.shape[1])
        hot = bool(heat.skew[at_row] >= SKEW and heat.excess[at_row] >= SMALL * fair)
        _draw_skew(row, grid, float(heat.skew[at_row]), hot=hot)


def _draw_cells(row: Row, grid: Grid, at_row: int, scale: Scale, *, selected: bool) -> None:
    model, columns, brush = grid.model, grid.columns, grid.brush
    heat = model.heat
    values, levels = heat.values[at_row].tolist(), heat.level[at_row].tolist()
    behind = heat.out_of_sync[at_row].tolist()
    arriving, leaving = heat.arriving[at_row].tolist(), heat.leaving[at_row].tolist()
    by_amount = model.view.by_amount
    # Numbers that touch, or of which some are missing, say less than colours and marks alone.
    room = columns.digits if len(scale.text(heat.largest)) <= columns.digits else 0
    last = min(columns.brokers, columns.first + columns.shown)
    for column in range(columns.first, last):
        at = columns.at(column)
        assert at is not None
        value, level = values[column], 0 if grid.stale else levels[column]
        here = selected and column == model.column
        amount = amount_level(value, heat.largest) if by_amount or brush.few_colors else 0
        style = brush.palette.amount(amount) if by_amount else brush.palette.heat(level)
        mark = ""
        if behind[column]:
            mark = "!"
            style = brush.style("act", bold=True) + Style(bgcolor=style.bgcolor)
        elif arriving[column]:
            mark = "▸"
        elif leaving[column]:
            mark = "◂"
        number = scale.text(value, "·")
        text = _cell_text(grid, number, mark, room, level, amount)
        row.fill(at, at + columns.cell, style)
        row.put_right(at + columns.cell, text, style)
        if here:
            _draw_cursor(row, at, grid, style)


def _cell_text(grid: Grid, number: str, mark: str, room: int, level: int, amount: int) -> str:
    """Return what stands in a cell; `room` is for a number, 0 where not all of a map's fit."""
    brush, by_amount = grid.brush, grid.model.view.by_amount
    if mark:
        return number + mark if len(number + mark) <= room else mark
    off = "" if by_amount else sign(level)
    if len(number) <= room:
        return signed(number, off, grid.columns) if brush.few_colors else number
    if number in ("·", UNKNOWN):
        return number
    # The colour says how far off it is; that it is off, and which way, is written too.
    return off or (brush.glyphs.levels[amount] if by_amount or brush.few_colors else "")


def sign(level: int) -> str:
    """Return which way a cell is off, as it is written where colour alone would say it."""
    return "+" if level > PALE else "-" if level < -PALE else ""


def signed(number: str, off: str, columns: Columns) -> str:
    """Return a number and its sign, which keeps it apart from the next; else the sign alone."""
    return off + number if len(off + number) <= columns.cell else off


def _draw_cursor(row: Row, at: int, grid: Grid, style: Style) -> None:
    """Frame the cell under the cursor: brackets where there is a gap, else reversed."""
    columns, brush = grid.columns, grid.brush
    bright = brush.style("bright", bold=True)
    if columns.pitch >= 5:
        row.put(at - 1, "[", bright)
        row.put(at + columns.cell, "]", bright)
    elif columns.pitch == 4 and row.chars[at : at + 2] == [" ", " "]:
        number = "".join(row.chars[at : at + 4]).strip()
        row.put(at, f"[{number:>2}]", style + Style(bold=True))
    else:
        row.tint(at, at + columns.cell, brush.style("on_strong", "yours", bold=True))


def _draw_skew(row: Row, grid: Grid, skew: float, *, hot: bool) -> None:
    """Write the skew at the right edge, with its bar where there is room."""
    columns, brush = grid.columns, grid.brush
    style = brush.style("look", bold=True) if hot else brush.style("dim")
    row.put_right(columns.skew_end, ratio(skew), style)
    if columns.bars and skew > 1.05:
        length = min(float(columns.bars - 1), (skew - 1) * 7)
        bar = bar_text(length, brush.glyphs.eighths)
        row.put(columns.skew_end + 1, bar, brush.style("look" if hot else "faint"))
