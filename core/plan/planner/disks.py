"""Log dirs evened out: the bytes on each broker spread over its own, nothing between brokers. Pure.

Each log dir's share is by its size, where all of a broker's are known, else an equal part. Whoever
is outside the band gives or gets the fewest bytes that bring it inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from core.cluster.state import Bool, Broker, ClusterState, Int64, LogDir, TopicPartition
from core.errors import UsageError
from core.load.snapshot import Float64
from core.plan.plan import ANY, Move, Plan
from core.plan.planner.wanted import Wanted, untouched
from core.units import format_bytes

FULL = 0.90
"""How full a log dir may get; the old copy of what leaves one counts until it has left."""
OVERSHOOT = 0.05
"""By which part one replica may bring more than what is needed, though smaller ones would do."""
TINY = 1e-9


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


@dataclass(frozen=True, slots=True)
class DirReason:
    """Why a replica is in the plan: the log dir that it leaves, and the one that it goes to."""

    source: DirShare
    target: DirShare

    @property
    def relieved(self) -> DirShare:
        """Return the one of both that was further from its share."""
        return max(self.source, self.target, key=lambda one: abs(one.before - 1))

    @property
    def words(self) -> str:
        one = self.relieved
        return f"b{one.broker} {one.path} {one.before:.0%} → {one.after:.0%}"


@dataclass(frozen=True)
class EvenedDirs:
    """A whole plan between log dirs; `moves` counts replicas, `dirs` are all that were seen."""

    plan: Plan
    dirs: tuple[DirShare, ...]
    moves: int
    bytes: int
    reached: bool
    because: Mapping[TopicPartition, tuple[DirReason, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def even_dirs(state: ClusterState, wanted: Wanted) -> EvenedDirs:
    """Return the plan that evens out the log dirs of every broker, or of those that are named.

    Raises UsageError where something between brokers is wanted besides.
    """
    _refuse(state, wanted)
    movable = _movable(state, wanted)
    notes: list[str] = []
    brokers = [
        one
        for broker in state.brokers
        if broker.id not in wanted.exclude and broker.id in (wanted.brokers or (broker.id,))
        if (one := _looked_at(state, broker, movable, wanted.band, notes)) is not None
    ]
    limited = _carry_out(brokers, wanted)
    off = [one for one in brokers if one.is_off]
    if not brokers and not notes:
        notes.append("No broker has more than one log dir: there is nothing to even out.")
    notes += [one.why_off() for one in off[:3]]
    if off and limited:
        notes.append("A limit (bytes, moves or time) ends the plan before all log dirs are even.")
    moves, because = _moves(state, brokers)
    return EvenedDirs(
        Plan.of(moves, cluster_id=state.cluster_id),
        tuple(share for one in brokers for share in one.shares()),
        sum(len(one.moved) for one in brokers),
        round(sum(float(one.sizes[at]) for one in brokers for at in one.moved)),
        not off,
        because,
        tuple(notes),
    )


def _refuse(state: ClusterState, wanted: Wanted) -> None:
    if wanted.forces or wanted.fill or wanted.leaders_only:
        raise UsageError(
            "--disks evens out the log dirs of each broker and moves nothing between brokers.",
            next="Plan that by itself, and log dirs once it is done.",
        )
    for broker in (*wanted.exclude, *wanted.brokers):
        if broker not in state.broker_by_id:
            there = ", ".join(map(str, state.broker_ids.tolist()))
            raise UsageError(f"There is no broker {broker}.", next=f"The brokers are {there}.")


def _movable(state: ClusterState, wanted: Wanted) -> Bool:
    """Return which replicas may be copied: in sync, of partitions at rest that may be touched."""
    of = state.partition_of_replica
    fixed = state.moving | untouched(state, wanted) | (state.leader < 0)
    return np.asarray(state.in_sync & (state.size_bytes > 0) & ~fixed[of], np.bool_)


def _looked_at(
    state: ClusterState, broker: Broker, movable: Bool, band: float, notes: list[str]
) -> _BrokerDirs | None:
    """Return a broker with log dirs to choose from; say of others what is not known of them."""
    if not broker.alive:
        return None
    dirs = [one for one in broker.log_dirs if one.error is None]
    offline = [one.path for one in broker.log_dirs if one.error is not None]
    if offline:
        notes.append(f"Log dir {offline[0]} of broker {broker.id} is offline and left as it is.")
    if not broker.log_dirs:
        notes.append(f"What log dirs broker {broker.id} has is not known.")
    if len(dirs) < 2:
        return None
    return _BrokerDirs(state, broker.id, dirs, movable, band)


class _BrokerDirs:
    """One broker's log dirs while they are evened out; `at` is each replica's, by its place."""

    def __init__(
        self, state: ClusterState, id: int, dirs: list[LogDir], movable: Bool, band: float
    ) -> None:
        self.id, self.paths = id, [one.path for one in dirs]
        known = {path: d for d, path in enumerate(self.paths)}
        index = np.array([known.get(path, -1) for path in state.log_dir_paths] or [-1], np.int64)
        held = np.flatnonzero((state.replica_broker == id) & (state.log_dir >= 0))
        held = held[index[state.log_dir[held]] >= 0]
        self.rows: Int64 = state.partition_of_replica[held].astype(np.int64)
        self.sizes: Float64 = np.maximum(state.size_bytes[held], 0).astype(np.float64)
        self.at: Int64 = index[state.log_dir[held]]
        self.movable = movable[held]
        self.room = np.array([_room(one) for one in dirs])
        self._take_copies(state, known)
        self.begun = self.at.copy()
        self.bytes: Float64 = np.bincount(self.at, self.sizes, len(dirs)).astype(np.float64)
        self.before = self.bytes.copy()
        totals = [one.total_bytes for one in dirs]
        parts = np.array([total or 0 for total in totals], np.float64)
        parts = parts if all(totals) else np.ones(len(dirs))
        self.share: Float64 = parts / parts.sum() * self.bytes.sum()
        self.low, self.high = self.share * (1 - band), self.share * (1 + band)
        self.moved: list[int] = []
        self.stuck = False
        self._measure()

    def _take_copies(self, state: ClusterState, known: Mapping[str, int]) -> None:
        """Take what is on its way to another log dir for there already, with the room it needs."""
        for copy in state.dir_copies:
            target, row = known.get(copy.log_dir), state.find(copy.tp)
            if copy.broker == self.id and target is not None:
                here = np.flatnonzero(self.rows == row)
                self.at[here] = target
                self.room[target] -= max(0.0, float(self.sizes[here].sum()) - copy.size_bytes)

    def _measure(self) -> None:
        """Take in how far from its share the worst of the log dirs is, in shares."""
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(self.share > 0, np.abs(self.bytes / self.share - 1), 0.0)
        self.furthest = float(off.max(initial=0.0))
        self.is_off = bool(((self.bytes > self.high + TINY) | (self.bytes < self.low - TINY)).any())

    def step(self, most_bytes: float) -> bool:
        """Move one replica to where it helps; return whether there was one."""
        for source in np.argsort(-(self.bytes - self.share), kind="stable").tolist():
            for target in np.argsort(self.bytes - self.share, kind="stable").tolist():
                found = self._fitting(source, target, most_bytes)
                if found is not None:
                    self._move(found, source, target)
                    return True
        self.stuck = True
        return False

    def _fitting(self, source: int, target: int, most_bytes: float) -> int | None:
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
        here = here[self.sizes[here] <= min(self.room[target], most_bytes)]
        sizes = self.sizes[here]
        fine = sizes <= able + TINY
        if fine.any():
            enough = np.where(fine & (sizes >= min(need, able)), sizes, np.inf)
            less = np.where(fine & (sizes < need), sizes, -1.0)
            does_it = enough.min() <= need * (1 + OVERSHOOT) or less.max() < 0
            return int(here[enough.argmin() if does_it else less.argmax()])
        if not len(here):
            return None
        smallest = int(here[sizes.argmin()])
        return smallest if self._helps(smallest, source, target) else None

    def _helps(self, replica: int, source: int, target: int) -> bool:
        both, size = [source, target], self.sizes[replica]
        if not self.share[both].all():
            return False
        now = self.bytes[both] / self.share[both]
        then = (self.bytes[both] + [-size, size]) / self.share[both]
        return bool(np.abs(then - 1).max() < np.abs(now - 1).max() - TINY)

    def _move(self, replica: int, source: int, target: int) -> None:
        size = self.sizes[replica]
        self.at[replica] = target
        self.bytes[source] -= size
        self.bytes[target] += size
        self.room[target] -= size
        self.movable[replica] = False
        self.moved.append(replica)
        self._measure()

    def shares(self) -> list[DirShare]:
        return [
            DirShare(self.id, path, float(share), round(before), round(after))
            for path, share, before, after in zip(
                self.paths,
                self.share.tolist(),
                self.before.tolist(),
                self.bytes.tolist(),
                strict=True,
            )
        ]

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


def _carry_out(brokers: Iterable[_BrokerDirs], wanted: Wanted) -> bool:
    """Move replicas, of the broker that is furthest off first; return whether a limit ended it."""
    limits, moves, copied = wanted.limits, 0, 0.0
    open_ones = [one for one in brokers if one.is_off]
    while open_ones:
        if moves >= limits.most_moves or limits.stop():
            return True
        worst = max(open_ones, key=lambda one: (one.furthest, -one.id))
        if len(worst.moved) < limits.most_per_broker and worst.step(limits.most_bytes - copied):
            moves += 1
            copied += float(worst.sizes[worst.moved[-1]])
        else:
            worst.stuck = True
        open_ones = [one for one in open_ones if one.is_off and not one.stuck]
    held_up = any(len(one.moved) >= limits.most_per_broker for one in brokers if one.is_off)
    return held_up or limits.most_bytes < float("inf")


def _moves(
    state: ClusterState, brokers: Iterable[_BrokerDirs]
) -> tuple[list[Move], dict[TopicPartition, tuple[DirReason, ...]]]:
    """Return the moves, one for each partition, and why its replicas are in them."""
    wanted: defaultdict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
    reasons: defaultdict[int, list[DirReason]] = defaultdict(list)
    for one in brokers:
        shares = one.shares()
        for replica in one.moved:
            source, target = int(one.begun[replica]), int(one.at[replica])
            row = int(one.rows[replica])
            wanted[row][one.id] = one.paths[source], one.paths[target]
            reasons[row].append(DirReason(shares[source], shares[target]))
    moves = []
    for row, dirs in wanted.items():
        topic, held = state.topics[int(state.topic_of[row])], state.replicas(row)
        found, named = (tuple(dirs[b][i] if b in dirs else ANY for b in held) for i in (0, 1))
        moves.append(Move(state.tp(row), held, held, topic.id, named, found))
    return moves, {state.tp(row): tuple(why) for row, why in reasons.items()}
