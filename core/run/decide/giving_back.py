"""Which throttles of a run nobody needs any more, and why one cannot be given back yet."""

from __future__ import annotations

from collections.abc import Iterator

from core.cluster.configs import Resource
from core.run.decide.keeping import under_way
from core.run.decide.steps import Observed, RemovePairs, RestoreRates
from core.run.limits.intents import copying_sides, sides
from core.run.limits.throttle import Side
from core.run.record.history import History, Phase


def give_back(history: History, observed: Observed) -> RemovePairs | RestoreRates | None:
    """Throttles stand that no move needs any more."""
    pairs = tuple(_idle_pairs(history, observed))
    if pairs:
        return RemovePairs(pairs)
    rates = tuple(
        key
        for key, holder in _idle_rates(history, observed).items()
        if not holder
        and (key[0] in observed.alive or history.rates[key].rate_bytes_per_s is None)
        and Resource.broker(key[0]) not in observed.left_alone
    )
    return RestoreRates(rates) if rates else None


def _idle_pairs(
    history: History, observed: Observed
) -> Iterator[tuple[str, Side, tuple[str, ...]]]:
    """Yield the pairs of partitions that are neither in flight nor about to be.

    One that somebody else moves on may need the same pairs: they stay until it is there.
    """
    busy = {(tp.topic, str(tp.partition)) for tp in observed.reassignments}
    busy |= {(m.move.tp.topic, str(m.move.tp.partition)) for m in under_way(history)}
    for (topic, side), intent in history.lists.items():
        idle = tuple(p for p in intent.pairs if (topic, p.split(":")[0]) not in busy)
        if idle and Resource.topic(topic) not in observed.left_alone:
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
        for key in sides(m.move)
    }
    ours = {history.moves[i].move.tp for i in history.in_flight}
    holders: dict[tuple[int, Side], str] = {}
    for tp, r in observed.reassignments.items():
        if tp in ours or tp in history.foreign_before:
            continue
        for key in copying_sides([b for b in r.replicas if b not in r.adding], r.adding):
            holders[key] = str(tp)
    return {key: holders.get(key, "") for key in history.rates if key not in busy}


def still_held(history: History, observed: Observed) -> Iterator[tuple[str, str, int | None]]:
    """Yield why a throttle cannot be given back yet, and the same for a run that leaves it.

    The third is the broker whose return is waited for, if it is that.
    """
    for why in (*observed.left_alone.values(), *observed.retention_left.values()):
        yield why, f"{why}; it is left", None
    for tp in observed.reassignments:
        ours = (i.pairs for (topic, _), i in history.lists.items() if topic == tp.topic)
        if any(pair.startswith(f"{tp.partition}:") for pairs in ours for pair in pairs):
            held = f"{tp}, not ours, still uses the throttle list of {tp.topic}"
            yield held, f"{held}, which is left", None
    for (broker, _), holder in _idle_rates(history, observed).items():
        if Resource.broker(broker) in observed.left_alone:
            continue
        if holder:
            held = f"{holder}, not ours, still uses the throttle of broker {broker}"
            yield held, f"{held}, which is left", None
        else:
            down = f"broker {broker} is down: its throttle is"
            yield f"{down} put back when it returns", f"{down} left", broker
