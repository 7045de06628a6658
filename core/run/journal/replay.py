"""Replays a journal's records into a RunState, which is all that a run knows about itself.

Each record changes it in one way, and decides nothing; folding them again after a crash gives the
same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from core.cluster.metadata import TopicPartition
from core.daemons.process import Process
from core.plan.copies import Side
from core.run.journal import requests
from core.run.journal.held_throttles import PairState
from core.run.journal.move_state import NOT_STARTED, Outcome, Phase, Role, RunMove, move_from_json
from core.run.journal.produce_latency import BaselineMeasurement
from core.run.journal.rates import RateBounds, RateControl, rates_from_json
from core.run.journal.records import Kind, Record
from core.run.journal.retention_records import Retention
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key
from core.units import parse_time

_PAIR_STATES = {
    Kind.PAIRS_TAKING: PairState.TAKING,
    Kind.PAIRS_TAKEN: PairState.TAKEN,
    Kind.PAIRS_PUTTING: PairState.PUTTING,
}
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


def fold(records: Iterable[Record]) -> RunState:
    """Return what all `records` come to; raises ValueError when the first is not CREATED."""
    remaining = iter(records)
    first = next(remaining, None)
    if first is None:
        raise ValueError("the journal has no records")
    run = _initial_state(first)
    for record in remaining:
        fold_record(run, record)
    return run


def _initial_state(record: Record) -> RunState:
    if record.kind is not Kind.CREATED:
        raise ValueError(f"the first record is {record.kind.value}, not created")
    p = record.payload
    options = p["options"]
    size, rate = int(options["batch_size"]), options["rate_bytes_per_s"]
    auto, at, retention = options.get("auto"), options.get("at"), options.get("retention")
    return RunState(
        run_id=p["run"],
        cluster_id=p["cluster_id"],
        cluster_name=p["cluster_name"],
        bootstrap=p["address"]["bootstrap"],
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


def fold_record(run: RunState, record: Record) -> None:
    """Take one more record in."""
    p = record.payload
    if record.kind in _CHANGE_RATES:
        run.backlog.settle(run.rate_in_force, record.at)
    match record.kind:
        case Kind.CREATED:
            raise ValueError("a journal has only one created record")
        case Kind.STARTED:
            run.process, run.crashed = Process(p["pid"], p["pid_started"]), ""
            run.unsaved_passwords = tuple(p.get("unsaved_passwords", ()))
        case Kind.PREFLIGHT:
            run.preflight = True
            run.min_insync = dict(p["min_insync"])
            run.estimate = p.get("estimate") or run.estimate
            for m, size, leader in zip(run.moves, p["sizes"], p["leaders"], strict=True):
                m.size_bytes, m.leader = size, leader
        case Kind.MEASURED:
            run.measured = BaselineMeasurement.from_json(p)
        case Kind.THROTTLE_INTENT:
            if not run.throttles.batches:
                run.foreign_before = frozenset(TopicPartition(t, n) for t, n in p["foreign"])
            for index in run.throttles.intend_throttles(p, run.batch(p["batch"])):
                run.moves[index].limited = True
            _keep(run, record)
        case Kind.THROTTLE_SET:
            rates = run.throttles.throttles_are_set(p)
            ours = [r.key for r in rates if r.rate_bytes_per_s is not None]
            _fold_rates(run, ours, record.at)
        case Kind.THROTTLE_FAILED:
            run.stopped = p["why"]
            run.throttles.throttles_failed(p)
        case Kind.RATE_INTENT:
            run.throttles.intend_rates(p)
            _keep(run, record)
        case Kind.RATES_CHANGING:
            to_set = {_key(rate): rate["rate_bytes_per_s"] for rate in p["rates"]}
            for key in to_set:
                if p.get("held"):
                    run.held_back.setdefault(key, run.rate_in_force(key))
                elif run.held_back.pop(key, None) is not None:
                    run.unheld_at = record.at
            run.throttles.change_rates(to_set.items())
            run.rate_control = run.rate_control.changed(to_set.items(), record.at)
        case Kind.RATE_SET | Kind.RATES_CHANGED:
            keys = [(broker, Side(side)) for broker, side in p["rates"]]
            run.throttles.rates_are_set(keys)
            _fold_rates(run, (key for key in keys if key not in run.rate_control.rates), record.at)
            _refused(run, p.get("refused", ()), record.at)
        case Kind.DISTURBED:
            if run.begun and (p["lists"] or any(rate["mend"] for rate in p["rates"])):
                _removed(run, record.at)
            others = run.throttles.disturb(p)
            # What is taken away once more has been put back in between, however short a while.
            # A rate that is another one now was changed by somebody, not taken away.
            taken = (*p["lists"], *(rate for rate in p["rates"] if rate["mend"]))
            if run.removals:
                run.removals = max(run.removals, *(entry.get("times", 1) for entry in taken), 0)
            run.editor = p.get("editor", run.editor)
            _clear_held_back(run, others)
            held = {key: run.throttles.rates[key] for key in others if key in run.throttles.rates}
            theirs = {k: r.limit_bytes_per_s for k, r in held.items() if r.ours is not None}
            run.rate_control = run.rate_control.given_back(others).taken_over(theirs, record.at)
            _fold_rates(run, (key for key in held if key not in theirs), record.at)
        case Kind.PAIRS_TAKING | Kind.PAIRS_TAKEN | Kind.PAIRS_PUTTING | Kind.PAIRS_PUT:
            run.throttles.put_pairs(p["lists"], _PAIR_STATES.get(record.kind))
        case Kind.POSTPONED:
            run.place_last(p["moves"])
        case Kind.MOVES_ADDED:
            _add(run, p)
        case Kind.SUBMITTING:
            for index in p["moves"]:
                m = run.moves[index]
                if not m.phase.in_flight:
                    run.backlog.add(m, run.rate_in_force, record.at)
                m.phase, m.submitted_at, m.tries = Phase.SUBMITTING, record.at, m.tries + 1
        case Kind.SUBMITTED:
            for index in p["moves"]:
                run.moves[index].phase = Phase.SUBMITTED
            for text, why in p.get("again", {}).items():
                run.moves[int(text)].put_off = why
            for text, why in p.get("refused", {}).items():
                run.moves[int(text)].refused = why
        case Kind.DIRS_MOVED:
            for index, broker, why in p["refused"]:
                run.moves[index].dirs_refused[broker] = why
        case Kind.MOVED:
            _moved(run, record.at, p)
        case Kind.PAIRS_REMOVED:
            if p.get("missing"):
                _removed(run, record.at)
            run.throttles.pairs_are_removed(p)
        case Kind.RATE_RESTORED:
            keys = [_key(rate) for rate in p["rates"]]
            run.throttles.rates_are_restored(keys)
            _clear_held_back(run, keys)
            run.rate_control = run.rate_control.given_back(keys)
        case Kind.REQUEST:
            run.last_request = p["seq"]
            floored = run.rate_control.floored
            if not p.get("refused"):
                requests.take(run, p["kind"], p)
                if run.rate_control.floored:  # it holds all
                    run.held_back.clear()
                elif p["kind"] == "throttle":  # another rate is waited for
                    sides = tuple(run.held_back)
                    run.held_back.clear()
                    run.held_back.update({key: run.rate_in_force(key) for key in sides})
            if floored and not run.rate_control.floored:
                run.unheld_at = record.at
        case Kind.CANCELLING:
            for index in p["moves"]:
                run.moves[index].cancel_intended = True
        case Kind.CANCEL_SENT:
            for index in p["moves"]:
                run.moves[index].cancel_sent = True
        case Kind.ELECTED:
            for index in p["moves"]:
                run.moves[index].elected = True
            for text in p["again"]:
                run.moves[int(text)].elections += 1
        case Kind.WAITING:
            run.waiting = p["why"]
        case Kind.CRASHED:
            run.crashed = p["why"]
        case Kind.ENDED:
            run.ended, run.ended_at = Outcome(p["outcome"]), record.at
            run.ended_why = p["why"]
        case (
            Kind.RETENTION_LOWERING
            | Kind.RETENTION_LOWERED
            | Kind.RETENTION_AWAITED
            | Kind.RETENTION_RESTORED
        ) if run.retention is not None:
            run.retention = run.retention.after(record)
            for index, size in p.get("sizes", ()):
                run.moves[index].size_bytes = size
        case _:
            pass  # intentions whose outcome the cluster shows; kept for whoever reads the story
    run.last_at = record.at


def _removed(run: RunState, at: datetime) -> None:
    """Take in that somebody has taken throttles of ours, a moment before.

    Moves that were in flight may have ended by then, just because of it.
    """
    last, run.removed_at = run.removed_at, at
    if last is None or at - last >= ONE_REMOVAL:
        run.removals += 1
    run.guarded_since = run.guarded_since or at


def _fold_rates(run: RunState, keys: Iterable[Key], at: datetime) -> None:
    held = ((key, run.throttles.rates.get(key)) for key in keys)
    rates = [(k, r.limit_bytes_per_s) for k, r in held if r and r.limit_bytes_per_s is not None]
    run.rate_control = run.rate_control.changed(rates, at)


def _refused(run: RunState, rows: Iterable[Sequence[Any]], at: datetime) -> None:
    """Take in which rates were refused, and what their sides have instead, as before."""
    refused = {(broker, Side(side)): rate for broker, side, rate, _ in rows}
    _clear_held_back(run, refused)
    run.throttles.keep_refused(((broker, Side(side)), kept) for broker, side, _, kept in rows)
    limits = {key: run.throttles.rates[key].limit_bytes_per_s for key in refused}
    kept = [(key, refused[key], limit) for key, limit in limits.items() if limit is not None]
    run.rate_control = run.rate_control.refused(kept, at)


def _clear_held_back(run: RunState, keys: Iterable[Key]) -> None:
    for key in keys:
        run.held_back.pop(key, None)


def _keep(run: RunState, record: Record) -> None:
    """Take in lower rates of somebody else's that are kept: they are in force already."""
    kept = [_key(rate) for rate in record.payload["rates"] if rate["rate_bytes_per_s"] is None]
    _fold_rates(run, kept, record.at)


