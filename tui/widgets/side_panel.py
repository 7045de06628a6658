"""The panel beside the map: what is carried, before and after, the plan, rates against time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.state import ClusterState, TopicPartition
from core.load.scale import scale_of
from core.load.snapshot import Float64
from core.plan.findings import Severity
from core.plan.plan import Plan
from core.units import format_bytes, format_duration
from tui.carry import Carry
from tui.map_view import Model
from tui.widgets.canvas import Row
from tui.widgets.inspector import Sentence, Word, partition_lines
from tui.widgets.topic_rows import Brush

if TYPE_CHECKING:
    from core.plan.estimate import Estimate
    from core.plan.impact import Impact

PLAN_LINES = 6


@dataclass(frozen=True, slots=True)
class Preview:
    """What the plan, with what is carried dropped where it is, would do."""

    plan: Plan
    effect: Impact
    rates: tuple[Estimate, ...] | None
    """None while they are being worked out."""
    rate_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Change:
    """One number before and after, as text, and whether it gets better."""

    name: str
    before: str
    after: str
    better: bool | None


def changes(model: Model, effect: Impact, brokers: Sequence[int]) -> list[Change]:
    """Return in, out and disk of these brokers and the skew of in, before and after."""
    ids = model.state.broker_ids.tolist()
    before, after = effect.before, effect.after
    found: list[Change] = []

    def column(title: str, one: Float64, other: Float64, fair: float) -> None:
        scale = scale_of(float(np.nanmax(np.nan_to_num(one), initial=0.0)), counted=fair < 0)
        for broker in brokers:
            at = ids.index(broker)
            a, b = float(one[at]), float(other[at])
            if math.isnan(a) or math.isnan(b) or scale.text(a) == scale.text(b):
                continue
            better = None if fair <= 0 else abs(b - fair) < abs(a - fair)
            found.append(
                Change(f"b{broker} {title}", scale.text(a, "0"), scale.text(b, "0"), better)
            )

    def mean(values: Float64) -> float:
        return float(np.nanmean(values)) if not np.isnan(values).all() else -1.0

    column("in", before.in_bytes_per_s, after.in_bytes_per_s, mean(before.in_bytes_per_s))
    column("out", before.out_bytes_per_s, after.out_bytes_per_s, mean(before.out_bytes_per_s))
    disk = before.disk_fraction
    column("disk", disk * 100, after.disk_fraction * 100, mean(disk * 100))
    if np.isnan(before.in_bytes_per_s).all():
        one, other = before.replicas.astype(np.float64), after.replicas.astype(np.float64)
        column("replicas", one, other, -1.0)
    skew_before, skew_after = _skew(before.in_bytes_per_s), _skew(after.in_bytes_per_s)
    if not math.isnan(skew_before):
        found.append(
            Change("skew", f"{skew_before:.1f}×", f"{skew_after:.1f}×", skew_after < skew_before)
        )
    return found


def _skew(values: Float64) -> float:
    if np.isnan(values).all() or not np.nanmean(values) > 0:
        return math.nan
    return float(np.nanmax(values) / np.nanmean(values))


def touched(state: ClusterState, effect: Impact, first: Sequence[int] = ()) -> list[int]:
    """Return the brokers a plan changes, those that are carried between first."""
    ids = state.broker_ids.tolist()
    rest = [ids[i] for i in effect.touched if ids[i] not in first]
    return [*dict.fromkeys(first), *rest]


def carry_words(model: Model, carry: Carry, brush: Brush) -> list[Sentence]:
    """Return what is carried, from where to where, and whether it may be dropped there."""
    source = carry.sources[carry.primary]
    lines: list[Sentence] = [(Word("carrying ", "dim"), Word(carry.words, "bright", True))]
    words = [Word(f"from {source} to {carry.target}")]
    racks = {broker.id: broker.rack for broker in model.state.brokers}
    one, other = racks.get(source), racks.get(carry.target)
    finding = carry.finding if carry.moved else None
    if carry.moved and one and other and (finding is None or finding.id != "rack-spread"):
        arrow, fine = brush.glyphs.arrow, brush.glyphs.fine
        words.append(Word(f"  rack {one} {arrow} {other} {fine}", "fine"))
    lines.append(tuple(words))
    if carry.to_lead:
        lines.append((Word("to lead there", "yours", True),))
    return lines


def cannot_drop(carry: Carry, *, severity: Severity) -> list[tuple[str, str]]:
    """Return (brokers, reason) of the primary's findings of one severity, grouped by reason."""
    tp = carry.primary
    groups: dict[str, list[int]] = {}
    for broker, finding in sorted(carry.findings[tp].items()):
        if finding.severity is severity:
            groups.setdefault(finding.id, []).append(broker)
    reasons = {"same-broker-twice": f"already hold p{tp.partition}"}
    return [
        (" ".join(map(str, brokers)), reasons.get(id, id.replace("-", " ")))
        for id, brokers in groups.items()
    ]


