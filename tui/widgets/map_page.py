"""Lays the map out and draws it: strip, heads, rows, totals, panel, legend, side panel.

Pure: a Scene goes in, rows and what lies where for the mouse come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.load.heat import Metric, Order
from core.load.verdicts import Verdict
from core.plan.findings import Severity
from core.plan.plan import Plan
from core.units import format_duration, format_rate
from tui.carry import Carry
from tui.map_view import Model, Zoom
from tui.widgets.canvas import Row
from tui.widgets.columns import Columns, partition_columns, topic_columns
from tui.widgets.inspector import (
    Sentence,
    Word,
    cell_lines,
    cell_title,
    partition_lines,
    replica_details,
    suggestion_line,
)
from tui.widgets.partition_rows import draw_partition, value_scale
from tui.widgets.preview import Preview, change_words, changes, plan_words, touched
from tui.widgets.side_panel import draw_side
from tui.widgets.topic_rows import (
    Brush,
    draw_heads,
    draw_racks,
    draw_topic,
    table_scale,
)
from tui.widgets.totals import draw_rule, draw_totals, now_and_after, totals_lines
from tui.widgets.verdict_strip import Placed, draw_verdicts

if TYPE_CHECKING:
    from core.cluster.document import DocumentGroup
    from core.plan.estimate import Estimate
    from core.plan.suggest import Suggestion
    from core.run.view import RunView

SIDE = 32
WIDE_SIDE = 46
WIDEST_SIDE = 58
ROOMY = 32
"""Lines from which there is air between the groups."""
COMPACT = 22
LEAST_TOTALS = 14
LEAST_WIDTH, LEAST_HEIGHT = 32, 4


@dataclass(frozen=True, slots=True)
class Layout:
    """Which blocks of the map are shown, and how many lines each has. All but `rows` are fixed."""

    width: int
    height: int
    side: int
    racks: bool
    rows: int
    totals: int
    panel: int
    legend: bool
    roomy: bool

    @property
    def main(self) -> int:
        """Return the width of the map itself."""
        return self.width - self.side

    @property
    def rows_at(self) -> int:
        return 3 if self.racks else 2


def layout_of(width: int, height: int, zoom: Zoom, *, racks: bool) -> Layout:
    """Return what fits: below 80×24 the panel goes first, then the totals; a row always stays.

    Beside partitions the panel stands always, so that columns stay where they are when a replica
    is picked up; beside topics on a wide screen, which has the room for plan and run.
    """
    side = 0
    if width >= 170:
        side = WIDEST_SIDE if width >= 190 else WIDE_SIDE
    elif width >= 120 and zoom is not Zoom.TOPICS:
        side = SIDE
    roomy = height >= ROOMY
    racks = racks and roomy
    head = 3 if racks else 2
    totals = 4 if roomy else 3 if height >= LEAST_TOTALS else 0
    if zoom is not Zoom.TOPICS and totals:
        totals = 2
    panel = 0
    if height >= COMPACT:
        panel = 3 if roomy else 2
        if zoom is Zoom.PARTITION:
            panel += 3
    legend = roomy
    fixed = head + totals + panel
    if totals:
        fixed += 2 if roomy else 1
    if panel:
        fixed += 2 if roomy else 1
    if legend:
        fixed += 3
    return Layout(
        width=width,
        height=height,
        side=side,
        racks=racks,
        rows=max(1, height - fixed),
        totals=totals,
        panel=panel,
        legend=legend,
        roomy=roomy,
    )


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that the map is drawn from."""

    model: Model
    layout: Layout
    columns: Columns
    top: int
    """The first row in sight."""
    verdicts: tuple[Verdict, ...]
    selected_verdict: str | None
    suggestion: Suggestion | None
    suggestion_estimate: Estimate | None
    preview: Preview
    carry: Carry | None
    stale: bool
    editing_filter: str | None
    groups: tuple[DocumentGroup, ...] = ()
    run: RunView | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """What lies where, for the mouse."""

    verdicts: tuple[Placed, ...] = ()
    rows_at: int = 0
    rows: int = 0


def columns_of(model: Model, layout: Layout) -> Columns:
    """Return the map's columns, with the cursor's broker in sight."""
    count = len(model.state.brokers)
    if model.partitions is not None:
        columns = partition_columns(layout.main, count)
    else:
        longest = max((len(model.heat.topics[row]) for row in model.rows), default=0)
        columns = topic_columns(layout.main, count, longest)
    return columns.showing(model.column)