def _add(run: RunState, p: Mapping[str, Any]) -> None:
    for entry in p["moves"]:
        m = _move(entry, entry["batch"])
        m.role, m.instead_of = Role(entry["role"]), entry["instead_of"]
        before = run.moves[entry["instead_of"]]
        m.size_bytes, m.leader = before.size_bytes, before.leader
        m.produced_bytes_per_s = before.produced_bytes_per_s
        before.replaced, before.retarget = True, None
        run.moves.append(m)
    for index, why in p["refused"]:
        m = run.moves[index]
        if m.why == NOT_STARTED and m.retarget != m.move.before:
            run.place_last([index])  # it goes where it was to go
        else:
            m.retarget, m.why = None, m.why if m.phase is Phase.DONE else why
    if p["rollback"]:
        run.rollback_requested, run.rolling_back, run.stopped = False, True, ""


def _moved(run: RunState, at: datetime, p: Mapping[str, Any]) -> None:
    for entry in p["moves"]:
        m = run.moves[entry["index"]]
        phase = Phase(entry["phase"])
        if m.phase.in_flight and phase is not Phase.DONE:
            run.backlog.remove(m, run.rate_in_force, at)
        m.phase, m.why, m.ended_at = phase, entry["why"], at
        if entry["leader"] is not None:
            m.leader = entry["leader"]
    run.stopped = run.stopped or p["stop"]


def _move(p: Mapping[str, Any], batch: int) -> RunMove:
    return RunMove(
        move_from_json(p),
        batch=p.get("batch", batch),
        long=bool(p.get("long")),
        produced_bytes_per_s=float(p.get("produced", 0.0)),
    )


def _key(rate: Mapping[str, Any]) -> Key:
    return rate["broker"], Side(rate["side"])
