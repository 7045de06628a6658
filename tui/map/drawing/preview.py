"""What a plan would change, in words and numbers: brokers before and after, moves, rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Float64
from core.load.view.heat import ABOVE, Metric
from core.load.view.text import scale_of
from core.load.view.totals import max_ratio
from core.plan.plan import Move, Plan
from core.units import counted, format_bytes, id_list
from tui.drawing.spans import Line, Span, Tone, dim, plain
from tui.map.view import Model

if TYPE_CHECKING:
    from core.plan.effect import Effect
    from core.plan.estimate.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Preview:
    """What the plan, with what is carried dropped where it is, would do."""

    plan: Plan
    effect: Effect
    rates: tuple[Estimate, ...] | None
    """None while they are being worked out."""
    rate_bytes_per_s: int
    of_before: bool = False
    """Whether `rates` are still those of the column that was carried over before."""


@dataclass(frozen=True, slots=True)
class Change:
    """One number before and after, as text, and whether it gets better."""

    name: str
    before: str
    after: str
    better: bool | None
    hot: bool = False
    """Whether it is far above its fair share before: that is what amber means everywhere."""


def changes(model: Model, effect: Effect, brokers: Sequence[int]) -> list[Change]:
    """Return in, out and disk of these brokers and the skew of in, before and after."""
    ids = model.state.broker_ids.tolist()
    before, after = effect.before, effect.after
    deltas: list[Change] = []

    def column(title: str, old_values: Float64, other: Float64, shares: Float64 | None) -> None:
        largest = float(np.nanmax(np.nan_to_num(old_values), initial=0.0))
        scale = scale_of(largest, counted=shares is None)
        for broker in brokers:
            at = ids.index(broker)
            a, b = float(old_values[at]), float(other[at])
            if math.isnan(a) or math.isnan(b) or scale.text(a) == scale.text(b):
                continue
            fair = 0.0 if shares is None else float(shares[at])
            better = abs(b - fair) < abs(a - fair) if fair > 0 else None
            words = scale.text(a, "0"), scale.text(b, "0")
            deltas.append(Change(f"b{broker} {title}", *words, better, a >= fair * ABOVE[0] > 0))

    totals = model.totals
    fair = totals.fair[Metric.IN]
    column("in", before.in_bytes_per_s, after.in_bytes_per_s, fair)
    column("out", before.out_bytes_per_s, after.out_bytes_per_s, totals.fair[Metric.OUT])
    disk = before.disk_fraction
    column("disk", disk * 100, after.disk_fraction * 100, totals.disk_fair * 100)
    if np.isnan(before.in_bytes_per_s).all():
        old_counts, other = before.replicas.astype(np.float64), after.replicas.astype(np.float64)
        column("replicas", old_counts, other, None)
    skew_before = max_ratio(before.in_bytes_per_s, fair)[1]
    skew_after = max_ratio(after.in_bytes_per_s, fair)[1]
    if not math.isnan(skew_before):
        words = f"{skew_before:.1f}×", f"{skew_after:.1f}×"
        better = skew_after < skew_before
        deltas.append(Change("skew", *words, better, skew_before >= ABOVE[0]))
    return deltas


def touched(state: ClusterState, effect: Effect, first: Sequence[int] = ()) -> list[int]:
    """Return the brokers a plan changes, those that are carried between first."""
    ids = state.broker_ids.tolist()
    rest = [ids[i] for i in effect.touched if ids[i] not in first]
    return [*dict.fromkeys(first), *rest]


def change_words(change: Change) -> Line:
    tone = {True: Tone.FINE, False: Tone.LOOK, None: Tone.PLAIN}[change.better]
    return (
        plain(f"{change.name:<9}"),
        Span(f"{change.before:>8}", Tone.LOOK if change.hot else Tone.PLAIN, True),
        dim(" → "),
        Span(f"{change.after:>7}", tone, True),
    )


def plan_words(state: ClusterState, plan: Plan) -> str:
    """Return `2 moves, 418 GB`."""
    if not plan.moves:
        return "empty"
    sizes = [(size_of(state, move.tp), len(move.adding)) for move in plan if move.adding]
    total = sum((size or 0) * copies for size, copies in sizes)
    count = counted(len(plan), "move")
    if any(size is None for size, _ in sizes):
        return f"{count}, {f'at least {format_bytes(total)}' if total else 'of unknown size'}"
    return f"{count}, {format_bytes(total)}" if total else count


def move_words(move: Move) -> str:
    """Return a move in short: `7→12`, `7 leads` where only the order changes, `7 dir`."""
    out, into = move.removing, move.adding
    if not move.reassigns:
        return f"{id_list(move.dir_moves)} dir"
    if not into and not out:
        return f"{move.after[0]} leads"
    return f"{id_list(out) or '+'}→{id_list(into) or '-'}"


def size_of(state: ClusterState, tp: TopicPartition) -> int | None:
    row = state.find(tp)
    size = int(state.partition_size_bytes[row]) if row is not None else -1
    return size if size >= 0 else None
