"""Runs whose process dies: before or after a record, in the middle of a call, or again and again.

`Doom` says where one life ends; `Lives` carries a run through them to its end, each life a new
Runner that has nothing but the journal.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from core.cluster.configs import ConfigChange, Resource, ResourceKind
from core.cluster.connect import Address
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.daemons.process import Process
from core.errors import UnreachableError
from core.plan.plan import Plan
from core.run.engine.executor import Executor
from core.run.journal.journal import Journal, JournalError
from core.run.journal.records import Kind, Record
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.options import RunOptions, create_journal


class Died(BaseException):
    """The process was killed here."""


class Stuck(AssertionError):
    """The run did not end in the cluster's time that it was given."""


class Where(Enum):
    """Where a life ends, or what befalls it; the first two count records, the others calls."""

    BEFORE = "before a record"
    AFTER = "after a record"
    FULL = "the journal's disk takes nothing, for a while"
    EFFECT = "after a call took effect, before its answer"
    LOST = "a call took effect and its answer is lost"
    TIMED_OUT = "a call took effect and answers REQUEST_TIMED_OUT"
    LATE = "a broker answers REQUEST_TIMED_OUT and does it eight seconds later"
    NEVER = "a call is lost on its way"

    @property
    def counts_records(self) -> bool:
        return self in (Where.BEFORE, Where.AFTER, Where.FULL)

    @property
    def kills(self) -> bool:
        return self in (Where.BEFORE, Where.AFTER, Where.EFFECT)


@dataclass(frozen=True, slots=True)
class Doom:
    """What befalls one life at its `at`-th record or changing call, counted from 1."""

    where: Where
    at: int

    def __str__(self) -> str:
        what = "record" if self.where.counts_records else "call"
        return f"{self.where.value} ({what} {self.at})"


LATE_SECONDS = 8.0
FULL_WRITES = 3
"""How many writes a full disk refuses before somebody makes room."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a run at its `look`-th look at the cluster, counted through all lives."""

    look: int
    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} at look {self.look}"


@dataclass(slots=True)
class Fate:
    """One life's doom, and how far it has come."""

    doom: Doom | None
    records: int = 0
    calls: int = 0
    kinds: list[Kind] = field(default_factory=list)

    def is_here(self, where: Where, at: int) -> bool:
        return self.doom is not None and self.doom.where is where and self.doom.at == at


class DoomedJournal(Journal):
    """A journal whose writer dies."""

    fate: Fate

    def write(self, at: datetime, kind: Kind, payload: Mapping[str, Any]) -> Record:
        self.fate.records += 1
        n = self.fate.records
        if self.fate.is_here(Where.BEFORE, n):
            raise Died
        if any(self.fate.is_here(Where.FULL, n - i) for i in range(FULL_WRITES)):
            raise JournalError("The journal cannot be written: no space left on device.")
        record = super().write(at, kind, payload)
        self.fate.kinds.append(kind)
        if self.fate.is_here(Where.AFTER, n):
            raise Died
        return record


CHANGING = ("alter_reassignments", "cancel_reassignments", "elect_leaders", "alter_log_dirs")
"""Calls that change a cluster, beside those that change configs."""


class DoomedClient:
    """A cluster whose changing calls may end a life, or lose their answers."""

    def __init__(self, cluster: SimulatedCluster, fate: Fate, lives: Lives, clock: Watch) -> None:
        self._cluster, self._fate, self._lives, self._clock = cluster, fate, lives, clock

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        return partial(self._change, call) if name in CHANGING else call

    def fetch_reassignments(self) -> dict[TopicPartition, Reassignment]:
        self._lives.look()
        return self._cluster.fetch_reassignments()

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        brokers = [c for c in changes if c.resource.kind is ResourceKind.BROKER]
        if brokers and self._fate.is_here(Where.LATE, self._fate.calls + 1):
            # A broker that hangs keeps what it was sent; topics' configs are the controller's.
            self._fate.calls += 1
            self._clock.later(LATE_SECONDS, lambda: self._cluster.alter_configs(brokers))
            rest = [c for c in changes if c.resource.kind is not ResourceKind.BROKER]
            late = {c.resource: Fault("REQUEST_TIMED_OUT") for c in brokers}
            return late | self._cluster.alter_configs(rest)
        return self._change(self._cluster.alter_configs, changes)

    def _change(
        self, call: Callable[..., dict[Any, Fault | None]], *arguments: Any, **how: Any
    ) -> dict[Any, Fault | None]:
        self._fate.calls += 1
        n = self._fate.calls
        if self._fate.is_here(Where.NEVER, n):
            raise UnreachableError("The cluster does not answer.")
        answer = call(*arguments, **how)
        if self._fate.is_here(Where.EFFECT, n):
            raise Died
        if self._fate.is_here(Where.LOST, n):
            raise UnreachableError("The cluster does not answer.")
        if self._fate.is_here(Where.TIMED_OUT, n):
            return {key: fault or Fault("REQUEST_TIMED_OUT") for key, fault in answer.items()}
        return answer


