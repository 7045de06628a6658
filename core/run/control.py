"""Requests to a run: a valid one is written to its journal, any other is refused in one sentence.

Anybody may ask, also while the run's process is down: the request waits in the journal and is
taken up when the process is back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.cluster.metadata import TopicPartition
from core.errors import RefusedError, UsageError
from core.run import audit
from core.run.audit import requester
from core.run.journal.journal import Journal, journal_path
from core.run.journal.move_state import Phase, Role, RunMove
from core.run.journal.rates import RateBounds
from core.run.journal.requests import KINDS, refusal, take, undone_by
from core.run.journal.run_state import RunState
from core.run.reporting.runs import read_journal
from core.run.reporting.views import RunStatus
from core.run.throttles import external_removal as guard
from core.run.throttles.inflow import expected_sides, inflow_bytes_per_s
from core.units import UNLIMITED, format_rate, id_list

Payload = Mapping[str, Any]

NEVER = "never"
"""The check that `apply` refuses too slow a rate by, and that may be allowed."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request in the journal; it is waiting while no process is there to take it up."""

    run: str
    seq: int
    kind: str
    is_waiting: bool

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "request": self.kind, "seq": self.seq, "waits": self.is_waiting}


def request(
    cluster_id: str,
    run: str,
    kind: str,
    payload: Payload | None = None,
    *,
    allow: Collection[str] = (),
) -> SentRequest:
    """Ask a run for something; a living one takes it up within a second.

    `payload` is what docs/explanation/runs.md says of each kind; `allow` are ids of checks that
    may speak against it. Raises UsageError for what makes no sense (one sentence each),
    RefusedError for what a check refuses, JournalError when the journal cannot be written.
    """
    look = read_journal(cluster_id, run)
    status, state = look.view.state, look.state
    if kind not in KINDS:
        raise UsageError(f"A run cannot be asked to {kind}.", next=f"Known: {', '.join(KINDS)}.")
    if state.ended is not None:
        can_follow = kind in ("rollback", "retry")
        raise UsageError(
            f"Run {run} has ended: {status.value}.",
            next=f"`trimtab runs {kind} {run}` starts another."
            if can_follow
            else "Nothing was changed.",
        )
    details = dict(payload or {})
    with Journal.open(journal_path(cluster_id, run)) as journal:
        for before in journal.requests(state.last_request):  # what waits counts as taken up
            if not (before.payload.get("refused") or refusal(state, before.kind, before.payload)):
                take(state, before.kind, before.payload)
        _check(state, kind, details, allow)
        audit.note(cluster_id, run, "request", kind=kind, **details)
        seq = journal.ask(datetime.now(UTC), kind, details | requester())
    return SentRequest(run, seq, kind, is_waiting=status is RunStatus.DIED)


def find_moves(run: RunState, names: Sequence[str]) -> list[int]:
    """Return the indices of the moves that `TOPIC-PARTITION` names, the newest of each.

    Raises UsageError for a partition that the run does not move.
    """
    newest = {str(m.move.tp): index for index, m in enumerate(run.moves)}
    for name in names:
        if name not in newest:
            topic = name.rpartition("-")[0]
            like = [known for known in newest if known.rpartition("-")[0] == topic] or [*newest]
            shown = ", ".join(like[:SHOWN]) + (", …" if len(like) > SHOWN else "")
            raise UsageError(f"Run {run.run_id} does not move {name!r}.", next=f"It has: {shown}.")
    return list(dict.fromkeys(newest[name] for name in names))


# -- what makes sense ------------------------------------------------------------------------------


def _check(run: RunState, kind: str, p: Payload, allow: Collection[str]) -> None:
    """Raise UsageError for what makes no sense, RefusedError for what a check refuses."""
    if undoes := undone_by(run, kind):
        can_change = not run.cancel_requested
        goes_on = "It can be paused, given another rate, or cancelled." if can_change else ""
        raise UsageError(f"Run {run.run_id} {undoes}.", next=goes_on)
    match kind:
        # All of it may be cancelled twice: the second time leaves what cannot be put back.
        case "cancel" if p.get("moves") is not None:
            for tp, m in _named(run, p["moves"]):
                if m.phase.ended:
                    raise UsageError(f"{tp} cannot be cancelled: it is {m.phase.value} already.")
        case "pause":
            _pause(run, p)
        case "resume" if not (run.paused or guard.pauses(run)):
            raise UsageError(f"Run {run.run_id} is not paused: there is nothing to resume.")
        case "throttle":
            _throttle(run, p, allow)
        case "skip":
            for tp, m in _named(run, p["moves"]):
                if m.phase is not Phase.QUEUED:
                    cancel = f"`trimtab runs cancel {run.run_id} --move {tp}`."
                    raise UsageError(
                        f"{tp} cannot be skipped: it is {_status(m)} already.",
                        next="" if m.phase.ended else cancel,
                    )
        case "retry":
            _check_retry(run, p)
        case "retarget":
            _check_retarget(run, p)
        case "rollback":
            _check_rollback(run)


