"""History: the fold of a journal's records, which is all that a run knows about itself.

Each record changes it in one way (`apply`); folding the records again after a crash gives the
same History. It says what was asked, found, intended and done, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from core.cluster.state import TopicPartition
from core.plan.plan import Move, Plan
from core.process import Process
from core.run.journal import Kind, Record
from core.run.throttle import ListIntent, RateIntent, Side


class Phase(Enum):
    """How far one move has come. SUBMITTING is intended, the answer not known."""

    QUEUED = "queued"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (Phase.DONE, Phase.FAILED, Phase.CANCELLED)

    @property
    def in_flight(self) -> bool:
        return self in (Phase.SUBMITTING, Phase.SUBMITTED)


class Outcome(Enum):
    """How a run ended; the values are what `apply --json` prints."""

    DONE = "done"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(slots=True)
class MoveHistory:
    """What became of one move so far."""

    move: Move
    batch: int
    size_bytes: int | None = None
    """The leader's size at preflight."""
    phase: Phase = Phase.QUEUED
    why: str = ""
    submitted_at: datetime | None = None
    ended_at: datetime | None = None
    tries: int = 0
    """How often it has been submitted."""
    put_off: str = ""
    """Why the cluster did not take it, in its own words, though it may take it yet."""
    cancel_sent: bool = False
    leader: int | None = None
    """Who led it when it was submitted or ended."""


@dataclass(slots=True)
class BatchThrottle:
    """What one batch's throttles are to be; `set` once they have been read back."""

    lists: tuple[ListIntent, ...]
    rates: tuple[RateIntent, ...]
    set: bool = False
    late: tuple[RateIntent, ...] = ()
    """Rates of brokers that were down at first."""


