"""What is told of a plan that was found: its moves, their effect, and why each one is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from core.cluster.state import Bool, TopicPartition
from core.load.snapshot import Float64
from core.plan.plan import Move, Plan
from core.plan.planner.measures import HOSTED, LED, SHOWN, Measure
from core.plan.planner.placement import Placement
from core.plan.planner.problem import NOBODY


@dataclass(frozen=True, slots=True)
class Because:
    """Why a partition is in a plan: a broker's measure before and after all of it, in shares."""

    broker: int
    measure: Measure
    before: float
    after: float

    @property
    def words(self) -> str:
        return f"b{self.broker} {self.measure.words} {self.before:.0%} → {self.after:.0%}"


@dataclass(frozen=True, eq=False)
class Suggested:
    """A whole plan. `before` and `after` are [B, MEASURES] in fair shares, 1 is even."""

    plan: Plan
    brokers: tuple[int, ...]
    counts: Bool
    """Which of them should carry their fair share."""
    active: Bool
    """Which measures are known."""
    before: Float64
    after: Float64
    moves: int
    leader_moves: int
    bytes: int
    because: Mapping[TopicPartition, Because] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    undone: bool = False
    """Whether something that had to move stays where it is; a note says what."""

    def within(self, band: float, *, leaders_only: bool = False) -> bool:
        """Return whether every broker that counts ends within the band in all known measures."""
        columns = [m for m in SHOWN if self.active[m] and (m in LED or not leaders_only)]
        off = np.abs(self.after[self.counts][:, columns] - 1)
        return not off.size or bool(off.max() <= band + 1e-9)


def told(start: Placement, found: Placement, notes: list[str], undone: bool) -> Suggested:
    given, state = start.problem, start.problem.state
    width = start.at.shape[1]
    less = (found.at[:, width:] != NOBODY).any(axis=1)
    changed = np.flatnonzero((start.at != found.at[:, :width]).any(axis=1) | less)
    moves, because = [], {}
    copied = moved = led = 0
    for row in changed.tolist():
        before = tuple(given.ids[b].item() for b in start.at[row] if b != NOBODY)
        after = tuple(given.ids[b].item() for b in found.at[row] if b != NOBODY)
        topic = state.topics[int(state.topic_of[row])]
        move = Move(state.tp(row), before, after, topic.id)
        moves.append(move)
        copied += len(move.adding) * int(max(given.items[row, Measure.DISK], 0))
        moved += move.moves_data
        led += before[0] != after[0]
        because[move.tp] = _why(start, found, row)
    return Suggested(
        plan=Plan.of(moves, cluster_id=state.cluster_id),
        brokers=tuple(given.ids.tolist()),
        counts=given.counts,
        active=given.active,
        before=start.loads,
        after=found.loads,
        moves=moved,
        leader_moves=led,
        bytes=copied,
        because=because,
        notes=tuple(notes),
        undone=undone,
    )


def _why(start: Placement, found: Placement, row: int) -> Because:
    """Return the broker and measure that were furthest off of those that the move relieves."""
    given = start.problem
    best = (-np.inf, 0, Measure.DISK)
    before, after = start.at[row], found.at[row]
    gone = [int(b) for b in before if b != NOBODY and b not in after]
    come = [int(b) for b in after if b != NOBODY and b not in before]
    sides: list[tuple[int, tuple[Measure, ...], float]] = []
    sides += [(b, HOSTED, 1.0) for b in gone]
    sides += [(b, HOSTED, -1.0) for b in come]
    if before[0] != after[0]:
        sides += [(int(before[0]), LED, 1.0), (int(after[0]), LED, -1.0)]
    for broker, measures, sign in sides:
        for measure in measures:
            if not given.active[measure] or measure not in SHOWN:
                continue
            off = sign * (float(start.loads[broker, measure]) - 1)
            if not given.counts[broker] and sign > 0:
                off = np.inf
            if off > best[0]:
                best = (off, broker, measure)
    _, broker, measure = best
    return Because(
        int(given.ids[broker]),
        measure,
        float(start.loads[broker, measure]),
        float(found.loads[broker, measure]),
    )
