"""Draws a topic's partitions: who leads, follows, lags, arrives and leaves, and what is carried."""

from __future__ import annotations

import math
from collections.abc import Mapping

from core.cluster.metadata import TopicPartition
from core.load.view.heat import replica_roles
from core.load.view.text import Scale, scale_of
from core.plan.plan import Move, Plan
from core.units import format_bytes
from tui.drawing.canvas import Row
from tui.map.drag import Drag
from tui.map.drawing.columns import Columns
from tui.map.drawing.inspector import ROLES
from tui.map.drawing.topic_rows import Grid
from tui.map.view import Model

HOT_PARTITION = 1.5
"""A partition that carries this many times the mean of its topic is written in amber."""


def draw_partition(
    row: Row,
    grid: Grid,
    at_row: int,
    *,
    selected: bool,
    scale: Scale,
    ground: str,
    hot_brokers: frozenset[int],
    plan: Plan,
    drag: Drag | None,
) -> None:
    """Draw one partition: `at_row` is its row in the partition map."""
    model, columns, brush = grid.model, grid.columns, grid.brush
    partitions = model.partitions
    assert partitions is not None
    state_row = int(partitions.rows[at_row])
    tp = model.state.tp(state_row)
    marked = tp in model.view.marked
    if selected:
        row.put(0, "▸", brush.style("yours", ground, bold=True))
    if marked:
        row.put(1, "v", brush.style("yours", ground, bold=True))
    highlight = model.view.highlight is not None and tp in model.view.highlight.partitions
    if highlight and not marked:
        row.put(1, "◆", brush.style("yours", ground, bold=True))
    strong = selected or marked or highlight
    style = brush.style("bright" if strong else "text", ground, bold=strong)
    row.put(columns.name_at, f"p{tp.partition}", style)
    if columns.total:
        size = format_bytes(float(partitions.size_bytes[at_row]))
        row.put_right(columns.total_end, size, brush.style("dim", ground))
    move = plan.by_partition.get(tp)
    lifted = drag if drag is not None and tp in drag.sources else None
    marks = _replica_marks(grid, state_row, move)
    for column in range(columns.first, min(columns.brokers, columns.first + columns.shown)):
        mark_at = _broker_mark_x(columns, column)
        assert mark_at is not None
        broker = int(model.state.broker_ids[column])
        glyph, role = marks.get(broker, ("·", "faint"))
        if role == "yours" and broker in hot_brokers and glyph == "●" and not move:
            role = "look"
        row.put(mark_at, glyph, brush.style(role, ground, bold=role in ("act", "look")))
        if selected and column == model.column and lifted is None:
            _draw_cursor(row, mark_at, grid, ground)
    if lifted is not None:
        _draw_drag(row, grid, tp, lifted, ground)
    value = float(partitions.values[at_row])
    hot = partitions.fair > 0 and value > HOT_PARTITION * partitions.fair
    if columns.has_skew:
        style = brush.style("look" if hot else "dim", ground, bold=hot)
        row.put_right(columns.skew_end, scale.text(value, "·"), style)


def _broker_mark_x(columns: Columns, column: int) -> int | None:
    """Return where the mark of a broker stands; None when it is out of sight."""
    at = columns.at(column)
    return None if at is None else at + columns.cell - 1 - (1 if columns.pitch >= 4 else 0)


def _replica_marks(grid: Grid, state_row: int, move: Move | None) -> Mapping[int, tuple[str, str]]:
    """Return (mark, role) of each broker that holds, will hold or held a replica."""
    roles = replica_roles(grid.model.state, state_row)
    marks = {broker: (ROLES[role][0], ROLES[role][1].value) for broker, role in roles.items()}
    if move is None:
        return marks
    for broker in move.removing:
        marks[broker] = ("◌", "dim")
    for broker in move.adding:
        first = broker == move.after[0]
        marks[broker] = ("●" if first else "○", "fine")
    before, after = move.preferred_leader
    if before != after:
        for broker, glyph in ((before, "○"), (after, "●")):
            if broker in move.after:
                marks[broker] = (glyph, "fine")
    return marks


def _draw_cursor(row: Row, at: int, grid: Grid, ground: str) -> None:
    style = grid.brush.style("bright", ground, bold=True)
    if grid.columns.pitch >= 3:
        row.put(at - 1, "[", style)
        row.put(at + 1, "]", style)
    else:
        row.tint(at, at + 1, grid.brush.style("on_strong", "yours", bold=True))


def _draw_drag(row: Row, grid: Grid, tp: TopicPartition, drag: Drag, ground: str) -> None:
    """Draw the place left behind, the dotted path, and the replica above its target."""
    columns, brush = grid.columns, grid.brush
    ids = grid.model.state.broker_ids.tolist()
    source, target = ids.index(drag.sources[tp]), ids.index(drag.target)
    start, end = _broker_mark_x(columns, source), _broker_mark_x(columns, target)
    dim = brush.style("dim", ground)
    for broker in drag.illegal(tp):
        at = _broker_mark_x(columns, ids.index(broker))
        if at is not None and broker != drag.sources[tp] and row.chars[at] == "·":
            row.put(at, "╱", dim)
    if start is not None and source != target:
        row.put(start, "◌", dim)
    if start is not None and end is not None and source != target:
        low, high = (start + 2, end - 1) if start < end else (end + 2, start - 1)
        path = brush.style("yours", ground)
        for x in range(low, high):
            if row.chars[x] in (" ", "·", "╱"):
                row.put(x, "┄", path)
    if end is not None:
        glyph = "●" if drag.leads[tp] or drag.to_lead else "○"
        legal = drag.target not in drag.illegal(tp) or source == target
        style = brush.style("on_strong", "yours" if legal else "act", bold=True)
        wide = 1 if columns.pitch >= 3 else 0
        row.fill(end - wide, end + 1 + wide, style)
        row.put(end, glyph if legal else "╱", style)


def value_scale(model: Model) -> Scale:
    """Return the scale of the column at the right."""
    assert model.partitions is not None
    values = [v for v in model.partitions.values.tolist() if not math.isnan(v)]
    return scale_of(max(values, default=0.0))
