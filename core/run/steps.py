"""What a run may see and what it may do: the values that `next_step` takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.cluster.state import PartitionRow, Reassignment, TopicPartition
from core.run.history import Outcome, Phase
from core.run.throttle import Side

SETTLE_SECONDS = 3.0
"""How long a strange sight must last before it is believed: brokers lag behind the controller."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster as far as a run looks at it. Reassignments are listed before rows are read."""

    reassignments: Mapping[TopicPartition, Reassignment]
    rows: Mapping[TopicPartition, PartitionRow]
    """The plan's partitions that exist; a topic made anew under the old name does not count."""
    alive: frozenset[int]
    steady_seconds: Mapping[TopicPartition, float]
    """For how long each of these has looked exactly like this, by several descriptions."""
    gone: frozenset[TopicPartition] = frozenset()
    """Those that are not shown and, asked for by name, do not exist any more."""
    hidden: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Those that are not shown for good, though nothing says that they are gone: why, in words."""

    def is_settled(self, tp: TopicPartition) -> bool:
        """Return whether a partition has looked like this for long enough to be believed."""
        return self.steady_seconds.get(tp, 0.0) >= SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class Ending:
    """How one move ended."""

    index: int
    phase: Phase
    why: str = ""
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class Preflight:
    """Look at everything, write nothing, refuse what is not safe."""


@dataclass(frozen=True, slots=True)
class IntendThrottles:
    """Read what throttles there are and journal what to set for a batch."""

    batch: int


@dataclass(frozen=True, slots=True)
class SetThrottles:
    """Set topic lists, then rates, and read all of it back."""

    batch: int


@dataclass(frozen=True, slots=True)
class IntendRates:
    """Read and journal the rates that brokers lack which were down when a batch's were set."""

    batch: int
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetRates:
    """Set those rates, though moves are in flight, and read them back."""

    batch: int
    rates: tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class Postpone:
    """Put queued moves off to batches after all others; each is put off once only."""

    moves: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Submit:
    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoteEnded:
    """Journal how moves ended; `stop` says why no further batch may start."""

    endings: tuple[Ending, ...]
    stop: str = ""


@dataclass(frozen=True, slots=True)
class RemovePairs:
    """Take pairs out of topic lists again: (topic, side, pairs)."""

    lists: tuple[tuple[str, Side, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class RestoreRates:
    rates: tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reorder:
    """Submit the journalled order again: a cancelled reassignment leaves another one."""

    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """Wait a little and look again; `waiting` says in words for what, "" when all goes well."""

    waiting: str = ""


@dataclass(frozen=True, slots=True)
class End:
    outcome: Outcome
    why: str = ""


Step = (
    Preflight
    | IntendThrottles
    | SetThrottles
    | IntendRates
    | SetRates
    | Postpone
    | Submit
    | NoteEnded
    | RemovePairs
    | RestoreRates
    | Cancel
    | Reorder
    | Poll
    | End
)
