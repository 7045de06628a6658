"""Rules of `next_step` about throttles: what lacks, what drifted, what no move needs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from core.cluster.configs import ConfigSource, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.plan.plan import Move
from core.run import steps
from core.run.journal.held_throttles import Pair, PairState
from core.run.journal.move_state import MoveRequest, Phase, RunMove
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import (
    Key,
    ListIntent,
    ListKey,
    ListPairs,
    RateIntent,
    missing,
    own_list,
    own_rate,
)
from core.run.steps import Observation
from core.run.throttles import external_removal as guard
from core.run.throttles.adaptive_rate import next_rates
from core.run.throttles.changes import batch_lists, copying_sides, sides


def note_drift(run: RunState, observed: Observation) -> steps.NoteDrift | None:
    """Somebody else changed or deleted throttles of ours.

    A rate that is another one now is theirs, until it is ours again or another one is asked for.
    What is gone, or as it was found, is put back, as Kafka's own tool deletes every throttle in the
    cluster when it sees no move in flight (`--verify`), and operators put configs back as they were
    declared, in a rhythm of their own. So are entries that were there before us, without which our
    moves would not be limited. Each time, as long as a move needs it: that takes two calls.
    """
    rates = tuple(_lost_rates(run, observed))
    lists = tuple(_lost_pairs(run, observed))
    return steps.NoteDrift(rates, lists, observed.editor) if rates or lists else None


def _lost_rates(run: RunState, observed: Observation) -> Iterator[steps.LostRate]:
    for (broker, side), intent in run.throttles.rates.items():
        answer = observed.throttles.get(Resource.broker(broker))
        if answer is None or isinstance(answer, Fault) or (broker, side) in run.throttles.rates_due:
            continue
        if intent.rate_bytes_per_s is None:
            is_regained = intent.current(answer) is not intent
            lost = is_regained or is_freed(run, intent, answer)
        else:
            lost = own_rate(answer, side) != str(intent.rate_bytes_per_s)
        if lost:
            yield lost_rate(run, (broker, side), answer)


def is_freed(run: RunState, intent: RateIntent, answer: Mapping[str, ConfigValue]) -> bool:
    """Return whether a lower rate that was kept limits no longer as it did when it was found."""
    kept = intent.original_bytes_per_s
    requested = run.requested_rate(intent.key)
    if kept is None or kept > requested:
        return False
    config = answer.get(intent.side.rate_config, ConfigValue(None, ConfigSource.DEFAULT))
    now = replace(intent, prior=config.value or None).original_bytes_per_s
    return now is None or now > requested


def lost_rate(run: RunState, key: Key, answer: Mapping[str, ConfigValue]) -> steps.LostRate:
    """Return what holds now instead of a rate of ours, or of one that was kept, and whose it is."""
    broker, side = key
    intent = run.throttles.rates[key]
    kept, is_regained = intent.rate_bytes_per_s is None, intent.current(answer) is not intent
    config = answer.get(side.rate_config, ConfigValue(None, ConfigSource.DEFAULT))
    mend = not kept and (own_rate(answer, side) is None or intent.is_original(answer))
    value = config.value or None
    return steps.LostRate(
        broker,
        side,
        value,
        config.source,
        mend,
        freed=kept and not is_regained,
        is_regained=is_regained,
    )


def _lost_pairs(run: RunState, observed: Observation) -> Iterator[ListIntent]:
    for key, required in required_lists(run).items():
        answer = observed.throttles.get(Resource.topic(key[0]))
        if answer is None or isinstance(answer, Fault) or key in run.throttles.lists_due:
            continue
        value = own_list(answer, key[1])
        gone = tuple(p for p in missing(required, value) if (*key, p) not in run.throttles.away)
        if gone:
            yield ListIntent(*key, value, gone)


def required_lists(run: RunState) -> dict[ListKey, frozenset[str]]:
    """Return the entries that moves need which are limited, whoever has set these entries."""
    return batch_lists(m.move for m in moves_under_way(run) if m.limited)


def moves_under_way(run: RunState) -> Iterator[RunMove]:
    """Yield the moves that are in flight, or about to be: their throttles are being set."""
    for m in run.moves:
        begins = m.limited and not run.stopped
        if m.phase.in_flight or (m.phase is Phase.QUEUED and begins):
            yield m


def set_missing_throttles(run: RunState, observed: Observation) -> steps.ThrottleSetup | None:
    """Moves in flight lack a limit: brokers were down, or the run had none until now.

    What is refused rests for a while, so that it holds nothing else up.
    """
    in_flight = [run.moves[i] for i in run.in_flight]
    in_flight = [m for m in in_flight if m.batch not in observed.backing_off]
    for m in in_flight:
        if not (run.limit_late and m.move.receiving and m.request is MoveRequest.CONTINUE):
            continue
        throttle = run.throttles.batches.get(m.batch)
        if throttle is not None and not throttle.set:
            return steps.SetThrottles(m.batch)
        if not m.limited:
            batch = ((i, run.moves[i]) for i in run.batch(m.batch))
            bare = (i for i, m in batch if m.phase.in_flight and m.move.receiving and not m.limited)
            return steps.IntendThrottles(m.batch, tuple(bare))
    for m in in_flight:
        step = set_missing_rates(run, observed, m.batch, (m.move,)) if m.limited else None
        if step is not None:
            return step
    return None


def set_missing_rates(
    run: RunState, observed: Observation, batch: int, moves: Iterable[Move]
) -> steps.SetRates | steps.IntendRates | None:
    """Return what sets the rates that moves lack: brokers are back, or a kept rate was freed."""
    needed = dict.fromkeys(key for move in moves for key in sides(move) if key[0] in observed.alive)
    due = tuple(key for key in needed if key in run.throttles.rates_due)
    if due:
        return steps.SetRates(batch, due)
    brokers = dict.fromkeys(key[0] for key in needed if key not in run.throttles.rates)
    return steps.IntendRates(batch, tuple(brokers)) if brokers else None


def change_rates(run: RunState, observed: Observation) -> steps.ChangeRates | None:
    """Rates are not what is wanted now: another was asked for, a pause, an adaptive one.

    One that is not in force yet is not raised further; nothing waits for it that is to be lower.
    """
    if not (run.in_flight or run.queued):
        return None
    step = guard.hold_back(run, observed)
    if step is not None:
        return step
    held = {
        key: replace(rate, max_bytes_per_s=run.max_rate_of(key))
        for key, rate in run.rate_control.rates.items()
        if key[0] in observed.alive and key not in run.held_back
    }
    rate_control = replace(
        run.rate_control, rates=held, per_side_rates=_current_per_side_rates(run, observed)
    )
    change = next_rates(rate_control, observed.sides, observed.now)
    if change is None:
        return None
    rates = tuple(
        (key, rate)
        for key, rate in change.rates.items()
        if key not in run.throttles.rates_due or rate < held[key].rate_bytes_per_s
    )
    return steps.ChangeRates(rates, change.why) if rates else None


def _current_per_side_rates(run: RunState, observed: Observation) -> Mapping[Key, int]:
    """Return the lower rates, but of brokers that send what another one sent when it began.

    Less would do for what they led; of what a leader that died has left them it is not known.
    """
    more = {
        (row.leader, Side.LEADER)
        for m in (run.moves[index] for index in run.in_flight)
        if m.move.moves_data
        and (row := observed.rows.get(m.move.tp)) is not None
        and row.leader != m.leader
        and observed.is_settled(m.move.tp)
    }
    return {key: rate for key, rate in run.rate_control.per_side_rates.items() if key not in more}


def adjust_pairs(
    run: RunState, observed: Observation
) -> steps.SuspendPairs | steps.ReinstatePairs | None:
    """A follower that fell out of step may not come back while its leader's own pair is listed.

    The pair goes out of the leader list until the ISR is whole; the follower side still limits
    the copy. Pairs that somebody deleted are put back. What is refused rests for a while.
    """
    to_suspend = dict(_pairs_to_suspend(run, observed))
    taking = [
        pair
        for pair in to_suspend
        if run.throttles.away.get(pair, PairState.TAKING) is PairState.TAKING
        and not _rests(observed, pair)
    ]
    if taking:
        return steps.SuspendPairs(_group_by_list(taking), to_suspend[taking[0]])
    back = [
        pair
        for pair in run.throttles.away
        if pair not in to_suspend and _goes_on(run, pair) and not _rests(observed, pair)
    ]
    return steps.ReinstatePairs(_group_by_list(back)) if back else None


def _rests(observed: Observation, pair: Pair) -> bool:
    return Resource.topic(pair[0]) in observed.left_alone


def _pairs_to_suspend(run: RunState, observed: Observation) -> Iterator[tuple[Pair, str]]:
    for index in run.in_flight:
        tp = run.moves[index].move.tp
        row, listed = observed.rows.get(tp), observed.reassignments.get(tp)
        if row is None or listed is None:
            continue
        pair = f"{tp.partition}:{row.leader}"
        intent = run.throttles.lists.get((tp.topic, Side.LEADER))
        # Neither new nor in sync: the leader's limit would hold them back as copies.
        late = (b for b in row.replicas if b not in listed.adding and b not in row.isr)
        sick = [b for b in late if b in observed.alive]
        if sick and intent is not None and pair in intent.pairs:
            why = f"broker {sick[0]} is out of {tp}'s ISR: its leader's limit is off meanwhile"
            yield (tp.topic, Side.LEADER, pair), why


def _goes_on(run: RunState, pair: Pair) -> bool:
    topic, _, entry = pair
    return any(
        m.move.tp.topic == topic and entry.startswith(f"{m.move.tp.partition}:")
        for m in run.moves
        if not m.phase.ended
    )


def _group_by_list(pairs: Iterable[Pair]) -> tuple[ListPairs, ...]:
    lists: defaultdict[ListKey, list[str]] = defaultdict(list)
    for topic, side, pair in pairs:
        lists[topic, side].append(pair)
    return tuple((topic, side, tuple(of)) for (topic, side), of in lists.items())


def release_throttles(
    run: RunState, observed: Observation
) -> steps.RemovePairs | steps.RestoreRates | None:
    """Throttles stand that no move needs any more."""
    pairs = tuple(_idle_pairs(run, observed))
    if pairs:
        return steps.RemovePairs(pairs)
    rates = tuple(
        key
        for key, holder in _idle_rates(run, observed).items()
        if not holder
        and (key[0] in observed.alive or run.throttles.rates[key].rate_bytes_per_s is None)
        and Resource.broker(key[0]) not in observed.left_alone
    )
    return steps.RestoreRates(rates) if rates else None


def _idle_pairs(run: RunState, observed: Observation) -> Iterator[ListPairs]:
    """Yield the pairs of partitions that are neither in flight nor about to be.

    One that somebody else moves on may need the same pairs: they stay until it is there.
    """
    busy = {(tp.topic, str(tp.partition)) for tp in observed.reassignments}
    busy |= {(m.move.tp.topic, str(m.move.tp.partition)) for m in moves_under_way(run)}
    for (topic, side), intent in run.throttles.lists.items():
        idle = tuple(p for p in intent.pairs if (topic, p.split(":")[0]) not in busy)
        if idle and Resource.topic(topic) not in observed.left_alone:
            yield topic, side, idle


def _idle_rates(run: RunState, observed: Observation) -> dict[Key, str]:
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
    holders: dict[Key, str] = {}
    for tp, r in observed.reassignments.items():
        if tp in ours or tp in run.foreign_before:
            continue
        for key in copying_sides([b for b in r.replicas if b not in r.adding], r.adding):
            holders[key] = str(tp)
    return {key: holders.get(key, "") for key in run.throttles.rates if key not in busy}


def still_held(run: RunState, observed: Observation) -> Iterator[tuple[str, str, int | None]]:
    """Yield why a throttle cannot be given back yet, and the same for a run that leaves it.

    The third is the broker whose return is waited for, if it is that.
    """
    for why in (*observed.left_alone.values(), *observed.retention_left.values()):
        yield why, f"{why}; it is left", None
    for tp in observed.reassignments:
        ours = (i.pairs for (topic, _), i in run.throttles.lists.items() if topic == tp.topic)
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
