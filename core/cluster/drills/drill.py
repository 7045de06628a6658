"""What a drill is: one fault, or the end of one, and what it is done to; no effects here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState

SKEW_TIMES = 5.0
"""How many times the records a skewed load sends, unless said otherwise."""


class DrillKind(Enum):
    """What can be done. `UNDONE_BY` says which ends which."""

    KILL = "kill"
    STOP = "stop"
    START = "start"
    JOIN = "join"
    LEAVE = "leave"
    SKEW = "skew"
    EVEN = "even"
    FILL = "fill"
    EMPTY = "empty"


UNDONE_BY = {
    DrillKind.START: (DrillKind.KILL, DrillKind.STOP),
    DrillKind.LEAVE: (DrillKind.JOIN,),
    DrillKind.EVEN: (DrillKind.SKEW,),
    DrillKind.EMPTY: (DrillKind.FILL,),
}


@dataclass(frozen=True, slots=True)
class Drill:
    """One thing to do; `on` says in words what to, the fields below say the same."""

    kind: DrillKind
    on: str
    broker: int | None = None
    group: str | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    times: float = SKEW_TIMES

    @property
    def node(self) -> int:
        """Return the broker or controller of a drill on one."""
        assert self.broker is not None
        return self.broker


@dataclass(frozen=True, slots=True)
class Offer:
    """One kind of drill, with all that it may be done to now; without any, why not."""

    kind: DrillKind
    drills: tuple[Drill, ...] = ()
    why_not: str = ""


class DrillTarget(Protocol):
    """A cluster that was made for it."""

    @property
    def name(self) -> str:
        """Return what it is called."""

    @property
    def timeline_id(self) -> str | None:
        """Return the cluster's id, which its timeline is kept by; None where none is kept."""

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        """Return what can be done now, or undone; raises UnreachableError or UsageError."""

    def run(self, drill: Drill) -> bool:
        """Do it; return False where there was nothing to do. Raises TrimtabError."""

    def close(self) -> None:
        """Give back what was opened to look; what was done stays."""


_PAST = {
    DrillKind.KILL: "killed {on}",
    DrillKind.STOP: "stopped {on}",
    DrillKind.START: "started {on}",
    DrillKind.JOIN: "added a consumer to {on}",
    DrillKind.LEAVE: "took a consumer from {on}",
    DrillKind.SKEW: "skewed the load: {times:g} times the records to {on}",
    DrillKind.EVEN: "sent {on} as much as before again",
    DrillKind.FILL: "filled {on}",
    DrillKind.EMPTY: "emptied {on} and restarted the broker",
}


def describe_drill(drill: Drill) -> str:
    """Return what was done, as a clause in the past tense for whoever did it."""
    return _PAST[drill.kind].format(on=drill.on, times=drill.times)


def broker_drill(kind: DrillKind, broker: int) -> Drill:
    return Drill(kind, f"broker {broker}", broker)


def node_drill(kind: DrillKind, words: str, node: int) -> Drill:
    """Return a drill on a node that is no broker; `words` say which one."""
    return Drill(kind, words, node)


def disk_drill(kind: DrillKind, broker: int, log_dir: str) -> Drill:
    """Return a drill on one log dir of a broker; `log_dir` is its path."""
    return Drill(kind, f"log dir {log_dir.rsplit('/', 1)[-1]} of broker {broker}", broker)


def group_drill(kind: DrillKind, group: str) -> Drill:
    return Drill(kind, f"group {group}", group=group)


def skew_drills(
    state: ClusterState, topics: Collection[str], times: float = SKEW_TIMES
) -> tuple[Drill, ...]:
    """Return all ways to skew the load to these topics: to one, or to what a broker leads now."""
    of_topic: dict[str, list[TopicPartition]] = {}
    of_leader: dict[int, list[TopicPartition]] = {}
    for i, leader in enumerate(state.leader.tolist()):
        tp = state.tp(i)
        if tp.topic in topics:
            of_topic.setdefault(tp.topic, []).append(tp)
            of_leader.setdefault(leader, []).append(tp)

    def skew(on: str, partitions: Collection[TopicPartition], broker: int | None = None) -> Drill:
        return Drill(DrillKind.SKEW, on, broker, partitions=frozenset(partitions), times=times)

    return (
        *(skew(f"topic {topic}", partitions) for topic, partitions in sorted(of_topic.items())),
        *(
            skew(f"what broker {broker.id} leads", of_leader[broker.id], broker.id)
            for broker in state.brokers
            if broker.id in of_leader
        ),
    )