@dataclass(slots=True)
class History:
    """Everything the records say, in the shape that decisions and screens need."""

    run: str
    cluster_id: str
    cluster_name: str
    bootstrap: str
    command_config: str | None
    rate_bytes_per_s: int
    override_rates: bool
    allowed: frozenset[str]
    estimate: Mapping[str, Any] | None
    who: str
    host: str
    created_at: datetime
    moves: list[MoveHistory]
    batch_size: int
    postponed: list[int] = field(default_factory=list)
    """Moves that wait in batches of their own, after all others."""
    min_insync: dict[str, int] = field(default_factory=dict)
    process: Process | None = None
    preflight: bool = False
    throttles: dict[int, BatchThrottle] = field(default_factory=dict)
    lists: dict[tuple[str, Side], ListIntent] = field(default_factory=dict)
    """What of the topic lists is ours, and not given back yet."""
    rates: dict[tuple[int, Side], RateIntent] = field(default_factory=dict)
    """Rates that we set (or kept), and have not given back yet."""
    rates_due: dict[tuple[int, Side], RateIntent] = field(default_factory=dict)
    """Those of `rates` that brokers are to get now that they are back, not read back yet."""
    foreign_before: frozenset[TopicPartition] = frozenset()
    """Moves of others that were in flight before we set the first rate."""
    cancel_requested: bool = False
    leave_requested: bool = False
    """Cancelled when no move was left: what cannot be given back now is to be left."""
    requests_seen: int = 0
    stopped: str = ""
    """Why no further batch is to start; "" while all is well."""
    waiting: str = ""
    crashed: str = ""
    """On which error of its own the process ended, in one sentence."""
    ended: Outcome | None = None
    ended_why: str = ""
    ended_at: datetime | None = None
    last_at: datetime | None = None
    last_seq: int = 0

    @classmethod
    def fold(cls, records: Iterable[Record]) -> History:
        """Return the history of all `records`; raises ValueError when the first is not CREATED."""
        history: History | None = None
        for record in records:
            if history is None:
                history = cls._created(record)
            else:
                history.apply(record)
        if history is None:
            raise ValueError("the journal has no records")
        return history

    @classmethod
    def _created(cls, record: Record) -> History:
        if record.kind is not Kind.CREATED:
            raise ValueError(f"the first record is {record.kind.value}, not created")
        p = record.payload
        size = int(p["options"]["batch_size"])
        return cls(
            run=p["run"],
            cluster_id=p["cluster_id"],
            cluster_name=p["cluster_name"],
            bootstrap=p["address"]["bootstrap"],
            command_config=p["address"]["command_config"],
            rate_bytes_per_s=p["options"]["rate_bytes_per_s"],
            override_rates=p["options"]["override_rates"],
            allowed=frozenset(p["options"]["allow"]),
            estimate=p["estimate"],
            who=p["who"],
            host=p["host"],
            created_at=record.at,
            moves=[
                MoveHistory(
                    Move(
                        TopicPartition(m["topic"], m["partition"]),
                        tuple(m["before"]),
                        tuple(m["after"]),
                        m["topic_id"],
                    ),
                    batch=index // size,
                )
                for index, m in enumerate(p["moves"])
            ],
            batch_size=size,
            last_at=record.at,
            last_seq=record.seq,
        )

    # -- what is asked of it --------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        return Plan(self.cluster_id, tuple(m.move for m in self.moves))

    @property
    def batches(self) -> int:
        return self._planned_batches - (-len(self.postponed) // self.batch_size)

    @property
    def _planned_batches(self) -> int:
        return -(-len(self.moves) // self.batch_size)

    def batch(self, number: int) -> list[int]:
        """Return the indices of batch `number`'s moves, counted from 0."""
        late = (number - self._planned_batches) * self.batch_size
        if late >= 0:
            return self.postponed[late : late + self.batch_size]
        start = number * self.batch_size
        planned = range(start, min(start + self.batch_size, len(self.moves)))
        return [index for index in planned if self.moves[index].batch == number]

    @property
    def in_flight(self) -> list[int]:
        return [i for i, m in enumerate(self.moves) if m.phase.in_flight]

    @property
    def queued(self) -> list[int]:
        return [i for i, m in enumerate(self.moves) if m.phase is Phase.QUEUED]

    @property
    def next_batch(self) -> list[int]:
        """Return the queued moves of the first batch that has any."""
        queued = self.queued
        first = min((self.moves[i].batch for i in queued), default=0)
        return [i for i in queued if self.moves[i].batch == first]

    # -- folding --------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Take one more record in."""
        p = record.payload
        match record.kind:
            case Kind.CREATED:
                raise ValueError("a journal has only one created record")
            case Kind.STARTED:
                self.process, self.crashed = Process(p["pid"], p["pid_started"]), ""
            case Kind.PREFLIGHT:
                self._preflight(p)
            case Kind.THROTTLE_INTENT:
                self._intent(p)
            case Kind.THROTTLE_SET:
                self.throttles[p["batch"]].set = True
            case Kind.THROTTLE_FAILED:
                self.stopped = p["why"]
            case Kind.RATE_INTENT:
                self._late_rates(p)
            case Kind.RATE_SET:
                for broker, side in p["rates"]:
                    self.rates_due.pop((broker, Side(side)), None)
            case Kind.POSTPONED:
                for index in p["moves"]:
                    place = len(self.postponed) // self.batch_size
                    self.moves[index].batch = self._planned_batches + place
                    self.postponed.append(index)
            case Kind.SUBMITTING:
                for index in p["moves"]:
                    m = self.moves[index]
                    m.phase, m.submitted_at, m.tries = Phase.SUBMITTING, record.at, m.tries + 1
            case Kind.SUBMITTED:
                for index in p["moves"]:
                    self.moves[index].phase = Phase.SUBMITTED
                for text, why in p.get("again", {}).items():
                    self.moves[int(text)].put_off = why
            case Kind.MOVED:
                self._moved(record.at, p)
            case Kind.PAIRS_REMOVED:
                for topic, side, pairs in p["lists"]:
                    self._give_back(topic, Side(side), pairs)
            case Kind.RATE_RESTORED:
                for rate in p["rates"]:
                    key = rate["broker"], Side(rate["side"])
                    self.rates.pop(key, None)
                    self.rates_due.pop(key, None)
            case Kind.REQUEST:
                self.requests_seen = p["seq"]
                if p["kind"] == "cancel":
                    self.cancel_requested = True
                    self.leave_requested |= self.preflight and not (self.in_flight or self.queued)
            case Kind.CANCEL_SENT:
                for index in p["moves"]:
                    self.moves[index].cancel_sent = True
            case Kind.WAITING:
                self.waiting = p["why"]
            case Kind.CRASHED:
                self.crashed = p["why"]
            case Kind.ENDED:
                self.ended, self.ended_at = Outcome(p["outcome"]), record.at
                self.ended_why = p["why"]
            case (
                Kind.PAIRS_REMOVING
                | Kind.RATE_RESTORING
                | Kind.CANCELLING
                | Kind.REORDERING
                | Kind.REORDERED
            ):
                pass  # intentions whose outcome the cluster shows; kept for whoever reads the story
        self.last_at, self.last_seq = record.at, record.seq

    def _preflight(self, p: Mapping[str, Any]) -> None:
        self.preflight = True
        self.min_insync = dict(p["min_insync"])
        for m, size, leader in zip(self.moves, p["sizes"], p["leaders"], strict=True):
            m.size_bytes, m.leader = size, leader

    def _intent(self, p: Mapping[str, Any]) -> None:
        if not self.throttles:
            self.foreign_before = frozenset(TopicPartition(t, n) for t, n in p["foreign"])
        batch = BatchThrottle(
            tuple(ListIntent.from_json(entry) for entry in p["lists"]),
            tuple(RateIntent.from_json(entry) for entry in p["rates"]),
        )
        self.throttles[p["batch"]] = batch
        for intent in batch.lists:
            known = self.lists.get((intent.topic, intent.side))
            self.lists[intent.topic, intent.side] = known.joined(intent) if known else intent
        for rate in batch.rates:
            self.rates[rate.broker, rate.side] = rate

    def _late_rates(self, p: Mapping[str, Any]) -> None:
        late = tuple(RateIntent.from_json(entry) for entry in p["rates"])
        self.throttles[p["batch"]].late += late
        for rate in late:
            key = rate.broker, rate.side
            self.rates[key] = rate
            if rate.rate_bytes_per_s is not None:
                self.rates_due[key] = rate

    def _moved(self, at: datetime, p: Mapping[str, Any]) -> None:
        for entry in p["moves"]:
            m = self.moves[entry["index"]]
            m.phase, m.why, m.ended_at = Phase(entry["phase"]), entry["why"], at
            if entry["leader"] is not None:
                m.leader = entry["leader"]
        self.stopped = self.stopped or p["stop"]

    def _give_back(self, topic: str, side: Side, pairs: list[str]) -> None:
        intent = self.lists.get((topic, side))
        if intent is None:
            return
        left = intent.without(pairs)
        if left.pairs:
            self.lists[topic, side] = left
        else:
            del self.lists[topic, side]