def rate_lines(preview: Preview, brush: Brush) -> list[tuple[Sentence, bool]]:
    """Return the throttle table: rate, time, the slowest broker and side; True for the chosen."""
    if preview.rates is None:
        return [((Word("working it out", "dim"),), False)]
    if not preview.rates:
        text = "no data to move" if preview.plan.moves else "nothing planned"
        return [((Word(text, "dim"),), False)]
    scale = scale_of(float(min(rate.rate_bytes_per_s for rate in preview.rates)))
    if scale.prefix not in ("k", "M"):
        scale = scale_of(1e6)
    lines: list[tuple[Sentence, bool]] = [
        ((Word(f"{scale.prefix + 'B/s':>8} {'time':>9}   slowest", "dim"),), False)
    ]
    for rate in preview.rates:
        chosen = rate.rate_bytes_per_s == preview.rate_bytes_per_s
        amount = f"{rate.rate_bytes_per_s / scale.divisor:>8.0f} "
        limit = "" if rate.limit is None else f"b{rate.limit.broker} {_side(rate)}"
        if rate.never is not None:
            words: Sentence = (
                Word(amount, "text"),
                Word(f"{'never':>9}", "act"),
                Word(f"   {limit} {brush.glyphs.act} inflow", "act"),
            )
        else:
            time = "?" if rate.seconds is None else format_duration(rate.seconds)
            words = (
                Word(amount, "yours" if chosen else "text", chosen),
                Word(f"{time:>9}", "bright" if chosen else "text", chosen),
                Word(f"   {limit}"),
            )
        lines.append((words, chosen))
    return lines


def _side(rate: Estimate) -> str:
    assert rate.limit is not None
    return "out" if rate.limit.side.value == "leader" else "in"


class Panel:
    """Writes sentences one under the other beside the map."""

    def __init__(self, rows: Sequence[Row], start: int, brush: Brush) -> None:
        self.rows = rows
        self.start = start
        self.brush = brush
        self.y = 0

    def write(self, sentence: Sentence, *, on: str = "background", marked: bool = False) -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        if marked:
            row.fill(self.start - 1, row.width, self.brush.style(on=on))
            row.put(self.start, self.brush.glyphs.cursor, self.brush.style("yours", on, bold=True))
        x = self.start
        for word in sentence:
            text = word.text
            if marked and x == self.start:
                # The mark stands in the margin that the amount is padded with.
                x, text = x + 1, text[1:]
            x = row.put(x, text, self.brush.style(word.role, on, bold=word.bold))
        self.y += 1

    def title(self, text: str, more: str = "") -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        row.fill(self.start, row.width - 1, self.brush.style("faint"), self.brush.glyphs.rule)
        x = row.put(self.start, f"{text} ", self.brush.style("dim"))
        if more:
            row.put(x, f" {more} ", self.brush.style("bright", bold=True))
        self.y += 1

    def gap(self) -> None:
        self.y += 1


def draw_side(
    rows: Sequence[Row],
    start: int,
    model: Model,
    brush: Brush,
    preview: Preview,
    carry: Carry | None,
) -> None:
    """Draw the panel into the columns from `start` of these rows."""
    panel = Panel(rows, start, brush)
    if carry is not None:
        width = panel.rows[0].width - start - 1
        for sentence in carry_words(model, carry, brush):
            panel.write(sentence)
        finding = carry.finding if carry.moved else None
        if finding is not None:
            legal = carry.can_drop
            mark = brush.glyphs.look if legal else brush.glyphs.act
            for part in textwrap.wrap(f"{mark} {finding.sentence}", width)[:3]:
                panel.write((Word(part, "look" if legal else "act"),))
        panel.gap()
    elif model.partition_row is not None:
        _draw_partition(panel, model, model.partition_row)
    _draw_changes(panel, model, brush, preview, carry)
    shown = model.partitions.topic if model.partitions is not None else None
    _draw_plan(panel, model.state, preview, shown)
    panel.title("throttle")
    for sentence, chosen in rate_lines(preview, brush):
        panel.write(sentence, on="cursor" if chosen else "background", marked=chosen)
    panel.gap()
    if carry is not None:
        _draw_reasons(panel, carry, brush)


