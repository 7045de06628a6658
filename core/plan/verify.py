"""Is the cluster as a plan says? Compares targets with one picture of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from core.cluster.state import ClusterState, TopicPartition


class Standing(Enum):
    """How a partition stands to its target; the value is its word in documents."""

    DONE = "done"
    MISSING = "missing"
    DIFFERENT = "different"
    OUT_OF_SYNC = "out-of-sync"
    MOVING = "moving"


@dataclass(frozen=True, slots=True)
class Verification:
    """One partition: the replicas it should have, those it has, and the ISR."""

    tp: TopicPartition
    expected: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    standing: Standing

    @property
    def sentence(self) -> str:
        now, wanted = _list(self.replicas), _list(self.expected)
        match self.standing:
            case Standing.DONE:
                return f"{self.tp} is on {wanted}, all in sync."
            case Standing.MISSING:
                return f"{self.tp} does not exist."
            case Standing.DIFFERENT:
                return f"{self.tp} is on {now}, not on {wanted}."
            case Standing.OUT_OF_SYNC:
                late = [b for b in self.replicas if b not in self.isr]
                return f"{self.tp} is on {wanted}, and {_list(tuple(late))} not in sync."
            case Standing.MOVING:
                return f"{self.tp} is moving: {now} now, {wanted} wanted."


def verify(
    state: ClusterState, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> tuple[Verification, ...]:
    """Return how each target stands: what is not done first, then by topic and partition.

    Done is: no reassignment in flight, the replicas of the target in its order, all in the ISR.
    """
    found = (_verified(state, tp, expected) for tp, expected in targets.items())
    return tuple(sorted(found, key=lambda v: (v.standing is Standing.DONE, v.tp)))


def _verified(state: ClusterState, tp: TopicPartition, expected: tuple[int, ...]) -> Verification:
    index = state.find(tp)
    if index is None:
        return Verification(tp, expected, (), (), Standing.MISSING)
    row = state.row(index)
    if row.adding or row.removing:
        standing = Standing.MOVING
    elif row.replicas != expected:
        standing = Standing.DIFFERENT
    elif not set(expected) <= set(row.isr):
        standing = Standing.OUT_OF_SYNC
    else:
        standing = Standing.DONE
    return Verification(tp, expected, row.replicas, row.isr, standing)


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
