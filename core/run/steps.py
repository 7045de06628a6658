"""The values of `next_step`: the observations it takes and the steps it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from core.cluster.balancers import Balancer
from core.cluster.configs import ConfigSource, Resource
from core.cluster.metadata import PartitionRow, Reassignment, TopicPartition
from core.plan.copies import Side
from core.plan.plan import Move
from core.run.journal.move_state import Outcome, Phase, Role, move_to_json
from core.run.journal.produce_latency import BaselineMeasurement, SideObservation
from core.run.journal.throttle_values import Configs, Key, ListIntent, ListPairs

SETTLE_SECONDS = 3.0
"""How long a strange sight must last before it is believed: brokers lag behind the controller."""


Place = tuple[TopicPartition, int]
"""A partition and one of the brokers that hold it."""


@dataclass(frozen=True, slots=True)
class ReplicaLocation:
    """In which log dir a replica lies, and into which one it is being copied, if any."""

    path: str
    size_bytes: int
    future: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
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
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    since_submission_seconds: float = 0.0
    """For how long this process has submitted nothing."""
    throttles: Configs = field(default_factory=dict)
    """Throttle configs of the moves in flight, as two looks seconds apart have shown them alike."""
    sides: Mapping[Key, SideObservation] = field(default_factory=dict)
    """How brokers fare under the run, for an adaptive rate."""
    arrived: Mapping[int, int] = field(default_factory=dict)
    """Bytes of moves in flight that each destination holds on average, by index, once known."""
    measured: BaselineMeasurement | None = None
    """What producers wait now; None while that is being measured, or need not be."""
    balancer: Balancer | None = None
    """Who else balances this cluster: what somebody else does may be its doing."""
    editor: str = ""
    """Who is likely to put topics' configs back as declared, as far as topics tell."""
    backing_off: Mapping[int, str] = field(default_factory=dict)
    """Batches in flight whose limits were refused and are left alone for now: why, in words."""
    left_alone: Mapping[Resource, str] = field(default_factory=dict)
    """Whose throttles were refused a change and are left alone for now: why, in words."""
    moves_left: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that were not taken back and are left alone for now: why, in words."""
    retention_left: Mapping[Resource, str] = field(default_factory=dict)
    """Topics whose retention could not be put back and is left alone for now: why, in words."""
    disks: Mapping[int, str] = field(default_factory=dict)
    """Brokers with a log dir that takes no more: what is wrong, in words."""
    locations: Mapping[Place, ReplicaLocation] = field(default_factory=dict)
    """Where replicas lie that are to lie in a certain log dir, as far as brokers have answered."""
    unplaced: Mapping[Place, str] = field(default_factory=dict)
    """Of these, those that brokers which answer show in no log dir for good: why, in words."""
    dirs_left_alone: Mapping[Place, str] = field(default_factory=dict)
    """Replicas whose move to a log dir is not taken and is left alone for now: why, in words."""
    shorter: bool = False
    """The moving topics' logs have become shorter, or long enough has been waited for that."""

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
class NoteBaseline:
    """Journal what producers wait before an adaptive run begins."""

    measured: BaselineMeasurement


@dataclass(frozen=True, slots=True)
class IntendThrottles:
    """Read what throttles there are and journal what to set for moves of a batch."""

    batch: int
    moves: tuple[int, ...]
    """Those that are about to begin, or lack a limit; what waits longer is not listed."""


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
    rates: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class ChangeRates:
    """Change rates of ours while moves are in flight, and read them back."""

    rates: tuple[tuple[Key, int], ...]
    why: str
    held: bool = False
    """Until what came faster than these sides' rates is made up for."""


