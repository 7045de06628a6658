"""The panel beside the map: what is carried, before and after, the plan, rates against time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.plan.checks.catalogue import Severity
from core.units import format_bytes, format_duration, format_rate
from tui.drawing.canvas import Row
from tui.drawing.spans import (
    Line,
    Span,
    Tone,
    bright,
    dim,
    partition_name,
    plain,
    wrap_text,
)
from tui.map.drag import Drag
from tui.map.drawing.inspector import cell_title, hottest, partition_lines
from tui.map.drawing.panel import Panel
from tui.map.drawing.preview import (
    Preview,
    change_words,
    changes,
    move_words,
    plan_words,
    size_of,
    touched,
)
from tui.map.drawing.scene import WIDE_SIDE, Scene
from tui.map.drawing.topic_rows import Brush
from tui.map.view import Model

PLAN_LINES = 6
CELL_LINES = 12
MOVED_NAME = 13
GROUP_LINES = 3
GROUP_NAME = 13


def broken(line: Line, width: int) -> list[Line]:
    """Return a line as lines of at most `width`, broken between its words."""
    lines: list[list[Span]] = [[]]
    used = 0
    for span in line:
        text = span.text if used else span.text.lstrip(" ·")
        if used and used + len(text.rstrip()) > width:
            lines.append([])
            text, used = span.text.lstrip(" ·"), 0
        if text:
            lines[-1].append(Span(text, span.tone, span.bold))
            used += len(text)
    return [tuple(part) for part in lines if part]


def drag_words(model: Model, drag: Drag, brush: Brush) -> list[Line]:
    """Return what is carried, from where to where, and whether it may be dropped there."""
    source = drag.sources[drag.primary]
    lines: list[Line] = [(dim("carrying "), bright(drag.words))]
    words = [plain(f"from {source} to {drag.target}" if drag.moved else f"from {source}")]
    racks = {broker.id: broker.rack for broker in model.state.brokers}
    source_rack, other = racks.get(source), racks.get(drag.target)
    finding = drag.finding if drag.moved else None
    if drag.moved and source_rack and other and (finding is None or finding.id != "rack-spread"):
        words.append(Span(f"  rack {source_rack} → {other} {brush.glyphs.fine}", Tone.FINE))
    lines.append(tuple(words))
    if drag.to_lead:
        lines.append((Span("to lead there", Tone.YOURS, True),))
    return lines


def cannot_drop(drag: Drag, *, severity: Severity) -> list[tuple[str, str]]:
    """Return (brokers, reason) of the primary's findings of one severity, grouped by reason."""
    tp = drag.primary
    groups: dict[str, list[int]] = {}
    for broker, finding in sorted(drag.findings[tp].items()):
        if finding.severity is severity:
            groups.setdefault(finding.id, []).append(broker)
    reasons = {"same-broker-twice": f"already hold p{tp.partition}"}
    return [
        (" ".join(map(str, brokers)), reasons.get(id, id.replace("-", " ")))
        for id, brokers in groups.items()
    ]


def rate_lines(preview: Preview) -> list[tuple[Line, bool]]:
    """Return the throttle table: rate, time, the slowest broker and side; True for the chosen."""
    if preview.rates is None:
        return [((dim("working it out"),), False)]
    if not preview.rates:
        text = "no data to move" if preview.plan.moves else "nothing planned"
        return [((dim(text),), False)]
    from tui.plan.drawing.throttle_table import SIDES  # not for the first paint

    lines: list[tuple[Line, bool]] = [((dim(f"{'a side':>9}{'time':>10}  slowest"),), False)]
    for rate in preview.rates:
        chosen = rate.rate_bytes_per_s == preview.rate_bytes_per_s
        amount = f"{format_rate(rate.rate_bytes_per_s):>9}"
        limit = "" if rate.limit is None else f"b{rate.limit.broker} {SIDES[rate.limit.side]}"
        if rate.never is not None:
            why = "" if rate.limit is None else f"  b{rate.limit.broker} inflow"
            never = Span(f"{'never':>10}", Tone.ACT, True)
            words: Line = (plain(amount), never, Span(why, Tone.ACT))
        else:
            time = "?" if rate.seconds is None else format_duration(rate.seconds)
            words = (
                Span(amount, Tone.YOURS if chosen else Tone.PLAIN, chosen),
                Span(f"{time:>10}", Tone.BRIGHT if chosen else Tone.PLAIN, chosen),
                plain(f"  {limit}"),
            )
        lines.append((words, chosen))
    if preview.of_before:
        return [(tuple(dim(span.text) for span in line), False) for line, _ in lines]
    return lines


def draw_side(rows: Sequence[Row], start: int, scene: Scene) -> None:
    """Draw the panel into the columns from `start` of these rows."""
    model, brush, drag = scene.model, scene.brush, scene.drag
    panel = Panel(rows, start, brush)
    if drag is not None:
        width = panel.rows[0].width - start - 1
        for sentence in drag_words(model, drag, brush):
            panel.write(sentence)
        finding = drag.finding if drag.moved else None
        if finding is not None:
            legal = drag.can_drop
            mark = "▲" if legal else "✗"
            for part in wrap_text(f"{mark} {finding.sentence}", width, 4):
                panel.write((Span(part, Tone.LOOK if legal else Tone.ACT),))
        panel.gap()
    elif model.partition_row is not None:
        _draw_partition(panel, model, model.partition_row)
    elif model.rows:
        _draw_cell(panel, model)
    _draw_changes(panel, scene)
    _draw_plan(panel, scene)
    panel.title("throttle")
    for sentence, chosen in rate_lines(scene.preview):
        panel.write(sentence, on="cursor" if chosen else "background", marked=chosen)
    panel.gap()
    _draw_affected_groups(panel, scene)
    if drag is not None:
        _draw_reasons(panel, drag)
    elif scene.run is not None and scene.layout.side >= WIDE_SIDE:
        from tui.map.drawing.side_run import draw_run

        draw_run(panel, scene.run)