def _pause(run: RunState, p: Payload) -> None:
    # A rate that somebody else has set since is held again by asking once more.
    let_go = p.get("floor") and any(rate.theirs for rate in run.rate_control.rates.values())
    if run.paused and run.rate_control.floored == bool(p.get("floor")) and not let_go:
        raise UsageError(
            f"Run {run.run_id} is paused already.",
            next=f"`trimtab runs resume {run.run_id}` lets it go on.",
        )
    if p.get("floor") and run.rate_bytes_per_s == UNLIMITED:
        raise UsageError(
            f"Run {run.run_id} has no throttle: what it has in flight cannot be held.",
            next=f"`trimtab runs pause {run.run_id}` begins no further batch; "
            f"`trimtab runs throttle {run.run_id} RATE` limits it.",
        )


def _throttle(run: RunState, p: Payload, allow: Collection[str]) -> None:
    bounds = p.get("auto")
    if bounds is not None:
        RateBounds.of(bounds["least_bytes_per_s"], bounds["most_bytes_per_s"])
        return
    rate = p["rate_bytes_per_s"]
    if rate == UNLIMITED:
        raise UsageError(
            "A run in progress keeps its throttles: -1 would set its moves free at wire speed.",
            next="Give a rate, however high, like 10GB/s.",
        )
    if rate < 1:
        raise UsageError(
            f"A rate of {rate} bytes a second moves nothing.",
            next=f"To hold the run: `trimtab runs pause {run.run_id} --floor`.",
        )
    # Below what is produced, what is left would never be whole.
    floor, broker, side = max(_inflow_rates(run), default=(0.0, 0, ""))
    if rate <= floor and NEVER not in {*allow, *run.allowed}:
        does = {"leader": "send", "follower": "receive"}.get(side, "copy between its log dirs")
        raise RefusedError(
            f"At {format_rate(rate)} the run would never end: broker {broker} has to {does} "
            f"{format_rate(floor)} of what is produced meanwhile.",
            next=f"Give a higher rate, or --allow {NEVER}.",
            checks=(NEVER,),
        )


def _inflow_rates(run: RunState) -> Iterable[tuple[float, int, str]]:
    """Yield what each broker and side has to carry of what is produced, batch by batch."""
    together: defaultdict[int, list[int]] = defaultdict(list)
    for index, m in enumerate(run.moves):
        if not m.phase.ended:
            together[m.batch if m.phase is Phase.QUEUED else -1].append(index)
    for indices in together.values():
        for (broker, side), growing in expected_sides(run, indices).items():
            yield inflow_bytes_per_s(side, growing), broker, side.value


def _check_retry(run: RunState, p: Payload) -> None:
    for tp, m in _named(run, p["moves"]):
        if m.replaced:
            raise UsageError(f"{tp} cannot be tried again: another move stands in for it.")
        if run.rolling_back and m.role is not Role.ROLLBACK:
            raise UsageError(f"{tp} cannot be tried again: the run is being rolled back.")
        if not m.phase.ended or m.phase is Phase.DONE:
            raise UsageError(f"{tp} cannot be tried again: it is {_status(m)}.")


def _check_retarget(run: RunState, p: Payload) -> None:
    ((tp, m),) = _named(run, [p["move"]])
    after = tuple(p["after"])
    if m.phase is Phase.DONE:
        raise UsageError(f"{tp} has moved already.", next="`trimtab plan` makes another plan.")
    if len(set(after)) != len(after) or any(broker < 0 for broker in after):
        raise UsageError(f"{id_list(after)} names no replicas: each broker once, none below 0.")
    if len(after) != len(m.move.after):
        raise UsageError(
            f"{tp} is to have {len(m.move.after)} replicas, not {len(after)}.",
            next="A run in progress does not change how many: that takes a plan of its own.",
        )
    if after == m.move.after:
        raise UsageError(f"{tp} is on its way to {id_list(after)} already.")


def _check_rollback(run: RunState) -> None:
    if run.rollback_requested or run.rolling_back:
        raise UsageError(f"Run {run.run_id} is being rolled back already.")
    if all(m.phase is Phase.QUEUED for m in run.moves):
        raise UsageError(
            f"Run {run.run_id} has moved nothing yet: there is nothing to roll back.",
            next=f"`trimtab runs cancel {run.run_id}` ends it.",
        )


def _named(run: RunState, indices: Sequence[int]) -> list[tuple[TopicPartition, RunMove]]:
    if not indices:
        raise UsageError("Which partitions?", next="Name them like orders-3.")
    for index in indices:
        if not 0 <= index < len(run.moves):
            raise UsageError(f"Run {run.run_id} has no move {index}.")
    return [(run.moves[index].move.tp, run.moves[index]) for index in indices]


def _status(m: RunMove) -> str:
    return "in flight" if m.phase.in_flight else m.phase.value
