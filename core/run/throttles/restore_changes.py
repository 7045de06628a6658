"""Throttles that no move needs any more, and the changes that restore each exactly. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka_errors import Fault
from core.plan.throttle_lists import ALL, entries, joined
from core.run.journal.move_state import Phase
from core.run.journal.replay import RunState
from core.run.journal.throttle_values import (
    LISTS,
    Configs,
    ListIntent,
    RateIntent,
    Side,
    as_it_stands,
    is_as_found,
    is_ours,
    own_value,
)
from core.run.steps import Observation, RemovePairs, RestoreRates
from core.run.throttles.desired import copying_sides, sides
from core.run.throttles.drift import moves_under_way


def release_throttles(run: RunState, observed: Observation) -> RemovePairs | RestoreRates | None:
    """Throttles stand that no move needs any more."""
    pairs = tuple(_idle_pairs(run, observed))
    if pairs:
        return RemovePairs(pairs)
    rates = tuple(
        key
        for key, holder in _idle_rates(run, observed).items()
        if not holder
        and (key[0] in observed.alive or run.rates[key].rate_bytes_per_s is None)
        and Resource.broker(key[0]) not in observed.left_alone
    )
    return RestoreRates(rates) if rates else None


def _idle_pairs(
    run: RunState, observed: Observation
) -> Iterator[tuple[str, Side, tuple[str, ...]]]:
    """Yield the pairs of partitions that are neither in flight nor about to be.

    One that somebody else moves on may need the same pairs: they stay until it is there.
    """
    busy = {(tp.topic, str(tp.partition)) for tp in observed.reassignments}
    busy |= {(m.move.tp.topic, str(m.move.tp.partition)) for m in moves_under_way(run)}
    for (topic, side), intent in run.lists.items():
        idle = tuple(p for p in intent.pairs if (topic, p.split(":")[0]) not in busy)
        if idle and Resource.topic(topic) not in observed.left_alone:
            yield topic, side, idle


def _idle_rates(run: RunState, observed: Observation) -> dict[tuple[int, Side], str]:
    """Return the rates that no move of ours needs, with what else still holds them ("" nothing).

    Queued moves need theirs: a rate goes as a broker's last involvement ends. Moves of others
    that began after we set a rate would run unthrottled without it.
    """
    busy = {
        key
        for m in run.moves
        if m.phase.in_flight or (m.phase is Phase.QUEUED and not run.stopped)
        for key in sides(m.move)
    }
    ours = {run.moves[i].move.tp for i in run.in_flight}
    holders: dict[tuple[int, Side], str] = {}
    for tp, r in observed.reassignments.items():
        if tp in ours or tp in run.foreign_before:
            continue
        for key in copying_sides([b for b in r.replicas if b not in r.adding], r.adding):
            holders[key] = str(tp)
    return {key: holders.get(key, "") for key in run.rates if key not in busy}


def still_held(run: RunState, observed: Observation) -> Iterator[tuple[str, str, int | None]]:
    """Yield why a throttle cannot be given back yet, and the same for a run that leaves it.

    The third is the broker whose return is waited for, if it is that.
    """
    for why in (*observed.left_alone.values(), *observed.retention_left.values()):
        yield why, f"{why}; it is left", None
    for tp in observed.reassignments:
        ours = (i.pairs for (topic, _), i in run.lists.items() if topic == tp.topic)
        if any(pair.startswith(f"{tp.partition}:") for pairs in ours for pair in pairs):
            held = f"{tp}, not ours, still uses the throttle list of {tp.topic}"
            yield held, f"{held}, which is left", None
    for (broker, _), holder in _idle_rates(run, observed).items():
        if Resource.broker(broker) in observed.left_alone:
            continue
        if holder:
            held = f"{holder}, not ours, still uses the throttle of broker {broker}"
            yield held, f"{held}, which is left", None
        else:
            down = f"broker {broker} is down: its throttle is"
            yield f"{down} put back when it returns", f"{down} left", broker


READ_BACK_SECONDS = 10.0
"""How long brokers are given to show what has been changed."""


def subtract_changes(
    intent: ListIntent, pairs: Collection[str], there: frozenset[str], *, unverified: bool = False
) -> list[ConfigChange]:
    """Return what takes our `pairs` out of a list that holds `there`.

    Nothing when they are gone, as a SUBTRACT would make a list that is unset an empty one.
    `unseen` takes them out although they are not there: they may be on their way.
    """
    ours = set(pairs) if unverified else there & set(pairs)
    if not ours or ALL in there:
        return []
    resource, name = Resource.topic(intent.topic), intent.side.list_config
    return [ConfigChange(resource, name, ConfigOp.SUBTRACT, joined(ours))]


def delete_changes(intent: ListIntent, there: frozenset[str]) -> list[ConfigChange]:
    """Return what unsets a list that holds nothing any more and was not set to nothing before us.

    SUBTRACT of the last pair leaves a list set to nothing. Entries that were there before us and
    are gone somebody has taken out meanwhile, another run perhaps. `there` must be what the
    controller holds at this moment: a DELETE takes whatever has come meanwhile along, and Kafka
    has no conditional one.
    """
    if intent.prior == "" or there:
        return []
    return [ConfigChange(Resource.topic(intent.topic), intent.side.list_config, ConfigOp.DELETE)]


def restore_changes(
    intent: RateIntent, found: Configs, *, unverified: bool = False
) -> list[ConfigChange]:
    """Return what puts a rate back: SET what somebody had set on the broker, else DELETE.

    Nothing when we had kept theirs, or when somebody has changed the rate since we set it.
    `unseen` puts it back although ours does not show.
    """
    answer = found.get(Resource.broker(intent.broker))
    if answer is None or isinstance(answer, Fault):
        return []
    intent = as_it_stands(intent, answer)
    if intent.rate_bytes_per_s is None:
        return []
    if not is_ours(intent, answer) and not (unverified and is_as_found(intent, answer)):
        return []
    resource, name = Resource.broker(intent.broker), intent.side.rate_config
    if intent.dynamic:
        return [ConfigChange(resource, name, ConfigOp.SET, intent.prior)]
    return [ConfigChange(resource, name, ConfigOp.DELETE)]


def missing_changes(changes: Iterable[ConfigChange], found: Configs) -> tuple[ConfigChange, ...]:
    """Return those putting-back changes that `found` does not show yet (brokers lag a little)."""

    def shows(change: ConfigChange) -> bool:
        answer = found.get(change.resource, {})
        if isinstance(answer, Fault):
            return True
        value = answer.get(change.name)
        own = own_value(value, change.resource.kind)
        match change.op:
            case ConfigOp.DELETE if change.name in LISTS:
                return own is None or bool(entries(own))  # somebody else's, come since
            case ConfigOp.DELETE:
                return own is None
            case ConfigOp.SUBTRACT:
                return not entries(own) & entries(change.value)
            case _:
                return own == change.value

    return tuple(change for change in changes if not shows(change))
