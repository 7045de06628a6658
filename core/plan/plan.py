"""Plan: the target assignments an operator wants, as an immutable value.

Every edit returns a new Plan, so undo is a list of Plans. A plan remembers for each of its
partitions what it was made from, so that an unrelated change elsewhere does not spoil it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from core.cluster.state import ClusterState, TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's part of a plan: from the ordered replicas `before` to `after`.

    `log_dirs` has one entry for each of `after` where a plan file asks for log dirs of new
    replicas, `any` elsewhere; None when it asks for none.
    """

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    topic_id: str | None = None
    log_dirs: tuple[str, ...] | None = None

    @property
    def adding(self) -> tuple[int, ...]:
        """Return the brokers that get a new replica, in target order."""
        return tuple(b for b in self.after if b not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(b for b in self.before if b not in self.after)

    @property
    def moves_data(self) -> bool:
        return bool(self.adding)

    @property
    def preferred_leader(self) -> tuple[int, int]:
        """Return the preferred leader before and after."""
        return self.before[0], self.after[0]

    @property
    def only_reorders(self) -> bool:
        return not self.adding and not self.removing and self.before != self.after

    def inverse(self) -> Move:
        return replace(self, before=self.after, after=self.before, log_dirs=None)


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
        wanted = (move for move in moves if move.before != move.after)
        return cls(cluster_id, tuple(sorted(wanted, key=lambda move: move.tp)), notes)

    def __len__(self) -> int:
        return len(self.moves)

    def __iter__(self) -> Iterator[Move]:
        return iter(self.moves)

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
        known = self.by_partition.get(tp)
        topic = state.topic(tp.topic)
        before = known.before if known else current_target(state, tp)
        topic_id = known.topic_id if known else (topic.id if topic else None)
        others = (move for move in self.moves if move.tp != tp)
        return Plan.of(
            (*others, Move(tp, before, target, topic_id)),
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
                if state.find(move.tp) is None or current_target(state, move.tp) != move.after
            ),
        )

    def inverse(self) -> Plan:
        """Return the plan that leads back; inverse of inverse is the plan itself."""
        return replace(self, moves=tuple(move.inverse() for move in self.moves))


def current_target(state: ClusterState, tp: TopicPartition) -> tuple[int, ...]:
    """Return what a partition's assignment is, or will be once its reassignment in flight ends."""
    index = state.find(tp)
    if index is None:
        raise KeyError(str(tp))
    row = state.row(index)
    return tuple(b for b in row.replicas if b not in row.removing)
