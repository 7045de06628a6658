"""Plan: the target assignments an operator wants, as an immutable value.

Every edit returns a new Plan, so undo is a list of Plans. A plan remembers for each of its
partitions what it was made from, so that an unrelated change elsewhere does not spoil it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState

ANY = "any"
"""Kafka's word for "let the broker choose the log dir"."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's part of a plan: from the ordered replicas `before` to `after`.

    `log_dirs` has one entry for each of `after`, where the replica is to lie on its broker, and
    `log_dirs_before` one for each of `before`, where it was found; `any` where that does not
    matter, or is not known. Both are None when no log dir is asked for. `reason` is what a planner
    said of it, as long as it is the planner's move; it makes no other move of it.
    """

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    topic_id: str | None = None
    log_dirs: tuple[str, ...] | None = None
    log_dirs_before: tuple[str, ...] | None = None
    reason: str = field(default="", compare=False)

    @property
    def adding(self) -> tuple[int, ...]:
        """Return the brokers that get a new replica, in target order."""
        return tuple(b for b in self.after if b not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(b for b in self.before if b not in self.after)

    @property
    def moves_data(self) -> bool:
        """Return whether brokers copy from one another for it."""
        return bool(self.adding)

    @property
    def reassigns(self) -> bool:
        """Return whether the controller has a part in it: other replicas, or another order."""
        return self.before != self.after

    @property
    def new_log_dirs(self) -> dict[int, str]:
        """Return in which log dir new replicas are to arrive, by broker, as far as it is said."""
        return {b: path for b, path in self._named() if b not in self.before}

    @property
    def dir_moves(self) -> dict[int, str]:
        """Return the log dirs of replicas that stay on their broker and change it, by broker."""
        held = dict(zip(self.before, self.log_dirs_before or (), strict=False))
        return {b: path for b, path in self._named() if b in self.before and held.get(b) != path}

    @property
    def target_log_dirs(self) -> dict[int, str]:
        """Return the log dirs that replicas are to end in, by broker, as far as it is said."""
        return self.new_log_dirs | self.dir_moves

    @property
    def base_log_dirs(self) -> dict[int, str]:
        """Return where replicas were found that change their log dir, by broker, if known."""
        held = zip(self.before, self.log_dirs_before or (), strict=False)
        return {b: path for b, path in held if path != ANY}

    @property
    def receiving(self) -> tuple[int, ...]:
        """Return the brokers that write a copy: of a new replica, or into another log dir."""
        return (*self.adding, *self.dir_moves)

    def _named(self) -> Iterator[tuple[int, str]]:
        pairs = zip(self.after, self.log_dirs or (), strict=False)
        return ((broker, path) for broker, path in pairs if path != ANY)

    @property
    def preferred_leader(self) -> tuple[int, int]:
        """Return the preferred leader before and after."""
        return self.before[0], self.after[0]

    @property
    def is_reorder(self) -> bool:
        return not self.adding and not self.removing and self.before != self.after

    def inverse(self) -> Move:
        return replace(
            self,
            before=self.after,
            after=self.before,
            log_dirs=self.log_dirs_before,
            log_dirs_before=self.log_dirs,
            reason="",
        )

    def with_base(self, before: tuple[int, ...]) -> Move:
        """Return the move from the same replicas in another order."""
        if self.log_dirs_before is None:
            return replace(self, before=before)
        held = dict(zip(self.before, self.log_dirs_before, strict=True))
        return replace(self, before=before, log_dirs_before=tuple(held[b] for b in before))

    def rollback_to(self, first: Move) -> Move:
        """Return the move from this one's end to where `first`, of the same partition, began."""
        return replace(self.inverse(), after=first.before, log_dirs=first.log_dirs_before)

    def with_replicas(self, after: tuple[int, ...]) -> Move:
        """Return the move with other replicas at its end; log dirs that still apply are kept."""
        if after == self.after:
            return self
        if self.log_dirs is None:
            return replace(self, after=after, reason="")
        named = dict(self._named())
        log_dirs = tuple(named.get(broker, ANY) for broker in after)
        if any(path != ANY for path in log_dirs):
            return replace(self, after=after, log_dirs=log_dirs, reason="")
        return replace(self, after=after, log_dirs=None, log_dirs_before=None, reason="")


