"""How even any plan leaves the brokers, in each of the six measures. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from core.cluster.hidden_topics import is_partial
from core.cluster.state import Bool, ClusterState
from core.load.load import Float64, Load
from core.plan.effect import BAND
from core.plan.plan import Plan
from core.plan.planner.model.measures import SHOWN, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem, with_moves


@dataclass(frozen=True, eq=False, slots=True)
class Evenness:
    """`before` and `after` are [B, MEASURES] in fair shares, 1 is even; rows are `brokers`."""

    brokers: tuple[int, ...]
    counts: Bool
    """Which of them should carry their fair share."""
    active: Bool
    """Which measures are known."""
    before: Float64
    after: Float64
    band: float
    is_whole: bool = True
    """Whether all is known: every measure, every size and rate, and every topic."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(measure for measure in SHOWN if self.active[measure])

    def off(self, loads: Float64) -> Float64:
        """Return how far from its share each broker that counts is, [B, measures]; others 0."""
        off = np.abs(loads[:, list(self.measures)] - 1)
        return np.where(self.counts[:, None], off, 0.0)

    def is_within(self, loads: Float64) -> bool:
        return bool(self.off(loads).max(initial=0.0) <= self.band + 1e-9)

    def furthest(self, loads: Float64) -> tuple[int, Measure] | None:
        """Return the row and measure furthest from its share; None when none has or is known."""
        off = self.off(loads)
        if not (off.size and self.counts.any()):
            return None
        row, column = np.unravel_index(int(off.argmax()), off.shape)
        return int(row), self.measures[int(column)]

    def by_need(self) -> list[int]:
        """Return rows furthest outside the band first: those it leaves there, then mended ones."""
        now, then = (
            self.off(loads).max(axis=1, initial=0.0) for loads in (self.before, self.after)
        )
        left = np.where(then > self.band + 1e-9, then, 0.0)
        rows = range(len(self.brokers))
        return sorted(rows, key=lambda row: (-left[row], -now[row], self.brokers[row]))


def evenness(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    leaving: Collection[int] = (),
    excluded: Collection[int] = (),
    band: float = BAND,
) -> Evenness:
    """Return brokers' measures as they are and with the plan; moves of lost partitions are none.

    `leaving` brokers have no share, `excluded` ones are left as they are.
    """
    given = build_problem(state, load, band=band, leaving=leaving, excluded=excluded)
    start = Placement(given)
    end = Placement(with_moves(given, plan))
    unknown = np.isnan(load.in_bytes_per_s) | np.isnan(load.out_bytes_per_s)
    unknown |= state.partition_size_bytes < 0
    return Evenness(
        tuple(given.ids.tolist()),
        given.counts,
        given.active,
        start.loads,
        end.loads,
        band,
        is_whole=not (is_partial(state.hidden) or unknown.any()),
    )
