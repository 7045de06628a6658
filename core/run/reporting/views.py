"""RunView and its parts: the values that screens and commands show of a run.

`progress` folds a journal into a RunView; it never asks the cluster and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from core.cluster.metadata import TopicPartition
from core.plan.plan import ANY, Move
from core.run.journal.move_state import Role
from core.run.journal.rates import RateBounds
from core.run.journal.throttle_values import RateIntent
from core.units import format_duration


class RunStatus(Enum):
    """Where a run stands; the values are what `--json` prints."""

    SCHEDULED = "scheduled"
    STARTING = "starting"
    RECOVERING = "recovering"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    ROLLING_BACK = "rolling-back"
    DONE = "done"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled-back"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    DIED = "died"

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen (a dead run may have left something behind)."""
        return self in (
            RunStatus.DONE,
            RunStatus.CANCELLED,
            RunStatus.ROLLED_BACK,
            RunStatus.INCOMPLETE,
            RunStatus.FAILED,
            RunStatus.DIED,
        )


class MoveStatus(Enum):
    QUEUED = "queued"
    MOVING = "moving"
    STUCK = "stuck"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


IN_FLIGHT = (MoveStatus.MOVING, MoveStatus.STUCK)
"""Of a move that was submitted and has not ended."""
DUE = (MoveStatus.QUEUED, *IN_FLIGHT)
"""Of a move that has not ended, submitted or not."""


class Level(Enum):
    """How an event is to be read: blue for ours, green for good, amber to look, red to act."""

    INFO = "info"
    GOOD = "good"
    LOOK = "look"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """One partition of a run; bytes are over all its new replicas and copies to other log dirs.

    `dir_moves` are replicas that change their log dir, as (broker, path).
    """

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    total_bytes: int | None
    moved_bytes: int
    bytes_per_s: float | None
    left_seconds: float | None
    state: MoveStatus
    why: str
    """In words, short: why it is stuck, failed or cancelled; "" when there is nothing to say."""
    batch: int
    """Counted from 1."""
    done_at: datetime | None = None
    average_bytes_per_s: float | None = None
    """Since it was submitted."""
    left_range: tuple[float, float] | None = None
    held: bool = False
    """Whether a destination cannot be asked: its bytes are those last known."""
    dir_moves: tuple[tuple[int, str], ...] = ()
    role: Role = Role.PLAN

    def as_move(self) -> Move:
        """Return what it is to do, as a plan has it."""
        named = dict(self.dir_moves)
        log_dirs = tuple(named.get(broker, ANY) for broker in self.after) if named else None
        return Move(self.tp, self.before, self.after, None, log_dirs)

    @property
    def target_words(self) -> str:
        """Return the replicas as they are to be, like `1:/disk-2,3`."""
        named = dict(self.dir_moves)
        return ",".join(f"{b}:{named[b]}" if b in named else str(b) for b in self.after)


@dataclass(frozen=True, slots=True)
class BrokerProgress:
    """One broker and side of a run against its limit; `limit_bytes_per_s` None is unlimited.

    `bytes_per_s` is what it gets now; None while that is not known.
    """

    broker: int
    side: str
    """`sends`, `receives` or `log dirs`."""
    bytes_per_s: float | None
    limit_bytes_per_s: int | None
    why: str = ""
    average_bytes_per_s: float | None = None
    """Since the first move in which it has this part."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Something that was asked of the run; `taken` once its process has written it down."""

    at: datetime
    kind: str
    what: str
    """In words, what was asked for."""
    who: str
    taken: bool
    refused: str = ""
    """Why it was not done, in one sentence."""


PAUSING = ("pause", "resume", "rollback")
"""Kinds of requests that pause a run, and that end a pause."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One line of the run's story, in plain words."""

    at: datetime
    kind: str
    text: str
    level: Level = Level.INFO


