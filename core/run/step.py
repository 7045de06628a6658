"""What a run does next: `next_step(history, observed)`, a pure function, and the steps it chooses.

The journal's fold and what the cluster shows decide everything, so a run that crashed goes on
where the two say it is. Nothing here talks to a cluster (docs/runs.md tells the order and why).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core.cluster.state import PartitionRow, Reassignment, TopicPartition
from core.run.history import History, MoveHistory, Outcome, Phase
from core.run.throttle import Side
from core.units import UNLIMITED

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
    """For how long each of the plan's partitions has looked exactly like this."""


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
    | Submit
    | NoteEnded
    | RemovePairs
    | RestoreRates
    | Cancel
    | Reorder
    | Poll
    | End
)


def next_step(history: History, observed: Observed) -> Step:
    """Return what to do now. Clean up first, then go on; a request to cancel goes before both."""
    if not history.preflight and not history.stopped and not history.cancel_requested:
        return Preflight()
    endings = tuple(_endings(history, observed))
    if endings:
        changed = [e for e in endings if e.phase is Phase.FAILED and e.why in _STOPPING]
        stop = f"{history.moves[changed[0].index].move.tp} {changed[0].why}" if changed else ""
        return NoteEnded(endings, stop)
    cancel = _cancel(history, observed)
    if isinstance(cancel, Cancel | Reorder):
        return cancel
    return (
        _give_back(history, observed)
        or cancel
        or _go_on(history, observed)
        or _finish(history, observed)
    )


# -- how a move ended -----------------------------------------------------------------------------

CANCELLED_ELSEWHERE = "was cancelled by somebody else"
CHANGED_ELSEWHERE = "was changed by somebody else"
GONE = "its topic was deleted"
_STOPPING = (CANCELLED_ELSEWHERE, CHANGED_ELSEWHERE)


def _endings(history: History, observed: Observed) -> Iterator[Ending]:
    for index, m in enumerate(history.moves):
        if m.phase.in_flight:
            ending = _ending(history, observed, index, m)
            if ending is not None:
                yield ending
        elif m.phase is Phase.QUEUED:
            if history.cancel_requested:
                yield Ending(index, Phase.CANCELLED, "not started")
            elif history.stopped:
                yield Ending(index, Phase.CANCELLED, f"not started: {history.stopped}")


def _ending(history: History, observed: Observed, index: int, m: MoveHistory) -> Ending | None:
    """Return how a submitted move ended, or None while it goes on or cannot be told yet."""
    tp, move = m.move.tp, m.move
    steady = observed.steady_seconds.get(tp, 0.0) >= SETTLE_SECONDS
    listed, row = observed.reassignments.get(tp), observed.rows.get(tp)
    if listed is not None:
        ours = listed.target in (move.after, move.before)
        return Ending(index, Phase.FAILED, CHANGED_ELSEWHERE) if steady and not ours else None
    if row is None:
        return Ending(index, Phase.CANCELLED, GONE) if steady else None
    if row.replicas == move.after:
        late = [b for b in move.after if b not in row.isr]
        if late and history.cancel_requested and steady:
            why = f"done, but broker {late[0]} is not in its ISR"
            return Ending(index, Phase.DONE, why, row.leader)
        return None if late else Ending(index, Phase.DONE, leader=row.leader)
    if row.replicas == move.before:
        if history.cancel_requested and (m.cancel_sent or steady):
            return Ending(index, Phase.CANCELLED, "cancelled, order as before", row.leader)
        if steady and m.phase is Phase.SUBMITTED and not history.cancel_requested:
            return Ending(index, Phase.FAILED, CANCELLED_ELSEWHERE, row.leader)
        return None
    if history.cancel_requested and set(row.replicas) == set(move.before):
        return None  # cancelled; its order is still to be put back
    return Ending(index, Phase.FAILED, CHANGED_ELSEWHERE, row.leader) if steady else None


# -- giving throttles back ------------------------------------------------------------------------


def _give_back(history: History, observed: Observed) -> Step | None:
    pairs = tuple(_idle_pairs(history, observed))
    if pairs:
        return RemovePairs(pairs)
    rates = tuple(
        key
        for key, holder in _idle_rates(history, observed).items()
        if not holder and (key[0] in observed.alive or history.rates[key].rate_bytes_per_s is None)
    )
    return RestoreRates(rates) if rates else None