def draw_map(scene: Scene, brush: Brush) -> tuple[list[Row], Places]:
    """Return the rows between header and footer."""
    layout = scene.layout
    rows = [brush.row(layout.width) for _ in range(layout.height)]
    if layout.width < LEAST_WIDTH or layout.height < LEAST_HEIGHT:
        return rows, _draw_tiny(scene, rows, brush)
    placed = draw_verdicts(rows[0], scene.verdicts, brush, scene.selected_verdict)
    main = [brush.row(layout.main) for _ in rows]
    _draw_head(scene, main, brush)
    _draw_rows(scene, main, brush)
    y = layout.rows_at + layout.rows
    if layout.totals:
        y = _draw_totals(scene, main, brush, y + (1 if layout.roomy else 0))
    if layout.panel:
        y = _draw_panel(scene, main, brush, y + (1 if layout.roomy else 0))
    if layout.legend:
        _draw_legend(scene, main[layout.height - 2], brush)
    for row, part in zip(rows[1:], main[1:], strict=True):
        row.chars[: layout.main] = part.chars
        row.styles[: layout.main] = part.styles
    if layout.side:
        _draw_side(scene, rows, brush)
    return rows, Places(placed, layout.rows_at, layout.rows)


def _draw_tiny(scene: Scene, rows: Sequence[Row], brush: Brush) -> Places:
    """Say the worst, and how much room a map needs."""
    if not rows:
        return Places()
    placed = draw_verdicts(rows[0], scene.verdicts, brush)
    if len(rows) > 1:
        rows[1].put(1, f"a map needs {LEAST_WIDTH}×{LEAST_HEIGHT + 2}", brush.style("dim"))
    return Places(placed)


def _draw_head(scene: Scene, rows: Sequence[Row], brush: Brush) -> None:
    model, columns = scene.model, scene.columns
    if scene.layout.racks:
        draw_racks(rows[1], model, columns, brush)
    row = rows[scene.layout.rows_at - 1]
    metric = model.view.metric
    draw_heads(row, model, columns, brush, _unit_words(model, columns))
    if model.partitions is not None:
        if columns.has_skew:
            prefix = value_scale(model).prefix
            unit = "B" if metric is Metric.SIZE else "B/s"
            row.put_right(columns.skew_end, f"{prefix}{unit}", brush.style("dim"))
        room = columns.cells_at - 2
        name = model.partitions.topic
        count = f"{len(model.partitions.rows)} partitions"
        above = rows[1] if scene.layout.racks else row
        if scene.layout.racks or len(name) <= room:
            x = (above if len(name) > room else row).put(1, name, brush.style("bright", bold=True))
            if above is not row and len(name) <= room:
                above.put(1, count[:room], brush.style("dim"))
            elif x + 2 + len(count) <= room:
                row.put(x + 2, count, brush.style("dim"))
        else:
            row.put(1, name[: room - 1] + brush.glyphs.ellipsis, brush.style("bright", bold=True))
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


def _draw_rows(scene: Scene, rows: Sequence[Row], brush: Brush) -> None:
    model, layout, columns = scene.model, scene.layout, scene.columns
    shown = model.rows[scene.top : scene.top + layout.rows]
    if not model.rows:
        words = "no topic matches" if model.view.filter else "no topics yet"
        rows[layout.rows_at].put(columns.name_at, words, brush.style("dim"))
        return
    if model.partitions is None:
        scale = table_scale(model.heat)
        for n, at_row in enumerate(shown):
            draw_topic(
                rows[layout.rows_at + n],
                model,
                columns,
                brush,
                at_row,
                selected=scene.top + n == model.cursor,
                scale=scale,
                stale=scene.stale,
            )
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
            model,
            columns,
            brush,
            at_row,
            selected=selected,
            scale=scale,
            ground=ground,
            hot_brokers=hot,
            plan=scene.preview.plan if scene.carry is None else _planned(scene),
            carry=scene.carry,
        )


def _planned(scene: Scene) -> Plan:
    """Return the plan without what is being carried: that is drawn in the air."""
    plan = scene.preview.plan
    assert scene.carry is not None
    for tp in scene.carry.sources:
        plan = plan.without(tp)
    return plan


def _draw_totals(scene: Scene, rows: Sequence[Row], brush: Brush, y: int) -> int:
    model, layout, columns = scene.model, scene.layout, scene.columns
    changed: frozenset[int] = frozenset()
    if model.partitions is None:
        lines = totals_lines(model, layout.totals)
        title = "brokers"
    else:
        lines = now_and_after(model, scene.preview.effect)
        title = "brokers, now and after"
        changed = frozenset(scene.preview.effect.touched)
    draw_rule(rows[y], title if layout.roomy else "", brush)
    for n, line in enumerate(lines, 1):
        after = model.partitions is not None and n == 2
        draw_totals(
            rows[y + n],
            line,
            model,
            columns,
            brush,
            changed=changed if after else frozenset(),
            stale=scene.stale,
        )
    return y + 1 + layout.totals


def _draw_panel(scene: Scene, rows: Sequence[Row], brush: Brush, y: int) -> int:
    layout = scene.layout
    short = not layout.roomy
    title, lines = panel_lines(scene, brush, short=short)
    draw_rule(rows[y], title, brush, role="bright")
    for n, sentence in enumerate(lines[: layout.panel], 1):
        write_sentence(rows[y + n], 2, sentence, brush)
    return y + 1 + layout.panel