class Watch:
    """The cluster's clock: things happen as they are due, `each` at every sleep.

    A run that never ends is Stuck.
    """

    def __init__(
        self, cluster: SimulatedCluster, seconds: float, each: Callable[[], None] = lambda: None
    ) -> None:
        self._cluster, self._until, self._each = cluster, cluster.elapsed_seconds + seconds, each
        self._due: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        """Let something happen so long after the cluster's start."""
        insort(self._due, (seconds, happens), key=lambda due: due[0])

    def later(self, seconds: float, happens: Callable[[], object]) -> None:
        """Let something happen after so long."""
        self.at(self._cluster.elapsed_seconds + seconds, happens)

    def now(self) -> datetime:
        return self._cluster.now

    def monotonic(self) -> float:
        return self._cluster.elapsed_seconds

    def sleep(self, seconds: float) -> None:
        self._each()
        until = self._cluster.elapsed_seconds + seconds
        while self._due and self._due[0][0] <= until:
            moment, happens = self._due.pop(0)
            self._cluster.advance(max(0.0, moment - self._cluster.elapsed_seconds))
            happens()
        self._cluster.advance(max(0.0, until - self._cluster.elapsed_seconds))
        if self._cluster.elapsed_seconds > self._until:
            raise Stuck("the run does not end")


def begin(cluster: SimulatedCluster, plan: Plan, options: RunOptions) -> Path:
    """Make a run's journal and return where it is."""
    journal = create_journal(
        Address("sim:none"), plan.cluster_id, plan, options, None, at=cluster.now
    )
    journal.close()
    return journal.path


class Lives:
    """One run through several processes; `poll_count` counts the looks of them all."""

    def __init__(
        self, path: Path, cluster: SimulatedCluster, clock: Watch, asks: Sequence[Ask] = ()
    ) -> None:
        self.path, self._cluster, self._clock, self._asks = path, cluster, clock, asks
        self.fates: list[Fate] = []
        self.poll_count = 0

    def through(self, dooms: Sequence[Doom]) -> RunState:
        """Carry the run through these dooms, a life each, and then to its end."""
        for doom in dooms:
            self.live(doom)
        while (history := self.history()).ended is None:
            self.live(None)
        return history

    def live(self, doom: Doom | None) -> Fate:
        """Let one process live until its doom or the run's end."""
        fate = Fate(doom)
        self.fates.append(fate)
        with DoomedJournal.open(self.path) as journal:
            assert isinstance(journal, DoomedJournal)
            journal.fate = fate
            client: Any = DoomedClient(self._cluster, fate, self, self._clock)
            ours = Process.this()
            try:
                started = {"pid": ours.pid, "pid_started": ours.started}
                journal.write(self._clock.now(), Kind.STARTED, started)
                Executor(journal, client, self._clock).run()
            except Died:
                pass
            except JournalError:
                if doom is None or doom.where is not Where.FULL:
                    raise
        return fate

    def ask(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Ask the run for something, as a command does, whether its process lives or not."""
        with Journal.open(self.path) as journal:
            journal.ask(self._cluster.now, kind, {**payload, "who": "ann", "host": "here"})

    def history(self) -> RunState:
        """Return what the journal alone says."""
        with Journal.open(self.path) as journal:
            return fold(journal.records())

    def look(self) -> None:
        """Count one look at the cluster, and ask what is due."""
        self.poll_count += 1
        for ask in self._asks:
            if ask.look == self.poll_count:
                self.ask(ask.kind, ask.payload)