@dataclass(frozen=True, slots=True)
class LoweredRetention:
    """A topic's retention as a run lowered it; `before` was set on the topic, None was nothing."""

    topic: str
    retention_ms: int
    before: str | None

    @property
    def words(self) -> str:
        """Return how long it is, and was."""
        before = self.before
        if before is None:
            before = "unset"
        elif before.isdigit():
            before = format_duration(int(before) / 1000)
        return f"{format_duration(self.retention_ms / 1000)}, before {before}"

    @property
    def puts_back(self) -> str:
        """Return the command that puts it back as it was found."""
        put = "--unset retention.ms" if self.before is None else f"--set retention.ms={self.before}"
        return f"trimtab topics alter {self.topic} {put}"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a run that died or gave up left in the cluster, as far as its journal says."""

    moves: tuple[TopicPartition, ...] = ()
    lists: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(topic, `leader` or `follower`, our `partition:broker` pairs)."""
    rates: tuple[RateIntent, ...] = ()
    """Those that we set; where one was just being changed, any of its values may be in force."""
    copies: tuple[tuple[TopicPartition, int], ...] = ()
    """Of `moves`, the replicas that may be on their way to another log dir, and their brokers."""
    retention: tuple[LoweredRetention, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.moves or self.lists or self.rates or self.retention)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as its journal tells it. `events` are oldest first."""

    run: str
    cluster_id: str
    cluster_name: str
    state: RunStatus
    why: str
    """Why it waits or how it ended, in words; "" when there is nothing to say."""
    pid: int | None
    started_at: datetime
    ended_at: datetime | None
    last_event_at: datetime
    """When the newest thing in the journal happened."""
    rate_bytes_per_s: int
    """The chosen throttle; units.UNLIMITED for none, the most that `bounds` allow."""
    total_bytes: int
    moved_bytes: int
    bytes_per_s: float | None
    average_bytes_per_s: float | None
    left_seconds: float | None
    left_range: tuple[float, float] | None
    estimated_seconds: float | None
    """For the whole, as it was estimated; None once it is another rate, or other moves."""
    moves: tuple[MoveProgress, ...]
    brokers: tuple[BrokerProgress, ...]
    events: tuple[RunEvent, ...]
    batches: int
    leftovers: Leftovers | None = None
    who: str = ""
    requests: tuple[RunRequest, ...] = ()
    """Oldest first."""
    starts_at: datetime | None = None
    """When it was asked to begin; None for at once."""
    bounds: RateBounds | None = None
    """Between which rates it adapts itself; None for a fixed one."""
    passed_preflight: bool = True
    """Whether its last look at the plan refused nothing; until then it has changed nothing."""
    begun_at: datetime | None = None
    """When it set about its moves, if it had to wait for that; None for as it was started."""
    idle_seconds: float | None = None
    """For how long no byte has come of any move in flight; None while that is not known."""

    @property
    def paused_itself(self) -> bool:
        """Return whether it is paused though nobody asked for that since: `why` says what for."""
        kinds = [r.kind for r in self.requests if r.kind in PAUSING and not r.refused]
        return self.state is RunStatus.PAUSED and kinds[-1:] != ["pause"]

    @property
    def newest(self) -> Mapping[TopicPartition, MoveProgress]:
        """Return each partition's newest move: one that went elsewhere, or back, has several."""
        return {move.tp: move for move in self.moves}

    @property
    def partitions(self) -> int:
        return len(self.newest)

    def count(self, state: MoveStatus) -> int:
        """Return of how many partitions the newest move is in `state`."""
        return sum(move.state is state for move in self.newest.values())

    @property
    def done(self) -> int:
        """Return how many partitions are where their newest move was to bring them."""
        return self.count(MoveStatus.DONE)

    @property
    def undone(self) -> int:
        return self.partitions - self.done

    @property
    def moved_away(self) -> int:
        """Return how many partitions this run has moved and not moved back."""
        last = {move.tp: move.role for move in self.moves if move.state is MoveStatus.DONE}
        return sum(role is not Role.ROLLBACK for role in last.values())

    @property
    def stuck(self) -> int:
        return sum(move.state is MoveStatus.STUCK for move in self.moves)

    @property
    def elapsed_seconds(self) -> float:
        """Return how long it has been at it, from when an estimate counts.

        What was waited for before the moves is no part of it: a later start, a shorter retention,
        what producers wait.
        """
        begun = self.begun_at or self.started_at
        return ((self.ended_at or self.last_event_at) - begun).total_seconds()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of `runs ls`."""

    run: str
    cluster_id: str
    state: RunStatus
    started_at: datetime
    ended_at: datetime | None
    moves: int
    done: int
    total_bytes: int
    moved_bytes: int
    rate_bytes_per_s: int
    who: str
    moved_away: int = 0
    """How many partitions it has moved and not moved back."""
    seconds: float = 0.0
    estimated_seconds: float | None = None


def summary(view: RunView) -> RunSummary:
    return RunSummary(
        run=view.run,
        cluster_id=view.cluster_id,
        state=view.state,
        started_at=view.started_at,
        ended_at=view.ended_at,
        moves=view.partitions,
        done=view.done,
        moved_away=view.moved_away,
        total_bytes=view.total_bytes,
        moved_bytes=view.moved_bytes,
        rate_bytes_per_s=view.rate_bytes_per_s,
        who=view.who,
        seconds=view.elapsed_seconds,
        estimated_seconds=view.estimated_seconds,
    )