def _idle_pairs(
    history: History, observed: Observed
) -> Iterator[tuple[str, Side, tuple[str, ...]]]:
    """Yield the pairs of partitions that are neither in flight nor about to be.

    One that somebody else moves on may need the same pairs: they stay until it is there.
    """
    busy = {(tp.topic, str(tp.partition)) for tp in observed.reassignments}
    busy |= {
        (m.move.tp.topic, str(m.move.tp.partition))
        for m in history.moves
        if m.phase.in_flight
        or (m.phase is Phase.QUEUED and m.batch in history.throttles and not history.stopped)
    }
    for (topic, side), intent in history.lists.items():
        idle = tuple(p for p in intent.pairs if (topic, p.split(":")[0]) not in busy)
        if idle:
            yield topic, side, idle


def _idle_rates(history: History, observed: Observed) -> dict[tuple[int, Side], str]:
    """Return the rates that no move of ours needs, with what else still holds them ("" nothing).

    Queued moves need theirs: a rate goes as a broker's last involvement ends. Moves of others
    that began after we set a rate would run unthrottled without it.
    """
    busy = {
        key
        for m in history.moves
        if m.phase.in_flight or (m.phase is Phase.QUEUED and not history.stopped)
        for key in _involved(m.move.before, m.move.adding)
    }
    ours = {history.moves[i].move.tp for i in history.in_flight}
    holders: dict[tuple[int, Side], str] = {}
    for tp, r in observed.reassignments.items():
        if tp in ours or tp in history.foreign_before:
            continue
        for key in _involved(tuple(b for b in r.replicas if b not in r.adding), r.adding):
            holders[key] = str(tp)
    return {key: holders.get(key, "") for key in history.rates if key not in busy}


def _involved(held: tuple[int, ...], adding: tuple[int, ...]) -> Iterator[tuple[int, Side]]:
    if adding:
        for broker in (*held, *adding):
            yield broker, Side.LEADER
        for broker in adding:
            yield broker, Side.FOLLOWER


# -- cancelling -----------------------------------------------------------------------------------


def _cancel(history: History, observed: Observed) -> Step | None:
    if not history.cancel_requested:
        return None
    cancel: list[int] = []
    reorder: list[int] = []
    unclean: list[int] = []
    for index in history.in_flight:
        m = history.moves[index]
        listed, row = observed.reassignments.get(m.move.tp), observed.rows.get(m.move.tp)
        again = observed.steady_seconds.get(m.move.tp, 0.0) >= SETTLE_SECONDS
        if listed is not None and listed.target == m.move.after:
            if not m.cancel_sent or again:
                (cancel if _clean(history, m, row) else unclean).append(index)
        elif listed is None and row is not None and _needs_order(m, row):
            reorder.append(index)
    if cancel:
        return Cancel(tuple(cancel))
    if reorder:
        return Reorder(tuple(reorder))
    if unclean:
        first = history.moves[unclean[0]].move.tp
        return Poll(
            f"{first} cannot be cancelled: too few of its first replicas are in sync; it goes on"
        )
    return Poll(_waits_for(history, observed, history.in_flight)) if history.in_flight else None


def _needs_order(m: MoveHistory, row: PartitionRow) -> bool:
    same = set(row.replicas) == set(m.move.before)
    return same and row.replicas not in (m.move.before, m.move.after)


def _clean(history: History, m: MoveHistory, row: PartitionRow | None) -> bool:
    """Return whether a cancelled partition would keep enough replicas in sync."""
    if row is None:
        return False
    reverted = [b for b in row.isr if b in m.move.before]
    least = min(history.min_insync.get(m.move.tp.topic, 1), len(m.move.before))
    return len(reverted) >= max(1, least)


# -- going on -------------------------------------------------------------------------------------


def _go_on(history: History, observed: Observed) -> Step | None:
    flying = history.in_flight
    again = [i for i in flying if _never_arrived(history.moves[i], observed)]
    if again:
        return Submit(tuple(again))
    if flying:
        return Poll(_waits_for(history, observed, flying))
    queued = history.queued
    if not queued:
        return None
    reason = _not_now(history, observed, queued)
    if reason:
        return Poll(reason)
    spoiled = tuple(_spoiled(history, observed, queued))
    if spoiled:
        return NoteEnded(spoiled)
    batch = history.moves[queued[0]].batch
    moves = tuple(i for i in history.batch(batch) if history.moves[i].phase is Phase.QUEUED)
    throttle = history.throttles.get(batch)
    if throttle is None:
        copying = any(history.moves[i].move.moves_data for i in moves)
        if history.rate_bytes_per_s == UNLIMITED or not copying:
            return Submit(moves)
        return IntendThrottles(batch)
    return Submit(moves) if throttle.set else SetThrottles(batch)


