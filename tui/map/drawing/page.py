"""Lays the map out and draws it: verdicts, heads, rows, totals, panel, legend, side panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.load.view.heat import Metric
from core.load.view.verdicts import Verdict, Weight
from core.plan.plan import Plan
from tui.drawing.canvas import Row
from tui.map.drawing.clients import draw_clients
from tui.map.drawing.columns import Columns
from tui.map.drawing.panel import draw_panel
from tui.map.drawing.partition_rows import draw_partition, value_scale
from tui.map.drawing.scene import Scene
from tui.map.drawing.side_panel import draw_side
from tui.map.drawing.topic_rows import Brush, draw_heads, draw_racks, draw_topic, table_scale
from tui.map.drawing.totals import draw_rule, draw_totals, now_and_after, totals_lines
from tui.map.view import Model

VERDICT_GAP = 3


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
    marks = {
        Weight.ACT: ("✗", "act"),
        Weight.LOOK: ("▲", "look"),
        Weight.MOVING: ("●", "yours"),
        Weight.FINE: (brush.glyphs.fine, "fine"),
    }
    trouble = [verdict for verdict in verdicts if verdict.weight is not Weight.FINE]
    variants = [
        [(verdict, verdict.sentence) for verdict in verdicts],
        [(verdict, verdict.short) for verdict in verdicts],
        [(verdict, verdict.short) for verdict in trouble],
    ]
    chosen = variants[-1]
    for chosen in variants:
        length = sum(len(marks[v.weight][0]) + 1 + len(text) + VERDICT_GAP for v, text in chosen)
        if length - VERDICT_GAP + 2 <= row.width:
            break
    placed: list[Placed] = []
    x = 1
    for verdict, text in chosen:
        mark, role = marks[verdict.weight]
        words = f"{mark} {text}"
        if x + len(words) > row.width:
            break
        style = brush.style(role, bold=verdict.weight <= Weight.LOOK)
        end = row.put(x, words, style)
        if verdict.id == selected:
            row.tint(x, end, brush.style(role, "cursor", bold=True))
        placed.append(Placed(verdict, x, end))
        x = end + VERDICT_GAP
    return tuple(placed)


MIN_WIDTH, MIN_HEIGHT = 32, 4


@dataclass(frozen=True, slots=True)
class Places:
    """What lies where, for the mouse."""

    verdicts: tuple[Placed, ...] = ()
    rows_at: int = 0
    rows: int = 0


def draw_map(scene: Scene) -> tuple[list[Row], Places]:
    """Return the rows between header and footer."""
    layout, brush = scene.layout, scene.brush
    rows = [brush.row(layout.width) for _ in range(layout.height)]
    if layout.width < MIN_WIDTH or layout.height < MIN_HEIGHT:
        return rows, _draw_tiny(scene, rows)
    placed = draw_verdicts(rows[0], scene.verdicts, brush, scene.selected_verdict)
    main = [brush.row(layout.main) for _ in rows]
    _draw_head(scene, main)
    _draw_rows(scene, main)
    y = layout.rows_at + layout.rows
    if layout.totals:
        y = _draw_totals(scene, main, y + (1 if layout.roomy else 0))
    if layout.panel:
        y = draw_panel(scene, main, y + (1 if layout.roomy else 0))
    if layout.legend:
        _draw_legend(scene, main[layout.height - 2])
    for row, part in zip(rows[1:], main[1:], strict=True):
        row.chars[: layout.main] = part.chars
        row.styles[: layout.main] = part.styles
    if layout.side:
        for row in rows[1:-1]:
            row.put(layout.main, "│", brush.style("faint"))
        draw_side(rows[1:-1], layout.main + 2, scene)
    return rows, Places(placed, layout.rows_at, layout.rows)


def _draw_tiny(scene: Scene, rows: Sequence[Row]) -> Places:
    """Say the worst, and how much room a map needs."""
    if not rows:
        return Places()
    placed = draw_verdicts(rows[0], scene.verdicts, scene.brush)
    if len(rows) > 1:
        words = f"a map needs {MIN_WIDTH}×{MIN_HEIGHT + 2}"
        rows[1].put(1, words, scene.brush.style("dim"))
    return Places(placed)


def _draw_head(scene: Scene, rows: Sequence[Row]) -> None:
    model, columns, brush = scene.model, scene.columns, scene.brush
    if scene.layout.racks:
        draw_racks(rows[1], scene)
    row = rows[scene.layout.rows_at - 1]
    metric = model.view.metric
    draw_heads(row, scene, _unit_words(model, columns))
    if model.partitions is not None:
        if columns.has_skew:
            prefix = value_scale(model).prefix
            unit = "B" if metric is Metric.SIZE else "B/s"
            row.put_right(columns.skew_end, f"{prefix}{unit}", brush.style("dim"))
        room = columns.cells_at - 2
        name = model.partitions.topic
        count = f"{len(model.partitions.rows):,} partitions"
        above = rows[1] if scene.layout.racks else row
        if scene.layout.racks or len(name) <= room:
            x = (above if len(name) > room else row).put(1, name, brush.style("bright", bold=True))
            if above is not row and len(name) <= room:
                above.put(1, count[:room], brush.style("dim"))
            elif x + 2 + len(count) <= room:
                row.put(x + 2, count, brush.style("dim"))
        else:
            row.put(1, name[: room - 1] + "…", brush.style("bright", bold=True))
    if scene.editing_filter is not None or model.view.filter:
        words = scene.editing_filter if scene.editing_filter is not None else model.view.filter
        row.fill(0, columns.cells_at, brush.style())
        x = row.put(1, "/", brush.style("yours", bold=True))
        x = row.put(x, words[-(columns.cells_at - 4) :], brush.style("bright", bold=True))
        if scene.editing_filter is not None:
            row.put(x, " ", brush.style("on_strong", "yours"))


def _unit_words(model: Model, columns: Columns) -> str:
    """Return what the map's numbers are: `in MB/s`, or `MB/s` where there is less room."""
    metric = model.view.metric
    if not metric.unit:
        short = {Metric.LEADERS: "leads", Metric.REPLICAS: "repl."}
        return short[metric] if columns.partitions else metric.value
    unit = f"{table_scale(model.heat).prefix}{metric.unit}"
    words = f"{metric.value} {unit}"
    room = columns.total - 2 if columns.partitions else columns.name
    return words if len(words) <= room else unit