@dataclass(frozen=True, slots=True)
class LostRate:
    """A rate of ours that is another one now: what holds instead, and from where."""

    broker: int
    side: Side
    prior: str | None
    source: ConfigSource
    mend: bool
    """It was deleted, and is set once more; otherwise it is somebody else's from now on."""
    freed: bool = False
    """It was a lower one that the run kept to, and limits no longer: ours is set instead."""
    is_regained: bool = False
    """It was somebody else's for a while, and is ours again."""

    @property
    def key(self) -> Key:
        return self.broker, self.side

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["again"] = document.pop("is_regained")  # the journal's own name for it
        return document | {"side": self.side.value, "source": self.source.name}


@dataclass(frozen=True, slots=True)
class NoteDrift:
    """Journal that somebody else changed or deleted throttles of ours."""

    rates: tuple[LostRate, ...] = ()
    lists: tuple[ListIntent, ...] = ()
    """Pairs that are not in their list any more, and what the list is now."""
    editor: str = ""
    """Who is likely to have done it."""


@dataclass(frozen=True, slots=True)
class SuspendPairs:
    """Take pairs of ours out of leader lists, so that a follower may come back into step."""

    lists: tuple[ListPairs, ...]
    why: str


@dataclass(frozen=True, slots=True)
class ReinstatePairs:
    """Put pairs of ours back into their lists."""

    lists: tuple[ListPairs, ...]


@dataclass(frozen=True, slots=True)
class AddedMove:
    """A move that stands in for another, or takes it back."""

    move: Move
    batch: int
    role: Role
    instead_of: int
    long: bool = False

    def to_json(self) -> dict[str, Any]:
        return move_to_json(self.move) | {
            "batch": self.batch,
            "role": self.role.value,
            "instead_of": self.instead_of,
            "long": self.long,
        }


@dataclass(frozen=True, slots=True)
class AddMoves:
    """Add moves to the run; `refused` are indices whose retargeting makes no sense, and why."""

    moves: tuple[AddedMove, ...]
    refused: tuple[tuple[int, str], ...] = ()
    rollback: bool = False


@dataclass(frozen=True, slots=True)
class LowerRetention:
    """Journal the moving topics' retention, then lower it."""


@dataclass(frozen=True, slots=True)
class NoteLogsShortened:
    """Journal that logs have become shorter, or that this has been waited for long enough."""


@dataclass(frozen=True, slots=True)
class RestoreRetention:
    """Put topics' retention back as it was found."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect the preferred leaders of what has moved."""

    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Postpone:
    """Put queued moves off to batches after all others; each is put off once only."""

    moves: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit moves; what is refused fails by itself, what is put off is submitted again."""

    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveDirs:
    """Have replicas copied to a log dir of their broker: (move, broker, path).

    To the one in which a replica lies, a copy under way is thrown away.
    """

    replicas: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class NoteEnded:
    """Journal how moves ended; `stop` says why no further batch may start."""

    endings: tuple[Ending, ...]
    stop: str = ""


@dataclass(frozen=True, slots=True)
class RemovePairs:
    """Take pairs out of topic lists again: (topic, side, pairs)."""

    lists: tuple[ListPairs, ...]


@dataclass(frozen=True, slots=True)
class RestoreRates:
    """Put rates back as they were found, unless somebody else has changed them since."""

    rates: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Take moves in flight back."""

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
    """Write how the run ended; nothing of it is left in the cluster but what `why` says."""

    outcome: Outcome
    why: str = ""


ThrottleSetup = IntendThrottles | SetThrottles | IntendRates | SetRates
"""What gives moves the limits that they are to have."""
ThrottleStep = (
    ThrottleSetup
    | ChangeRates
    | NoteDrift
    | SuspendPairs
    | ReinstatePairs
    | RemovePairs
    | RestoreRates
)
Step = (
    ThrottleStep
    | Preflight
    | NoteBaseline
    | Postpone
    | Submit
    | MoveDirs
    | NoteEnded
    | Cancel
    | Reorder
    | AddMoves
    | LowerRetention
    | NoteLogsShortened
    | RestoreRetention
    | ElectLeaders
    | Poll
    | End
)
