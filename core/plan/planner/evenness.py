"""How even a plan or an election leaves the brokers, in each of the six measures. Pure.

The planner evens out preferred leaders; only an election gives leadership back to them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from core.cluster.access.hidden_topics import is_partial
from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Float64, Load
from core.plan.effect import BAND
from core.plan.plan import Plan
from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY, SHOWN, Measure
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


def actual_leaders(on: Placement) -> Int32:
    """Return the broker row that leads each partition, shape [P]; NOBODY where none holds it.

    Who leads now goes on as long as it holds a replica and the plan prefers nobody else than
    before; a partition without a leader is counted with its preferred one.
    """
    given, first = on.problem, on.at[:, 0]
    now = given.leader_row
    kept = (first == given.replicas[:, 0]) & (on.at == now[:, None]).any(axis=1)
    return np.where(kept & (now != NOBODY), now, first)


def load_as_leader(on: Placement, leader_row: Int32, *, surely: bool = False) -> Float64:
    """Return what brokers carry where these lead, `surely` without guesses, shape [B, MEASURES]."""
    load = (on.known_carried if surely else on.carried).copy()
    items, held = on.problem.sure if surely else on.problem.items, leader_row != NOBODY
    for measure in LEADER_MEASURES:
        values = items[held, measure]
        load[:, measure] = np.bincount(leader_row[held], values, on.problem.brokers)
    return load


def electable(on: Placement) -> Bool:
    """Return which partitions others lead than the preferred replica, which is up and in sync."""
    return np.asarray((actual_leaders(on) != on.at[:, 0]) & on.may_lead[:, 0], np.bool_)


def election_notes(on: Placement) -> list[str]:
    """Say how many partitions an election would give back, where that brings a broker nearer."""
    given, able = on.problem, electable(on)
    by, away = np.where(able, actual_leaders(on), on.at[:, 0]), int(able.sum())
    known = np.array([m for m in LEADER_MEASURES if given.active[m]], np.int64)
    if not away or not len(known):
        return []
    preferred = on.loads[:, known]
    really = load_as_leader(on, by)[:, known] * on.per_share[:, known]
    off, worse = (np.abs(shares - 1) for shares in (preferred, really))
    worse[~given.counts[:, None] | (worse <= off) | (worse <= given.band + 1e-9)] = 0.0
    if not worse.any():
        return []
    row, column = np.unravel_index(int(worse.argmax()), worse.shape)
    are = "partition is" if away == 1 else "partitions are"
    their = "its preferred replica" if away == 1 else "their preferred replicas"
    back = "it" if away == 1 else "them"
    return [
        f"{away} {are} led by others than {their}, so that broker {given.ids[row]} has "
        f"{really[row, column]:.0%} of its share of {Measure(int(known[column])).words}: "
        f"trimtab elect gives {back} back."
    ]


def select_elections(
    state: ClusterState, load: Load, rows: Int64, max_elections: int, *, band: float = BAND
) -> tuple[Int64, Evenness]:
    """Return the partitions to elect, at most so many of `rows`, those that even out most first.

    With them what brokers carry as leaders: before as partitions are led now, and after it.
    """
    on = Placement(build_problem(state, load, band=band))
    given, now = on.problem, actual_leaders(on)
    before = load_as_leader(on, now) * on.per_share
    help = _relief(on, now, before)[rows]
    chosen = rows[np.lexsort((rows, -help))][: max(max_elections, 0)]
    then = now.copy()
    then[chosen] = on.at[chosen, 0]
    active = given.active.copy()
    active[[m for m in range(len(active)) if m not in LEADER_MEASURES]] = False
    after = load_as_leader(on, then) * on.per_share
    ids = tuple(given.ids.tolist())
    return chosen, Evenness(ids, given.counts, active, before, after, band)


def _relief(on: Placement, now: Int32, loads: Float64) -> Float64:
    """Return how much fuller who leads each partition now is than its preferred leader, [P]."""
    given, to = on.problem, on.at[:, 0]
    relief = np.zeros(len(to))
    known = (now != NOBODY) & (to != NOBODY)
    for measure in LEADER_MEASURES:
        if given.active[measure]:
            off = (loads[:, measure] - 1) * on.per_share[:, measure]
            off[~given.counts] = 0.0
            relief[known] += given.items[known, measure] * (off[now[known]] - off[to[known]])
    return relief