@dataclass(frozen=True)
class Plan:
    """What should change, and from what it was made. `moves` is sorted by topic and partition."""

    cluster_id: str | None = None
    moves: tuple[Move, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, moves: Iterable[Move], *, cluster_id: str | None = None, notes: tuple[str, ...] = ()
    ) -> Plan:
        """Return a plan of these moves; ones that change nothing are left out."""
        changing = (move for move in moves if move.reassigns or move.dir_moves)
        return cls(cluster_id, tuple(sorted(changing, key=lambda move: move.tp)), notes)

    def __len__(self) -> int:
        return len(self.moves)

    def __iter__(self) -> Iterator[Move]:
        return iter(self.moves)

    @property
    def dropped_replicas(self) -> int:
        """Return how many replicas go without another one in their place."""
        return sum(max(len(move.before) - len(move.after), 0) for move in self.moves)

    @cached_property
    def by_partition(self) -> Mapping[TopicPartition, Move]:
        return MappingProxyType({move.tp: move for move in self.moves})

    def target(self, state: ClusterState, tp: TopicPartition) -> tuple[int, ...]:
        """Return the replicas that `tp` ends with: the plan's, else what it has (or will have).

        Raises KeyError when the partition does not exist.
        """
        move = self.by_partition.get(tp)
        return move.after if move else current_target(state, tp)

    def with_target(self, state: ClusterState, tp: TopicPartition, target: tuple[int, ...]) -> Plan:
        """Return the plan with `tp` ending as `target`; back to its base drops the move."""
        known = self.by_partition.get(tp) or unchanged(state, tp)
        others = (move for move in self.moves if move.tp != tp)
        return Plan.of(
            (*others, known.with_replicas(target)),
            cluster_id=self.cluster_id or state.cluster_id,
            notes=self.notes,
        )

    def with_move(
        self, state: ClusterState, tp: TopicPartition, source: int, destination: int
    ) -> Plan:
        """Return the plan with the replica on `source` put on `destination`, in the same place.

        Raises ValueError when `source` holds no replica or `destination` holds one already.
        """
        target = self.target(state, tp)
        if source not in target:
            raise ValueError(f"broker {source} holds no replica of {tp}")
        if destination in target:
            raise ValueError(f"broker {destination} already holds {tp}")
        return self.with_target(state, tp, tuple(destination if b == source else b for b in target))

    def with_leader(self, state: ClusterState, tp: TopicPartition, broker: int) -> Plan:
        """Return the plan with `broker` first, hence preferred leader; no data moves for that.

        Raises ValueError when `broker` holds no replica.
        """
        target = self.target(state, tp)
        if broker not in target:
            raise ValueError(f"broker {broker} holds no replica of {tp}")
        return self.with_target(state, tp, (broker, *(b for b in target if b != broker)))

    def without(self, tp: TopicPartition) -> Plan:
        return replace(self, moves=tuple(move for move in self.moves if move.tp != tp))

    def remaining(self, state: ClusterState) -> Plan:
        """Return the plan without the moves whose partitions are at their target, or on the way.

        Moves of partitions that do not exist stay in, for the checks to find.
        """
        return replace(
            self,
            moves=tuple(
                move
                for move in self.moves
                if state.find(move.tp) is None
                or current_target(state, move.tp) != move.after
                or any(log_dir_of(state, move.tp, b) != d for b, d in move.target_log_dirs.items())
            ),
        )

    def inverse(self) -> Plan:
        """Return the plan that leads back; inverse of inverse is the plan itself."""
        return replace(self, moves=tuple(move.inverse() for move in self.moves))


def moves_with_rows(state: ClusterState, moves: Iterable[Move]) -> Iterator[tuple[Move, int]]:
    """Yield the moves of partitions that are there, each with its row."""
    for move in moves:
        if (row := state.find(move.tp)) is not None:
            yield move, row


def current_target(state: ClusterState, tp: TopicPartition) -> tuple[int, ...]:
    """Return what a partition's assignment is, or will be once its reassignment in flight ends."""
    index = state.find(tp)
    if index is None:
        raise KeyError(str(tp))
    row = state.row(index)
    return tuple(b for b in row.replicas if b not in row.removing)


def unchanged(state: ClusterState, tp: TopicPartition) -> Move:
    """Return the move that leaves a partition as it is, or will be; raises KeyError for none."""
    topic, held = state.topic(tp.topic), current_target(state, tp)
    return Move(tp, held, held, topic.id if topic else None)


def log_dir_of(state: ClusterState, tp: TopicPartition, broker: int) -> str | None:
    """Return the log dir of a replica, None when there is none or it is not known."""
    index = state.find(tp)
    if index is None or broker not in state.replicas(index):
        return None
    place = int(state.log_dir[state.replica_slice(index)][state.replicas(index).index(broker)])
    return state.log_dir_paths[place] if place >= 0 else None