def _spoiled(history: History, observed: Observed, queued: list[int]) -> Iterator[Ending]:
    """Yield queued moves that must not be submitted: never override a move in flight."""
    for index in queued:
        m = history.moves[index]
        if m.batch != history.moves[queued[0]].batch:
            return
        row = observed.rows.get(m.move.tp)
        if row is None:
            yield Ending(index, Phase.CANCELLED, GONE)
        elif m.move.tp in observed.reassignments:
            yield Ending(index, Phase.FAILED, "is being moved by somebody else", row.leader)
        elif row.replicas not in (m.move.before, m.move.after):
            yield Ending(index, Phase.FAILED, "has other replicas than planned from", row.leader)


def _never_arrived(m: MoveHistory, observed: Observed) -> bool:
    """Return whether a submission without an answer has left no trace: the same is safe again."""
    row, tp = observed.rows.get(m.move.tp), m.move.tp
    return (
        m.phase is Phase.SUBMITTING
        and tp not in observed.reassignments
        and row is not None
        and row.replicas == m.move.before
        and observed.steady_seconds.get(tp, 0.0) >= 1.0
    )


def _waits_for(history: History, observed: Observed, flying: list[int]) -> str:
    for index in flying:
        move = history.moves[index].move
        down = [b for b in move.adding if b not in observed.alive]
        if down:
            return f"broker {down[0]} is down: {move.tp} waits for it"
        row = observed.rows.get(move.tp)
        if row is None or row.leader < 0:
            return f"{move.tp} has no leader"
        if move.tp not in observed.reassignments and row.replicas == move.after:
            late = [b for b in move.after if b not in row.isr]
            if late:
                return f"{move.tp} has moved, but broker {late[0]} is not in its ISR"
    return ""


def _not_now(history: History, observed: Observed, queued: list[int]) -> str:
    """Return why no new batch should start now, or ""."""
    for index in queued:
        down = [b for b in history.moves[index].move.adding if b not in observed.alive]
        if down:
            return f"broker {down[0]} is down: no further batch starts"
    for tp, row in observed.rows.items():
        least = history.min_insync.get(tp.topic, 1)
        if len(row.isr) < min(least, len(row.replicas)):
            return f"{tp} has fewer than {least} replicas in sync: no further batch starts"
    return ""


# -- the end --------------------------------------------------------------------------------------


def _finish(history: History, observed: Observed) -> Step:
    for reason, left in _held(history, observed):
        if history.leave_requested:
            return End(Outcome.INCOMPLETE, left)
        return Poll(f"{reason} (a cancel leaves it)")
    phases = [m.phase for m in history.moves]
    gone = [m for m in history.moves if m.phase is Phase.CANCELLED and m.why == GONE]
    done = phases.count(Phase.DONE)
    late = any(m.why for m in history.moves if m.phase is Phase.DONE)
    if done + len(gone) == len(phases) and not late:
        return End(Outcome.DONE)
    if history.cancel_requested:
        return End(Outcome.CANCELLED)
    failed = [m for m in history.moves if m.phase is Phase.FAILED]
    why = history.stopped or (f"{failed[0].move.tp}: {failed[0].why}" if failed else "")
    return End(Outcome.INCOMPLETE if done else Outcome.FAILED, why)


def _held(history: History, observed: Observed) -> Iterator[tuple[str, str]]:
    """Yield why a throttle cannot be given back yet, and the same for a run that leaves it."""
    for tp in observed.reassignments:
        ours = (i.pairs for (topic, _), i in history.lists.items() if topic == tp.topic)
        if any(pair.startswith(f"{tp.partition}:") for pairs in ours for pair in pairs):
            held = f"{tp}, not ours, still uses the throttle list of {tp.topic}"
            yield held, f"{held}, which is left"
    for (broker, _), holder in _idle_rates(history, observed).items():
        if holder:
            held = f"{holder}, not ours, still uses the throttle of broker {broker}"
            yield held, f"{held}, which is left"
        else:
            down = f"broker {broker} is down: its throttle is"
            yield f"{down} put back when it returns", f"{down} left"
