"""The panel under the map: the cell, or what is carried, in words; what writes panels beside it."""

from __future__ import annotations

from collections.abc import Sequence

from core.plan.checks.catalogue import Severity
from core.units import format_duration, format_rate
from tui.drawing.canvas import Row
from tui.drawing.spans import Line, Span, Tone, bright, dim, plain, width_of
from tui.map.drawing.clients import client_words, client_words_short
from tui.map.drawing.inspector import (
    cell_lines,
    cell_title,
    partition_lines,
    replica_details,
    suggestion_line,
)
from tui.map.drawing.preview import Preview, change_words, changes, plan_words, touched
from tui.map.drawing.scene import Scene
from tui.map.drawing.topic_rows import Brush
from tui.map.drawing.totals import draw_rule
from tui.map.view import Model


def draw_panel(scene: Scene, rows: Sequence[Row], y: int) -> int:
    """Draw the panel from line `y` on; return the line below it."""
    layout, brush = scene.layout, scene.brush
    title, lines = _panel_lines(scene, short=not layout.roomy)
    x = draw_rule(rows[y], title, brush, role="bright")
    health = scene.clients.of(scene.model.broker) if scene.clients is not None else None
    if health is not None and scene.drag is None:
        for words in (client_words(health), client_words_short(health)):
            if x + 3 + width_of(words) < rows[y].width:
                write_line(rows[y], x + 2, (plain(" "), *words, plain(" ")), brush)
                break
    for n, sentence in enumerate(lines[: layout.panel], 1):
        write_line(rows[y + n], 2, sentence, brush)
    return y + 1 + layout.panel


class Panel:
    """Writes lines one under the other beside the map."""

    def __init__(self, rows: Sequence[Row], start: int, brush: Brush) -> None:
        self.rows, self.start, self.brush = rows, start, brush
        self.y = 0

    def write(self, line: Line, *, on: str = "background", marked: bool = False) -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        if marked:
            row.fill(self.start - 1, row.width, self.brush.style(on=on))
            row.put(self.start, "▸", self.brush.style("yours", on, bold=True))
        x = self.start
        for span in line:
            text = span.text
            if marked and x == self.start:
                # The mark stands in the margin that the amount is padded with.
                x, text = x + 1, text[1:]
            style = self.brush.style(span.tone.value, on, bold=span.bold)
            if x + len(text) > row.width:
                text = text[: max(0, row.width - x - 1)] + "…"
            x = row.put(x, text, style)
        self.y += 1

    def title(self, text: str, more: str = "") -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        row.fill(self.start, row.width - 1, self.brush.style("faint"), "─")
        x = row.put(self.start, f"{text} ", self.brush.style("dim"))
        if more:
            row.put(x, f" {more} ", self.brush.style("bright", bold=True))
        self.y += 1

    def gap(self) -> None:
        self.y += 1


def write_line(row: Row, x: int, line: Line, brush: Brush) -> None:
    for span in line:
        x = row.put(x, span.text, brush.style(span.tone.value, bold=span.bold))


def _panel_lines(scene: Scene, *, short: bool) -> tuple[str, list[Line]]:
    """Return the panel's title and lines: the carry where there is no side panel, else the cell."""
    model, glyphs = scene.model, scene.brush.glyphs
    room, row = scene.layout.main - 3, model.partition_row
    if scene.drag is not None and not scene.layout.side:
        return _drag_lines(scene)
    if row is not None and not scene.layout.side:
        lines = partition_lines(model, row, glyphs)
        if model.view.detail:
            lines = [lines[0], *replica_details(model, row, room)]
    elif row is not None:
        lines = replica_details(model, row, room)
    else:
        lines = cell_lines(model, glyphs, short=short)
    tip = suggestion_line(scene.suggestion, scene.suggestion_estimate, short=short)
    if tip and not model.view.detail:
        lines = [*lines[: scene.layout.panel - 1], tip]
    return cell_title(model), lines


def _drag_lines(scene: Scene) -> tuple[str, list[Line]]:
    """Return title and lines of a carry on a narrow screen: before → after, time, reasons."""
    drag, model, preview = scene.drag, scene.model, scene.preview
    assert drag is not None
    tp = drag.primary
    title = f"carrying {drag.words} {drag.sources[tp]} → {drag.target}"
    if drag.to_lead:
        title += ", to lead"
    finding = drag.finding
    # There is one line: what is merely unwise gives way to what would change.
    if finding is not None and drag.moved and finding.severity >= Severity.UNSAFE:
        refused = not drag.can_drop
        mark = "✗" if refused else "▲"
        why = f"{mark} {finding.sentence}"
        first: Line = (Span(why, Tone.ACT if refused else Tone.LOOK, True),)
    else:
        words: list[Span] = []
        brokers = touched(model.state, preview.effect, [drag.sources[tp], drag.target])
        for change in changes(model, preview.effect, brokers)[:5]:
            what, before, _, after = change_words(change)
            words += [
                dim(what.text.strip() + " "),
                Span(before.text.strip(), before.tone),
                dim("→"),
                Span(after.text.strip(), after.tone, True),
                plain("  "),
            ]
        first = tuple(words) or (dim("h and l carry it; enter drops it"),)
    return title, [first, _plan_and_time(preview, model)]


def _plan_and_time(preview: Preview, model: Model) -> Line:
    words = [dim("plan  "), bright(plan_words(model.state, preview.plan))]
    for rate in (preview.rates or ())[-3:]:
        when = "never" if rate.never else format_duration(rate.seconds)
        words += [
            dim(f"   {format_rate(rate.rate_bytes_per_s)} "),
            Span(when, Tone.DIM if preview.of_before else Tone.ACT if rate.never else Tone.PLAIN),
        ]
    return tuple(words)