def _draw_rows(scene: Scene, rows: Sequence[Row]) -> None:
    model, layout, brush = scene.model, scene.layout, scene.brush
    shown = model.rows[scene.top : scene.top + layout.rows]
    if not model.rows:
        rows[layout.rows_at].put(scene.columns.name_at, model.no_rows, brush.style("dim"))
        return
    if model.partitions is None:
        scale = table_scale(model.heat)
        for n, at_row in enumerate(shown):
            selected = scene.top + n == model.cursor
            draw_topic(rows[layout.rows_at + n], scene, at_row, selected=selected, scale=scale)
        return
    scale = value_scale(model)
    hot = frozenset(
        int(model.state.broker_ids[i])
        for i, level in enumerate(model.totals.level(model.view.metric).tolist())
        if level >= 2
    )
    for n, at_row in enumerate(shown):
        selected = scene.top + n == model.cursor
        ground = "cursor" if selected else "stripe" if (scene.top + n) % 2 else "background"
        row = rows[layout.rows_at + n]
        row.fill(0, row.width - 1, brush.style("text", ground))
        draw_partition(
            row,
            scene,
            at_row,
            selected=selected,
            scale=scale,
            ground=ground,
            hot_brokers=hot,
            plan=scene.preview.plan if scene.drag is None else _planned(scene),
            drag=scene.drag,
        )


def _planned(scene: Scene) -> Plan:
    """Return the plan without what is being carried: that is drawn in the air."""
    plan = scene.preview.plan
    assert scene.drag is not None
    for tp in scene.drag.sources:
        plan = plan.without(tp)
    return plan


def _draw_totals(scene: Scene, rows: Sequence[Row], y: int) -> int:
    model, layout = scene.model, scene.layout
    changed: frozenset[int] = frozenset()
    if model.partitions is None:
        lines = totals_lines(model, layout.totals)
        title = "brokers"
    else:
        lines = now_and_after(model, scene.preview.effect)
        title = "brokers, now and after"
        changed = frozenset(scene.preview.effect.touched)
    draw_rule(rows[y], title if layout.roomy else "", scene.brush)
    for n, line in enumerate(lines, 1):
        draw_totals(rows[y + n], scene, line, changed if n == 2 else frozenset())
    if scene.clients is not None and layout.clients:
        draw_clients(rows[y + 1 + layout.totals], scene, scene.clients)
    return y + 1 + layout.totals + layout.clients


def _draw_legend(scene: Scene, row: Row) -> None:
    brush = scene.brush
    dim = brush.style("dim")
    x = 2
    by_amount = scene.model.view.by_amount
    if scene.model.partitions is None and brush.few_colors and not by_amount:
        x = row.put(x, "- below share   + above share", dim) + 6
    elif scene.model.partitions is None:
        x = row.put(x, "little " if by_amount else "below share ", dim)
        levels = range(5) if by_amount else range(-4, 5)
        for level in levels:
            palette = brush.palette
            style = palette.amount(level) if by_amount else palette.heat(level)
            x = row.put(x, f"{brush.glyphs.levels[level]} " if brush.few_colors else "  ", style)
        x = row.put(x, " much" if by_amount else " above", dim) + 6
    highlight = scene.model.view.highlight
    for mark, word in (
        *((("◆", f"read by {highlight.of}"),) if highlight else ()),
        ("●", "leader"),
        ("○", "follower"),
        ("!", "out of sync"),
        ("▸", "arriving"),
        ("◂", "leaving"),
    ):
        if x + len(word) + 2 > row.width:
            return
        x = row.put(x, f"{mark} {word}", dim) + 3
