"""Events of the timeline: one change of one thing, seen at one poll."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntFlag
from typing import Final

from core.cluster.metadata import Broker, Topic, TopicPartition


class Kind(IntFlag):
    """What changed; of one partition several things may, at one look. Stored: never renumber."""

    BROKER_DOWN = 1
    BROKER_UP = 2
    BROKER = 4
    """A broker came that was never seen, left for good, or has another rack or address."""
    CONTROLLER = 8
    LEADER = 16
    OFFLINE = 32
    """A partition has no leader any more."""
    ISR_SHRINK = 64
    ISR_EXPAND = 128
    ASSIGNMENT = 256
    """Replicas, their order, or what is being added or removed."""
    PARTITION = 512
    """A partition came to a topic, or left it."""
    TOPIC_CREATED = 1024
    TOPIC_DELETED = 2048
    CONFIG = 4096
    """What a topic keeps, and in how many replicas; a throttle, which is told of."""
    GAP = 8192
    """So many seconds nobody looked; what changed in them is seen as one change, at their end.

    Less than none: the clock was set back by so many.
    """
    # From here on what is told, not seen: `Note` says by whom.
    RUN = 16384
    """A run began, ended, or did something that an operator wants to know of."""
    GROUP = 32768
    """A consumer group rebalanced, or its members came and went."""
    CLIENT = 65536
    """A client had an error, or recovered from it."""
    LOAD = 131072
    """A broker's load left the band, or came back into it."""
    FAULT = 262144
    """Somebody broke something on purpose, or mended it."""
    AUTOPILOT = 524288
    """What the autopilot decided."""


ALL_KINDS: Final = Kind(0)
"""No kind left out."""
KIND_FILTERS: dict[str, Kind] = {
    "broker": Kind.BROKER_DOWN | Kind.BROKER_UP | Kind.BROKER,
    "controller": Kind.CONTROLLER,
    "leader": Kind.LEADER | Kind.OFFLINE,
    "isr": Kind.ISR_SHRINK | Kind.ISR_EXPAND,
    "assignment": Kind.ASSIGNMENT,
    "topic": Kind.TOPIC_CREATED | Kind.TOPIC_DELETED | Kind.PARTITION,
    "config": Kind.CONFIG,
    "gap": Kind.GAP,
    "run": Kind.RUN,
    "group": Kind.GROUP,
    "client": Kind.CLIENT,
    "load": Kind.LOAD,
    "fault": Kind.FAULT,
    "autopilot": Kind.AUTOPILOT,
}
"""What a user filters by."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """A partition's leader (-1 is none) and replicas in order, as far as the timeline keeps them.

    `isr`, `adding` and `removing` are in the order of `replicas`.
    """

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody told of: `by` whom ("group payments"), `text` one clause in the past tense."""

    by: str
    text: str
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogNote(Note):
    """What a broker wrote into its own log, `file`."""

    file: str = ""


Thing = Replicas | Broker | Topic | int | Note
"""What an event is about, before or after: a partition, a broker, a topic, the controller's id.

What was told stands as `after`, and there is nothing before it.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One change; `before` or `after` is None when the thing was or is not there.

    `tp` is of a partition, `topic` also of a topic; `at` is when it was seen, in UTC.
    """

    at: datetime
    kind: Kind
    before: Thing | None = None
    after: Thing | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def tp(self) -> TopicPartition | None:
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)

    @property
    def brokers(self) -> frozenset[int]:
        """Return the brokers that this is about: of a partition those that gained or lost."""
        match self.before, self.after:
            case (Broker() as broker, _) | (_, Broker() as broker):
                return frozenset({broker.id})
            case Replicas() as before, Replicas() as after:
                changed = {*before.isr} ^ {*after.isr} | {*before.replicas} ^ {*after.replicas}
                if before.leader != after.leader:
                    changed |= {before.leader, after.leader}
                return frozenset(changed - {-1}) or frozenset(after.replicas)
            case (Replicas() as only, None) | (None, Replicas() as only):
                return frozenset(only.replicas)
            case (_, Note(_, _, brokers)):
                return frozenset(brokers)
            case _:
                return frozenset(b for b in (self.before, self.after) if isinstance(b, int))
