"""RunState: a run's requests, moves and progress, as replayed from its journal.

Only `core.run.journal.replay` changes it, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.cluster.metadata import TopicPartition
from core.daemons.process import Process
from core.plan.plan import Plan
from core.run.journal.held_throttles import HeldThrottles
from core.run.journal.move_state import Outcome, Phase, RunMove
from core.run.journal.produce_latency import BaselineMeasurement
from core.run.journal.rates import Backlog, RateControl
from core.run.journal.retention_records import Retention
from core.run.journal.throttle_values import Key
from core.units import UNLIMITED


@dataclass(slots=True, kw_only=True)
class RunState:
    """Everything the records say of one run, in the shape that decisions and screens need."""

    run_id: str
    cluster_id: str
    cluster_name: str
    bootstrap: str
    rate_bytes_per_s: int
    override_rates: bool
    allowed: frozenset[str]
    estimate: Mapping[str, Any] | None
    who: str
    host: str
    created_at: datetime
    moves: list[RunMove]
    batch_size: int
    explicit: bool = False
    """Its batches were asked for, one by one: the next may begin before the last has ended."""
    max_extra_bytes: int | None = None
    """What a destination holds at most of moves in flight, several batches' together."""
    late: dict[int, int] = field(default_factory=dict)
    """Batches after all others, of moves that were put off or are tried again, and of which."""
    start_at: datetime | None = None
    elect: bool = False
    rate_control: RateControl
    throttles: HeldThrottles = field(default_factory=HeldThrottles)
    retention: Retention | None = None
    measured: BaselineMeasurement | None = None
    """What producers waited before an adaptive run; None until that has been measured."""
    pause_if_removed: bool = False
    """Pause when somebody takes its throttles away again and again; else it goes on by and by."""
    guarded_since: datetime | None = None
    """Since when somebody has taken throttles of its away: moves begin as `backlog` allows."""
    backlog: Backlog = field(default_factory=Backlog)
    removals: int = 0
    """How often somebody has, since it was last resumed."""
    removed_at: datetime | None = None
    editor: str = ""
    """Who is likely to have done it last."""
    held_back: dict[Key, int] = field(default_factory=dict)
    """Sides that wait on the floor, as more came than their rate brings, and that rate."""
    limit_late: bool = False
    """It began without a limit and was given one: moves in flight get it too."""
    min_insync: dict[str, int] = field(default_factory=dict)
    """Topic → min.insync.replicas, of those of which it may be read."""
    process: Process | None = None
    unsaved_passwords: tuple[str, ...] = ()
    """Keys of its client properties for which somebody typed what is in no file."""
    preflight: bool = False
    foreign_before: frozenset[TopicPartition] = frozenset()
    """Moves of others that were in flight before we set the first rate."""
    paused: bool = False
    unheld_at: datetime | None = None
    """When copies that were held on the floor last went on: until then none was meant to."""
    cancel_requested: bool = False
    """All of it is to be taken back; what is asked of single moves is in `RunMove.request`."""
    leave_requested: bool = False
    """Cancelled when no move was left: what cannot be given back now is to be left."""
    leave_copies: bool = False
    """Cancelled again as it waited: copies between log dirs of brokers that are down are left."""
    rollback_requested: bool = False
    rolling_back: bool = False
    """The moves back have been added."""
    last_request: int = 0
    stopped: str = ""
    """Why no further batch is to start; "" while all is well."""
    waiting: str = ""
    crashed: str = ""
    """On which error of its own the process ended, in one sentence."""
    ended: Outcome | None = None
    ended_why: str = ""
    ended_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def plan(self) -> Plan:
        return Plan(self.cluster_id, tuple(m.move for m in self.moves))

    @property
    def newest(self) -> dict[TopicPartition, RunMove]:
        """Return each partition's newest move: one that went elsewhere, or back, has several."""
        return {m.move.tp: m for m in self.moves}

    @property
    def batches(self) -> int:
        return max((m.batch for m in self.moves), default=-1) + 1

    def batch(self, number: int) -> list[int]:
        """Return the indices of batch `number`'s moves, counted from 0."""
        return [index for index, m in enumerate(self.moves) if m.batch == number]

    def place_last(self, indices: Iterable[int]) -> None:
        """Queue moves again, after all others: in the last batch, while it is open, or new ones.

        Batches that were asked for, for what each may copy at once, stay apart.
        """
        batches = {i: self.moves[i].batch for i in indices}
        origins = {i: self.late.get(b, b) if self.explicit else 0 for i, b in batches.items()}
        last = self.batches - 1
        taken = len(self.batch(last))
        for index, origin in sorted(origins.items(), key=lambda item: item[1]):
            open_ = self.late.get(last) == origin and last not in self.throttles.batches
            if not open_ or taken >= self.batch_size:
                last, taken = last + 1, 0
                self.late[last] = origin
            self.moves[index].requeue(last)
            taken += 1

    @property
    def begun(self) -> bool:
        """Return whether the cluster has taken any of its moves."""
        return any(m.phase in (Phase.SUBMITTED, Phase.DONE) for m in self.moves)

    @property
    def guarded(self) -> bool:
        return self.guarded_since is not None

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

    @property
    def adapts_rate(self) -> bool:
        """Return whether there is a rate to adapt: what copies nothing has none."""
        copies = (bool(m.move.moves_data or m.move.dir_moves) for m in self.moves)
        return self.rate_control.bounds is not None and any(copies)

    def min_in_sync(self, topic: str, replicas: int) -> int:
        """Return min.insync.replicas of a topic, or what it may well be where it is not known.

        Of its `replicas` all but one: the most with which a broker may be lost and producers go on.
        """
        return self.min_insync.get(topic, max(1, replicas - 1))

    def is_scheduled(self, at: datetime) -> bool:
        """Return whether it waits, at that time, for the one that it is to begin at."""
        return self.start_at is not None and not self.preflight and at < self.start_at

    def requested_rate(self, key: Key) -> int:
        """Return the most that a broker and side is to get, by what was asked for."""
        return self.rate_control.per_side_rates.get(key, self.rate_bytes_per_s)

    def rate_in_force(self, key: Key) -> int:
        """Return the rate that a broker and side is held to, never above what was asked for.

        It is not the one that it has for a while: waiting on the floor as more came than its rate
        brings, or on its way up from there.
        """
        held, limit = self.rate_control.rates.get(key), self.requested_rate(key)
        if held is None:
            now = self.rate_control.first_bytes_per_s
        elif self.rate_control.floored or held.theirs or held.refused_bytes_per_s is not None:
            now = held.rate_bytes_per_s
        elif key in self.held_back:
            now = self.held_back[key]
        elif self.rate_control.bounds is not None:
            now = held.rate_bytes_per_s
            if now != UNLIMITED:
                now = max(now, self.rate_control.bounds.min_bytes_per_s)
        else:
            max_rate = self.max_rate_of(key) if key in self.throttles.rates else None
            now = limit if max_rate is None else max_rate
        return limit if now == UNLIMITED else now if limit == UNLIMITED else min(now, limit)

    def max_rate_of(self, key: Key) -> int | None:
        """Return somebody else's rate, which ours never exceeds; None for none, or overridden."""
        return None if self.override_rates else self.throttles.rates[key].original_bytes_per_s