def panel_lines(scene: Scene, brush: Brush, *, short: bool) -> tuple[str, list[Sentence]]:
    """Return the panel's title and lines: the carry where there is no side panel, else the cell."""
    model, glyphs = scene.model, brush.glyphs
    if scene.carry is not None and not scene.layout.side:
        return _carry_lines(scene, brush)
    if scene.model.partition_row is not None and not scene.layout.side:
        row = scene.model.partition_row
        lines = partition_lines(model, row, glyphs)
        if model.view.detail:
            lines = [lines[0], *replica_details(model, row)]
    elif scene.model.partition_row is not None:
        lines = replica_details(model, scene.model.partition_row)
    else:
        lines = cell_lines(model, glyphs, short=short)
    tip = suggestion_line(scene.suggestion, scene.suggestion_estimate, glyphs, short=short)
    if tip and not model.view.detail:
        lines = [*lines[: scene.layout.panel - 1], tip]
    return cell_title(model), lines


def _carry_lines(scene: Scene, brush: Brush) -> tuple[str, list[Sentence]]:
    """Return title and lines of a carry on a narrow screen: before → after, time, reasons."""
    carry, model, preview = scene.carry, scene.model, scene.preview
    assert carry is not None
    tp, arrow = carry.primary, brush.glyphs.arrow
    title = f"carrying {carry.words} {carry.sources[tp]} {arrow} {carry.target}"
    if carry.to_lead:
        title += ", to lead"
    finding = carry.finding
    # There is one line: what is merely unwise gives way to what would change.
    if finding is not None and carry.moved and finding.severity >= Severity.UNSAFE:
        refused = not carry.can_drop
        mark = brush.glyphs.act if refused else brush.glyphs.look
        why = f"{mark} {finding.sentence}"
        first: Sentence = (Word(why, "act" if refused else "look", True),)
    else:
        words: list[Word] = []
        brokers = touched(model.state, preview.effect, [carry.sources[tp], carry.target])
        for change in changes(model, preview.effect, brokers)[:5]:
            what, before, _, after = change_words(change, brush)
            words += [
                Word(what.text.strip() + " ", "dim"),
                Word(before.text.strip(), before.role),
                Word(arrow, "dim"),
                Word(after.text.strip(), after.role, True),
                Word("  "),
            ]
        first = tuple(words) or (Word("h and l carry it; enter drops it", "dim"),)
    return title, [first, _plan_and_time(preview, model, brush)]


def _plan_and_time(preview: Preview, model: Model, brush: Brush) -> Sentence:
    words = [Word("plan  ", "dim"), Word(plan_words(model.state, preview.plan), "bright", True)]
    for rate in (preview.rates or ())[-3:]:
        when = "never" if rate.never else format_duration(rate.seconds)
        words += [
            Word(f"   {format_rate(rate.rate_bytes_per_s)} ", "dim"),
            Word(when, "act" if rate.never else "text"),
        ]
    return tuple(words)


def write_sentence(row: Row, x: int, sentence: Sentence, brush: Brush) -> None:
    for word in sentence:
        x = row.put(x, word.text, brush.style(word.role, bold=word.bold))


def _draw_legend(scene: Scene, row: Row, brush: Brush) -> None:
    glyphs, dim = brush.glyphs, brush.style("dim")
    x = 2
    if scene.model.partitions is None:
        by_amount = scene.model.view.by_amount
        x = row.put(x, "little " if by_amount else "below share ", dim)
        levels = range(5) if by_amount else range(-4, 5)
        for level in levels:
            palette = brush.palette
            style = palette.amount(level) if by_amount else palette.heat(level)
            x = row.put(x, "  ", style)
        x = row.put(x, " much" if by_amount else " above", dim) + 6
    for mark, word in (
        (glyphs.leader, "leader"),
        (glyphs.follower, "follower"),
        (glyphs.out_of_sync, "out of sync"),
        (glyphs.arriving, "arriving"),
        (glyphs.leaving, "leaving"),
    ):
        if x + len(word) + 2 > row.width:
            return
        x = row.put(x, f"{mark} {word}", dim) + 3


def _draw_side(scene: Scene, rows: Sequence[Row], brush: Brush) -> None:
    layout = scene.layout
    at = layout.main
    for row in rows[1:-1]:
        row.put(at, brush.glyphs.upright, brush.style("faint"))
    run = scene.run if layout.side >= WIDE_SIDE else None
    draw_side(rows[1:-1], at + 2, scene.model, brush, scene.preview, scene.carry, scene.groups, run)


ORDER_WORDS = {
    Order.EXCESS: "excess",
    Order.SKEW: "skew",
    Order.TOTAL: "total",
    Order.NAME: "name",
}
