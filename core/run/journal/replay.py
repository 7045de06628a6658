"""Replays a journal's records into a RunState, which is all that a run knows about itself.

Each record changes it in one way (`apply`); folding the records again after a crash gives the
same History. It says what was asked, found, intended and done, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.cluster.metadata import TopicPartition
from core.daemons.process import Process
from core.run.journal import requests as asked
from core.run.journal.held_throttles import Key, PairState
from core.run.journal.move_state import NOT_STARTED, Outcome, Phase, Role, RunMove, move_from_json
from core.run.journal.produce_latency import BaselineMeasurement
from core.run.journal.rates import RateBounds, RateControl, rates_from_json
from core.run.journal.records import Kind, Record
from core.run.journal.retention import Retention
from core.run.journal.run_state import Known
from core.run.journal.throttle_values import Side
from core.units import parse_time

ONE_REMOVAL = timedelta(seconds=10)
"""Lists and rates that are found gone within this time of one another were taken at once."""
_CHANGE_RATES = frozenset(
    (
        Kind.THROTTLE_INTENT,
        Kind.THROTTLE_SET,
        Kind.RATE_INTENT,
        Kind.RATES_CHANGING,
        Kind.RATE_SET,
        Kind.RATES_CHANGED,
        Kind.DISTURBED,
        Kind.RATE_RESTORED,
        Kind.REQUEST,
    )
)
"""Records that may change which rates are in force."""


@dataclass(slots=True, kw_only=True)
class RunState(Known):
    """What a run knows, as records make it."""

    @classmethod
    def fold(cls, records: Iterable[Record]) -> RunState:
        """Return the history of all `records`; raises ValueError when the first is not CREATED."""
        run: RunState | None = None
        for record in records:
            if run is None:
                run = cls._created(record)
            else:
                run.apply(record)
        if run is None:
            raise ValueError("the journal has no records")
        return run

    @classmethod
    def _created(cls, record: Record) -> RunState:
        if record.kind is not Kind.CREATED:
            raise ValueError(f"the first record is {record.kind.value}, not created")
        p = record.payload
        options = p["options"]
        size, rate = int(options["batch_size"]), options["rate_bytes_per_s"]
        auto, at, retention = options.get("auto"), options.get("at"), options.get("retention")
        return cls(
            run_id=p["run"],
            cluster_id=p["cluster_id"],
            cluster_name=p["cluster_name"],
            bootstrap=p["address"]["bootstrap"],
            command_config=p["address"]["command_config"],
            rate_bytes_per_s=rate,
            override_rates=options["override_rates"],
            allowed=frozenset(options["allow"]),
            estimate=p["estimate"],
            who=p["who"],
            host=p["host"],
            created_at=record.at,
            moves=[_move(m, index // size) for index, m in enumerate(p["moves"])],
            batch_size=size,
            explicit=any("batch" in m for m in p["moves"]),
            max_extra_bytes=options.get("most_extra_bytes"),
            start_at=parse_time(at) if at else None,
            elect=bool(options.get("elect")),
            pause_if_removed=options.get("if_throttles_removed") == "pause",
            rate_control=RateControl(
                rate,
                RateBounds.from_json(auto) if auto else None,
                per_side_rates=rates_from_json(options.get("apart", ())),
            ),
            retention=Retention(retention["ms"]) if retention else None,
            last_at=record.at,
        )

    def apply(self, record: Record) -> None:
        """Take one more record in."""
        p = record.payload
        if record.kind in _CHANGE_RATES:
            self.backlog.settle(self.rate_in_force, record.at)
        match record.kind:
            case Kind.CREATED:
                raise ValueError("a journal has only one created record")
            case Kind.STARTED:
                self.process, self.crashed = Process(p["pid"], p["pid_started"]), ""
                self.unsaved_passwords = tuple(p.get("unsaved_passwords", ()))
            case Kind.PREFLIGHT:
                self._preflight(p)
            case Kind.MEASURED:
                self.measured = BaselineMeasurement.from_json(p)
            case Kind.THROTTLE_INTENT:
                if not self.throttles:
                    self.foreign_before = frozenset(TopicPartition(t, n) for t, n in p["foreign"])
                for index in self.intend_throttles(p, self.batch(p["batch"])):
                    self.moves[index].limited = True
                self._keep(record)
            case Kind.THROTTLE_SET:
                rates = self.throttles_are_set(p)
                ours = [(r.broker, r.side) for r in rates if r.rate_bytes_per_s is not None]
                self._in_force(ours, record.at)
            case Kind.THROTTLE_FAILED:
                self.stopped = p["why"]
                self.throttles_failed(p)
            case Kind.RATE_INTENT:
                self.intend_rates(p)
                self._keep(record)
            case Kind.RATES_CHANGING:
                wanted = [(_key(rate), rate["rate_bytes_per_s"]) for rate in p["rates"]]
                if not p.get("held") and any(key in self.held_back for key, _ in wanted):
                    self.unheld_at = record.at
                for key, _ in wanted:
                    if p.get("held"):
                        self.held_back.setdefault(key, self.rate_in_force(key))
                    else:
                        self.held_back.pop(key, None)
                self.change_rates(wanted)
                self.rate_control = self.rate_control.changed(wanted, record.at)
            case Kind.RATE_SET | Kind.RATES_CHANGED:
                keys = [(broker, Side(side)) for broker, side in p["rates"]]
                self.rates_are_set(keys)
                self._in_force(
                    (key for key in keys if key not in self.rate_control.rates), record.at
                )
                self._refused(p.get("refused", ()), record.at)
            case Kind.DISTURBED:
                if self.begun and (p["lists"] or any(rate["mend"] for rate in p["rates"])):
                    self._removed(record.at)
                others = self.disturb(p)
                # What is taken away once more has been put back in between, however short a while.
                # A rate that is another one now was changed by somebody, not taken away.
                taken = (*p["lists"], *(rate for rate in p["rates"] if rate["mend"]))
                if self.removals:
                    times = (entry.get("times", 1) for entry in taken)
                    self.removals = max((self.removals, *times))
                self.editor = p.get("editor", self.editor)
                self._held_back_no_more(others)
                held = {key: self.rates[key] for key in others if key in self.rates}
                theirs = {k: r.limit_bytes_per_s for k, r in held.items() if r.ours is not None}
                self.rate_control = self.rate_control.given_back(others).taken_over(
                    theirs, record.at
                )
                self._in_force((key for key in held if key not in theirs), record.at)
            case Kind.PAIRS_TAKING:
                self.put_pairs(p["lists"], PairState.TAKING)
            case Kind.PAIRS_TAKEN:
                self.put_pairs(p["lists"], PairState.TAKEN)
            case Kind.PAIRS_PUTTING:
                self.put_pairs(p["lists"], PairState.PUTTING)
            case Kind.PAIRS_PUT:
                self.put_pairs(p["lists"], None)
            case Kind.POSTPONED:
                self.place_last(p["moves"])
            case Kind.MOVES_ADDED:
                self._add(p)
            case Kind.SUBMITTING:
                for index in p["moves"]:
                    m = self.moves[index]
                    if not m.phase.in_flight:
                        self.backlog.add(m, self.rate_in_force, record.at)
                    m.phase, m.submitted_at, m.tries = Phase.SUBMITTING, record.at, m.tries + 1
            case Kind.SUBMITTED:
                for index in p["moves"]:
                    self.moves[index].phase = Phase.SUBMITTED
                for text, why in p.get("again", {}).items():
                    self.moves[int(text)].put_off = why
                for text, why in p.get("refused", {}).items():
                    self.moves[int(text)].refused = why
            case Kind.DIRS_MOVED:
                for index, broker, why in p["refused"]:
                    self.moves[index].dirs_refused[broker] = why
            case Kind.MOVED:
                self._moved(record.at, p)
            case Kind.PAIRS_REMOVED:
                if p.get("missing"):
                    self._removed(record.at)
                self.pairs_are_removed(p)
            case Kind.RATE_RESTORED:
                keys = [_key(rate) for rate in p["rates"]]
                self.rates_are_restored(keys)
                self._held_back_no_more(keys)
                self.rate_control = self.rate_control.given_back(keys)
            case Kind.REQUEST:
                self.last_request = p["seq"]
                floored = self.rate_control.floored
                if not p.get("refused"):
                    asked.take(self, p["kind"], p)
                    self._hold_back_anew(p["kind"])
                if floored and not self.rate_control.floored:
                    self.unheld_at = record.at
            case Kind.CANCELLING:
                for index in p["moves"]:
                    self.moves[index].cancel_intended = True
            case Kind.CANCEL_SENT:
                for index in p["moves"]:
                    self.moves[index].cancel_sent = True
            case Kind.ELECTED:
                for index in p["moves"]:
                    self.moves[index].elected = True
                for text in p["again"]:
                    self.moves[int(text)].elections += 1
            case Kind.WAITING:
                self.waiting = p["why"]
            case Kind.CRASHED:
                self.crashed = p["why"]
            case Kind.ENDED:
                self.ended, self.ended_at = Outcome(p["outcome"]), record.at
                self.ended_why = p["why"]
            case (
                Kind.RETENTION_LOWERING
                | Kind.RETENTION_LOWERED
                | Kind.RETENTION_AWAITED
                | Kind.RETENTION_RESTORED
            ) if self.retention is not None:
                self.retention = self.retention.after(record)
                for index, size in p.get("sizes", ()):
                    self.moves[index].size_bytes = size
            case _:
                pass  # intentions whose outcome the cluster shows; kept for whoever reads the story
        self.last_at = record.at

    def _removed(self, at: datetime) -> None:
        """Take in that somebody has taken throttles of ours, a moment before.

        Moves that were in flight may have ended by then, just because of it.
        """
        last, self.removed_at = self.removed_at, at
        if last is None or at - last >= ONE_REMOVAL:
            self.removals += 1
        self.guarded_since = self.guarded_since or at

    def _preflight(self, p: Mapping[str, Any]) -> None:
        self.preflight = True
        self.min_insync = dict(p["min_insync"])
        self.estimate = p.get("estimate") or self.estimate
        for m, size, leader in zip(self.moves, p["sizes"], p["leaders"], strict=True):
            m.size_bytes, m.leader = size, leader

    def place_last(self, indices: Iterable[int]) -> None:
        """Queue moves again, after all others: in the last batch, while it is open, or new ones.

        Batches that were asked for, for what each may copy at once, stay apart.
        """
        origins = {i: self._origin(self.moves[i].batch) for i in indices}
        last = self.batches - 1
        taken = len(self.batch(last))
        for index, origin in sorted(origins.items(), key=lambda item: item[1]):
            open_ = self.late.get(last) == origin and last not in self.throttles
            if not open_ or taken >= self.batch_size:
                last, taken = last + 1, 0
                self.late[last] = origin
            self.moves[index].requeue(last)
            taken += 1

    def _origin(self, batch: int) -> int:
        return self.late.get(batch, batch) if self.explicit else 0

    def _in_force(self, keys: Iterable[Key], at: datetime) -> None:
        """Take in that rates of ours have come into force."""
        held = ((key, self.rates.get(key)) for key in keys)
        rates = [(k, r.limit_bytes_per_s) for k, r in held if r and r.limit_bytes_per_s is not None]
        self.rate_control = self.rate_control.changed(rates, at)

    def _refused(self, rows: Iterable[Sequence[Any]], at: datetime) -> None:
        """Take in which rates were refused, and what their sides have instead, as before."""
        refused = {(broker, Side(side)): rate for broker, side, rate, _ in rows}
        self._held_back_no_more(refused)
        self.keep_refused(((broker, Side(side)), kept) for broker, side, _, kept in rows)
        limits = {key: self.rates[key].limit_bytes_per_s for key in refused}
        kept = [(key, refused[key], limit) for key, limit in limits.items() if limit is not None]
        self.rate_control = self.rate_control.refused(kept, at)

    def _hold_back_anew(self, kind: str) -> None:
        """Take in what was asked for: the floor holds all, another rate is waited for."""
        if self.rate_control.floored:
            self.held_back.clear()
        elif kind == "throttle":
            sides = tuple(self.held_back)
            self.held_back.clear()
            self.held_back.update({key: self.rate_in_force(key) for key in sides})

    def _held_back_no_more(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.held_back.pop(key, None)

    def _keep(self, record: Record) -> None:
        """Take in lower rates of somebody else's that are kept: they are in force already."""
        kept = [_key(rate) for rate in record.payload["rates"] if rate["rate_bytes_per_s"] is None]
        self._in_force(kept, record.at)

    def _add(self, p: Mapping[str, Any]) -> None:
        for entry in p["moves"]:
            m = _move(entry, entry["batch"])
            m.role, m.instead_of = Role(entry["role"]), entry["instead_of"]
            before = self.moves[entry["instead_of"]]
            m.size_bytes, m.leader = before.size_bytes, before.leader
            m.produced_bytes_per_s = before.produced_bytes_per_s
            before.replaced, before.retarget = True, None
            self.moves.append(m)
        for index, why in p["refused"]:
            m = self.moves[index]
            if m.why == NOT_STARTED and m.retarget != m.move.before:
                self.place_last([index])  # it goes where it was to go
            else:
                m.retarget, m.why = None, m.why if m.phase is Phase.DONE else why
        if p["rollback"]:
            self.rollback_requested, self.rolling_back, self.stopped = False, True, ""

    def _moved(self, at: datetime, p: Mapping[str, Any]) -> None:
        for entry in p["moves"]:
            m = self.moves[entry["index"]]
            phase = Phase(entry["phase"])
            if m.phase.in_flight and phase is not Phase.DONE:
                self.backlog.remove(m, self.rate_in_force, at)
            m.phase, m.why, m.ended_at = phase, entry["why"], at
            if entry["leader"] is not None:
                m.leader = entry["leader"]
        self.stopped = self.stopped or p["stop"]


def _move(p: Mapping[str, Any], batch: int) -> RunMove:
    return RunMove(
        move_from_json(p),
        batch=p.get("batch", batch),
        long=bool(p.get("long")),
        produced_bytes_per_s=float(p.get("produced", 0.0)),
    )


def _key(rate: Mapping[str, Any]) -> Key:
    return rate["broker"], Side(rate["side"])