def _draw_cell(panel: Panel, model: Model) -> None:
    panel.title(cell_title(model))
    for name, what, size in hottest(model, CELL_LINES):
        panel.write(
            (Span(f"{name:<8}", Tone.BRIGHT), Span(f"{what.text:<20}", what.tone), dim(size))
        )
    panel.gap()


def _draw_partition(panel: Panel, model: Model, row: int) -> None:
    tp = model.state.tp(row)
    panel.title(f"p{tp.partition}")
    facts, replicas = partition_lines(model, row, panel.brush.glyphs)
    width = panel.rows[0].width - panel.start - 1
    for sentence in (facts, replicas[1:]):
        for part in broken(sentence, width):
            panel.write(part)
    panel.gap()


def _draw_changes(panel: Panel, scene: Scene) -> None:
    drag, effect = scene.drag, scene.preview.effect
    first: list[int] = []
    if drag is not None and drag.moved:
        first = [*drag.sources.values(), drag.target]
    brokers = touched(scene.model.state, effect, first)[:4]
    if not brokers:
        return
    panel.write((dim(f"{'':<9}{'before':>8}    {'after':>6}"),))
    for change in changes(scene.model, effect, brokers):
        panel.write(change_words(change))
    panel.gap()


def _draw_plan(panel: Panel, scene: Scene) -> None:
    plan, state, partitions = scene.preview.plan, scene.model.state, scene.model.partitions
    shown = None if partitions is None else partitions.topic
    panel.title("plan", plan_words(state, plan))
    # The topic that is being looked at first: that is where the plan is edited.
    moves = sorted(plan.moves, key=lambda move: (move.tp.topic != shown, move.tp))
    for move in moves[:PLAN_LINES]:
        here = move.tp.topic == shown
        name = f"p{move.tp.partition}" if here else partition_name(move.tp, MOVED_NAME)
        size = format_bytes(size_of(state, move.tp)) if move.receiving else ""
        panel.write(
            (
                plain(f"{name:<{MOVED_NAME}} "),
                Span(f"{move_words(move):<7}", Tone.YOURS),
                dim(f" {size:>7}"),
            )
        )
    if len(plan) > PLAN_LINES:
        panel.write((dim(f"and {len(plan) - PLAN_LINES} more"),))
    panel.gap()


def _draw_affected_groups(panel: Panel, scene: Scene) -> None:
    """Say who reads what the plan touches and how far behind, and how safe what is carried is."""
    drag = scene.drag
    moved = {move.tp for move in scene.preview.plan} | set(drag.sources if drag else ())
    lags = [
        (math.inf if None in read else sum(lag or 0 for lag in read), group.id)
        for group in scene.groups
        if (read := [lag for tp, lag in group.reads.items() if tp in moved])
    ]
    lags.sort(key=lambda group_lag: (-group_lag[0], group_lag[1]))
    safety = _in_sync_words(scene.model.state, drag.primary, panel.brush) if drag else ()
    if not lags and not safety:
        return
    panel.title("touches")
    for lag, id in lags[:GROUP_LINES]:
        name = id if len(id) <= GROUP_NAME else id[: GROUP_NAME - 1] + "…"
        words = "lag ?" if math.isinf(lag) else f"lag {lag:,}"
        panel.write((plain(f"group {name:<{GROUP_NAME}} "), plain(words)))
    if len(lags) > GROUP_LINES:
        panel.write((dim(f"and {len(lags) - GROUP_LINES} more groups"),))
    if safety:
        panel.write(safety)
    panel.gap()


def _in_sync_words(state: ClusterState, tp: TopicPartition, brush: Brush) -> Line:
    """Return `min.insync 2 of 3`, marked when one replica less would be too few."""
    row = state.find(tp)
    min_insync = state.topics[int(state.topic_of[row])].min_insync if row is not None else None
    if row is None or min_insync is None:
        return ()
    replicas = state.replica_slice(row)
    spare = int(state.in_sync[replicas].sum()) > min_insync
    mark, tone = (brush.glyphs.fine, Tone.FINE) if spare else ("▲", Tone.LOOK)
    return (Span(f"min.insync {min_insync} of {replicas.stop - replicas.start} {mark}", tone),)


def _draw_reasons(panel: Panel, drag: Drag) -> None:
    for title, severity, tone in (
        ("cannot drop on", Severity.ILLEGAL, Tone.DIM),
        ("unsafe", Severity.UNSAFE, Tone.LOOK),
    ):
        if reasons := cannot_drop(drag, severity=severity):
            panel.title(title)
            for who, why in reasons:
                panel.write((Span(f"{who:<8} ", tone), Span(why, tone)))
            panel.gap()