def _draw_partition(panel: Panel, model: Model, row: int) -> None:
    tp = model.state.tp(row)
    panel.title(f"p{tp.partition}")
    facts, replicas = partition_lines(model, row, panel.brush.glyphs)
    width = panel.rows[0].width - panel.start - 1
    for sentence in (facts, replicas[1:]):
        for part in wrapped(sentence, width):
            panel.write(part)
    panel.gap()


def wrapped(sentence: Sentence, width: int) -> list[Sentence]:
    """Return a sentence as lines of at most `width`, broken between its words."""
    lines: list[list[Word]] = [[]]
    used = 0
    for word in sentence:
        text = word.text if used else word.text.lstrip(" ·")
        if used and used + len(text.rstrip()) > width:
            lines.append([])
            text, used = word.text.lstrip(" ·"), 0
        if text:
            lines[-1].append(Word(text, word.role, word.bold))
            used += len(text)
    return [tuple(line) for line in lines if line]


def _draw_changes(
    panel: Panel, model: Model, brush: Brush, preview: Preview, carry: Carry | None
) -> None:
    first: list[int] = []
    if carry is not None and carry.moved:
        first = [*carry.sources.values(), carry.target]
    brokers = touched(model.state, preview.effect, first)[:4]
    if not brokers:
        return
    panel.write((Word(f"{'':<9}{'before':>8}    {'after':>6}", "dim"),))
    for change in changes(model, preview.effect, brokers):
        panel.write(change_words(change, brush))
    panel.gap()


def change_words(change: Change, brush: Brush) -> Sentence:
    role = {True: "fine", False: "look", None: "text"}[change.better]
    times = brush.glyphs.times
    return (
        Word(f"{change.name:<9}"),
        Word(f"{change.before.replace('×', times):>8}", "look" if change.better else "text", True),
        Word(f" {brush.glyphs.arrow} ", "dim"),
        Word(f"{change.after.replace('×', times):>7}", role, True),
    )


def _draw_plan(panel: Panel, state: ClusterState, preview: Preview, shown: str | None) -> None:
    plan = preview.plan
    panel.title("plan", plan_words(state, plan))
    arrow = panel.brush.glyphs.arrow
    # The topic that is being looked at first: that is where the plan is edited.
    moves = sorted(plan.moves, key=lambda move: (move.tp.topic != shown, move.tp))
    for move in moves[:PLAN_LINES]:
        here = move.tp.topic == shown
        name = f"p{move.tp.partition}" if here else short_name(move.tp)
        panel.write(
            (
                Word(f"{name:<13} "),
                Word(f"{move_words(move.before, move.after, arrow):<7}", "yours"),
                Word(f" {format_bytes(_bytes(state, move.tp)) if move.adding else '':>7}", "dim"),
            )
        )
    if len(plan) > PLAN_LINES:
        panel.write((Word(f"and {len(plan) - PLAN_LINES} more", "dim"),))
    panel.gap()


def plan_words(state: ClusterState, plan: Plan) -> str:
    """Return `2 moves, 418 GB`."""
    if not plan.moves:
        return "empty"
    total = sum((_bytes(state, move.tp) or 0) * len(move.adding) for move in plan)
    count = f"{len(plan)} move" if len(plan) == 1 else f"{len(plan)} moves"
    return f"{count}, {format_bytes(total)}" if total else count


def move_words(before: Sequence[int], after: Sequence[int], arrow: str) -> str:
    """Return a move in short: `7→12`, several by commas, `7 leads` when only the order changes."""
    out = [b for b in before if b not in after]
    into = [b for b in after if b not in before]
    if not into and not out:
        return f"{after[0]} leads"
    return f"{','.join(map(str, out)) or '+'}{arrow}{','.join(map(str, into)) or '-'}"


def short_name(tp: TopicPartition, width: int = 13) -> str:
    name = str(tp)
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def _bytes(state: ClusterState, tp: TopicPartition) -> int | None:
    row = state.find(tp)
    size = int(state.partition_size_bytes[row]) if row is not None else -1
    return size if size >= 0 else None


def _draw_reasons(panel: Panel, carry: Carry, brush: Brush) -> None:
    width = 8
    write: Callable[[str, str, str], None] = lambda who, why, role: panel.write(  # noqa: E731
        (Word(f"{who:<{width}} ", role), Word(why, role))
    )
    illegal = cannot_drop(carry, severity=Severity.ILLEGAL)
    if illegal:
        panel.title("cannot drop on")
        for who, why in illegal:
            write(who, why, "dim")
        panel.gap()
    unsafe = cannot_drop(carry, severity=Severity.UNSAFE)
    if unsafe:
        panel.title("unsafe")
        for who, why in unsafe:
            write(who, why, "look")
