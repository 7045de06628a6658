"""One broker's log dirs while they are balanced: contents, arrivals and free space.

Each log dir's share is by its size, where all of a broker's are known, else an equal part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.cluster.metadata import LogDir
from core.cluster.state import Bool, ClusterState, Int64
from core.load.load import Float64
from core.plan.disk_space import disks_of
from core.plan.plan import Plan, moves_with_rows
from core.plan.planner.model.placement import TINY
from core.plan.planner.model.problem import FULL
from core.units import format_bytes, name_list

OVERSHOOT = 0.05
"""By which part one replica may bring more than what is needed, though smaller ones would do."""


@dataclass(frozen=True, slots=True)
class DirShare:
    """One log dir: its fair share, and the bytes of its replicas before and after the plan."""

    broker: int
    path: str
    share_bytes: float
    before_bytes: int
    after_bytes: int

    @property
    def before(self) -> float:
        """Return what it holds in fair shares, 1 is even."""
        return self.before_bytes / self.share_bytes if self.share_bytes else 1.0

    @property
    def after(self) -> float:
        return self.after_bytes / self.share_bytes if self.share_bytes else 1.0


@dataclass(frozen=True)
class IncomingReplicas:
    """What a plan between brokers does to each of them: rows of partitions, sizes in bytes."""

    landing: Mapping[int, Sequence[tuple[int, float]]]
    """New replicas, the largest first."""
    leaving: Mapping[int, Collection[int]]
    part_in: Mapping[int, int]
    """Replicas that a broker gives and takes."""
    bytes: float
    placed: Mapping[int, Sequence[tuple[int, float, str]]]
    """What a kept plan puts into a log dir: replicas that are new, and that change it."""

    @classmethod
    def of(cls, state: ClusterState, between: Plan, kept: Plan) -> IncomingReplicas:
        """Return what `between` does; what is `kept` is taken for done already."""
        landing: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        leaving: defaultdict[int, list[int]] = defaultdict(list)
        placed: defaultdict[int, list[tuple[int, float, str]]] = defaultdict(list)
        part_in: Counter[int] = Counter()
        copied = 0.0
        sizes = np.maximum(state.partition_size_bytes, 0).astype(np.float64)
        for move, row in moves_with_rows(state, (*between, *kept)):
            for broker in move.removing:
                leaving[broker].append(row)
        for move, row in moves_with_rows(state, kept):
            for broker, path in move.target_log_dirs.items():
                placed[broker].append((row, float(sizes[row]), path))
        for move, row in moves_with_rows(state, between):
            size = float(sizes[row])
            # What is dropped without another one in its place is copied from nowhere.
            part_in.update((*move.adding, *move.removing[: len(move.adding)]))
            copied += size * len(move.adding)
            for broker in move.adding:
                landing[broker].append((row, size))
        for lands in landing.values():
            lands.sort(key=lambda arrival: (-arrival[1], arrival[0]))
        return cls(landing, leaving, part_in, copied, placed)


class BrokerDirs:
    """One broker's log dirs while they are evened out; `at` is each replica's, by its place."""

    def __init__(
        self,
        state: ClusterState,
        id: int,
        dirs: list[LogDir],
        movable: Bool,
        band: float,
        coming: IncomingReplicas,
    ) -> None:
        self.id, self.paths = id, [log_dir.path for log_dir in dirs]
        known = {path: d for d, path in enumerate(self.paths)}
        index = np.array([known.get(path, -1) for path in state.log_dir_paths] or [-1], np.int64)
        held = np.flatnonzero((state.replica_broker == id) & (state.log_dir >= 0))
        held = held[index[state.log_dir[held]] >= 0]
        self.rows: Int64 = state.partition_of_replica[held].astype(np.int64)
        self.sizes: Float64 = np.maximum(state.size_bytes[held], 0).astype(np.float64)
        self.at: Int64 = index[state.log_dir[held]]
        self.movable = movable[held]
        self.room = np.array([_room(log_dir) for log_dir in dirs])
        on = {path: n for n, disk in enumerate(disks_of(dirs)) for path in disk.paths}
        self._disk = np.array([on[path] for path in self.paths])
        # The room that reassignments in flight are still to fill is not free.
        left = state.partition_size_bytes[self.rows] - self.sizes
        for replica in np.flatnonzero(state.adding[held] & (left > 0)).tolist():
            self._fill(int(self.at[replica]), float(left[replica]))
        # What is on its way to another log dir is there already, with the room it needs.
        for copy in state.future_replicas:
            target, row = known.get(copy.log_dir), state.find(copy.tp)
            if copy.broker == self.id and target is not None:
                here = np.flatnonzero(self.rows == row)
                self.at[here] = target
                self._fill(target, max(0.0, float(self.sizes[here].sum()) - copy.size_bytes))
        self._apply_kept_placements(coming.placed.get(id, ()), known)
        hidden = state.hidden.bytes_by_dir(id) if state.hidden else {}
        self._hidden = np.array([hidden.get(path, 0) for path in self.paths], np.float64)
        self.before: Float64 = self._hidden + np.bincount(self.at, self.sizes, len(dirs))
        # Replicas that leave the broker count no more; their room is free only once they have left.
        stays = ~np.isin(self.rows, np.array(sorted(coming.leaving.get(id, ())), np.int64))
        self.rows, self.sizes, self.at = self.rows[stays], self.sizes[stays], self.at[stays]
        self.movable = self.movable[stays]
        self.begun = self.at.copy()
        self.bytes: Float64 = self._hidden + np.bincount(self.at, self.sizes, len(dirs))
        lands = coming.landing.get(id, ())
        whole = self.bytes.sum() + sum(size for _, size in lands)
        totals = [log_dir.total_bytes for log_dir in dirs]
        parts = np.array([total or 0 for total in totals], np.float64)
        parts = parts if all(totals) else np.ones(len(dirs))
        self.share: Float64 = parts / parts.sum() * whole
        self.low, self.high = self.share * (1 - band), self.share * (1 + band)
        landed = [(row, self._place_incoming(size)) for row, size in lands]
        self.landed = {row: at for row, at in landed if at is not None}
        self.homeless = [row for row, at in landed if at is None]
        self.moved: list[int] = []
        self.is_infeasible = False
        self.short_of_bytes = False
        """Whether it is stuck for nothing but the limit of bytes."""
        self._measure()

    def _fill(self, target: int, size: float) -> None:
        """Take room in a log dir, and in those that lie on its disk."""
        self.room[self._disk == self._disk[target]] -= size

    def _apply_kept_placements(
        self, placed: Sequence[tuple[int, float, str]], known: Mapping[str, int]
    ) -> None:
        """Take what a kept plan puts into a log dir for there already, with the room it needs."""
        for row, size, path in placed:
            target, here = known.get(path), np.flatnonzero(self.rows == row)
            if target is None or (self.at[here] == target).any():
                continue
            if not len(here):
                here = np.array([len(self.rows)])
                self.rows = np.append(self.rows, row)
                self.sizes = np.append(self.sizes, size)
                self.at = np.append(self.at, target)
                self.movable = np.append(self.movable, False)
            self.at[here] = target
            self._fill(target, float(self.sizes[here].sum()))

    def _place_incoming(self, size: float) -> int | None:
        """Take a new replica in where there is least, in shares; None where none has the room."""
        roomy = np.flatnonzero(self.room >= size)
        if not len(roomy):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            full = np.nan_to_num((self.bytes[roomy] + size) / self.share[roomy])
        at = int(roomy[np.argmin(full)])
        self.bytes[at] += size
        self._fill(at, size)
        return at

    def _measure(self) -> None:
        """Take in how far from its share the worst of the log dirs is, in shares."""
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(self.share > 0, np.abs(self.bytes / self.share - 1), 0.0)
        self.furthest = float(off.max(initial=0.0))
        self.is_off = bool(((self.bytes > self.high + TINY) | (self.bytes < self.low - TINY)).any())

    def step(self, max_bytes: float) -> bool:
        """Move one replica to where it helps; return whether there was one."""
        if move := self._next(max_bytes):
            self._move(*move)
            return True
        self.is_infeasible = True
        self.short_of_bytes = max_bytes < np.inf and self._next(np.inf) is not None
        return False

    def _next(self, max_bytes: float) -> tuple[int, int, int] | None:
        """Return the replica to move, where from and where to."""
        for source in np.argsort(-(self.bytes - self.share), kind="stable").tolist():
            for target in np.argsort(self.bytes - self.share, kind="stable").tolist():
                replica = self._fitting(source, target, max_bytes)
                if replica is not None:
                    return replica, source, target
        return None

    def _fitting(self, source: int, target: int, max_bytes: float) -> int | None:
        """Return the replica to move: the smallest that does it, if it hardly does too much.

        Else the largest that does less: smaller ones will do the rest. Neither log dir may leave
        the band by that at its other end; where replicas are too large for it, one that brings
        both nearer to their shares is taken all the same.
        """
        need = max(self.bytes[source] - self.high[source], self.low[target] - self.bytes[target])
        if need <= TINY or source == target:
            return None
        able = min(self.bytes[source] - self.low[source], self.high[target] - self.bytes[target])
        here = np.flatnonzero(self.movable & (self.at == source))
        here = here[self.sizes[here] <= min(self.room[target], max_bytes)]
        sizes = self.sizes[here]
        fine = sizes <= able + TINY
        if fine.any():
            enough = np.where(fine & (sizes >= min(need, able)), sizes, np.inf)
            less = np.where(fine & (sizes < need), sizes, -1.0)
            does_it = enough.min() <= need * (1 + OVERSHOOT) or less.max() < 0
            return int(here[enough.argmin() if does_it else less.argmax()])
        if not len(here):
            return None
        both, size = [source, target], sizes.min()
        if not self.share[both].all():
            return None
        now = self.bytes[both] / self.share[both]
        then = (self.bytes[both] + [-size, size]) / self.share[both]
        helps = np.abs(then - 1).max() < np.abs(now - 1).max() - TINY
        return int(here[sizes.argmin()]) if helps else None

    def _move(self, replica: int, source: int, target: int) -> None:
        size = self.sizes[replica]
        self.at[replica] = target
        self.bytes[source] -= size
        self.bytes[target] += size
        self._fill(target, size)
        self.movable[replica] = False
        self.moved.append(replica)
        self._measure()

    def shares(self) -> list[DirShare]:
        columns = (self.share.tolist(), self.before.tolist(), self.bytes.tolist())
        return [
            DirShare(self.id, path, share, round(before), round(after))
            for path, share, before, after in zip(self.paths, *columns, strict=True)
        ]

    def why_homeless(self, state: ClusterState) -> str:
        """Say for which new replicas no log dir has the room that all together have."""
        which = name_list([state.tp(row) for row in self.homeless])
        return (
            f"No log dir of broker {self.id} has room for {which} beside what else lands there: "
            "Kafka would choose one, and may fill it. Plan less for that broker, or add disk."
        )

    def why_off(self) -> str:
        """Say what keeps the log dirs of this broker from getting even."""
        largest = float(self.sizes.max(initial=0.0))
        size = format_bytes(largest)
        if largest > self.high.max(initial=0.0):
            return f"Broker {self.id} holds one replica of {size}: no log dir can be even with it."
        return (
            f"The log dirs of broker {self.id} stay up to {self.furthest:.0%} from their shares: "
            f"replicas (up to {size}) do not fit better, may not move, or there is no room."
        )


def _room(log_dir: LogDir) -> float:
    """Return what may be copied into a log dir; infinity where its space is not known."""
    if log_dir.usable_bytes is None or log_dir.total_bytes is None:
        return float("inf")
    return max(0.0, log_dir.usable_bytes - (1 - FULL) * log_dir.total_bytes)
