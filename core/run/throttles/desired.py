"""The throttles that a run wants set, and whether they are in force. Pure.

Nothing of somebody else's is ever overwritten: lists are appended to, `*` is left alone, and a
lower foreign rate is kept (KIP-73, KIP-339).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from core.cluster.configs import ConfigChange, ConfigOp, ConfigSource, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.plan.plan import Move
from core.plan.throttle_lists import ALL, batch_lists, entries, joined, missing
from core.run.journal.throttle_values import (
    Configs,
    ListIntent,
    ListKey,
    RateIntent,
    Side,
    as_rate,
    is_as_left,
    list_now,
    own_list,
)


def resources(moves: Iterable[Move], alive: Collection[int]) -> tuple[list[Resource], set[int]]:
    """Return the topics and alive brokers whose configs the throttles of `moves` touch."""
    moves = list(moves)
    copying = [move for move in moves if move.moves_data]
    brokers = {b for move in copying for b in (*move.before, *move.after)}
    brokers |= {b for move in moves for b in move.target_log_dirs}
    brokers &= set(alive)
    topics = sorted({move.tp.topic for move in copying})
    return [Resource.topic(topic) for topic in topics], brokers


def sides(move: Move) -> Iterator[tuple[int, Side]]:
    """Yield the brokers and sides that a move needs a rate on."""
    yield from copying_sides(move.before, move.adding)
    for broker in move.target_log_dirs:
        yield broker, Side.LOG_DIRS


def copying_sides(held: Iterable[int], adding: Collection[int]) -> Iterator[tuple[int, Side]]:
    """Yield the brokers and sides between which replicas on `adding` are copied."""
    if adding:
        for broker in (*held, *adding):
            yield broker, Side.LEADER
        for broker in adding:
            yield broker, Side.FOLLOWER


def intend_lists(
    moves: Iterable[Move],
    found: Configs,
    ours: Mapping[ListKey, ListIntent],
    held: Mapping[ListKey, frozenset[str]],
    left: Mapping[ListKey, str | None],
) -> tuple[ListIntent, ...]:
    """Return what to append to the topic lists; pairs that are there already are not ours.

    `ours` are the pairs of batches before this one: still in a list, and ours all the same.
    `held` is what the controller says that is in each list: `found` may be older.
    `left` is how batches before this one left the lists that they gave back.
    A topic that is gone, or that has `*`, is left out.
    """
    wanted = batch_lists(moves)
    intents = []
    for side, lists in ((Side.LEADER, wanted.leader), (Side.FOLLOWER, wanted.follower)):
        for topic in sorted(lists):
            answer = found.get(Resource.topic(topic))
            if answer is None or isinstance(answer, Fault):
                continue
            key, shown = (topic, side), own_list(answer, side)
            there = held.get(key)
            if there is None:
                continue
            may_be_late = key in left and is_as_left(left[key], shown, there)
            prior = left[key] if may_be_late else list_now(shown, there)
            known = ours.get(key)
            mine = known.pairs if known else ()
            foreign = ALL if ALL in there else joined(there - set(mine))
            pairs = missing(lists[topic], foreign)
            if pairs:
                intents.append(ListIntent(topic, side, prior, pairs))
    return tuple(intents)


def intend_rates(
    moves: Iterable[Move],
    rate_bytes_per_s: int,
    found: Configs,
    ours: Collection[tuple[int, Side]],
    *,
    max_bytes_per_s: int | None = None,
    per_side_rates: Mapping[tuple[int, Side], int] | None = None,
    override: bool = False,
) -> tuple[RateIntent, ...]:
    """Return the rates to set: leader side wherever a replica may lead, follower side on arrivals.

    Log dirs wherever a replica is to lie in a certain one: it may come to lie in another first.

    The sides in `apart` get a rate of their own. A lower rate of somebody else's is kept unless
    `override`, also one between ours and the most that ours may become; rates in `ours` stand
    already.
    Brokers that `found` does not hold (they are down) are left out.
    """
    most = rate_bytes_per_s if max_bytes_per_s is None else max_bytes_per_s
    per_side_rates = per_side_rates or {}
    involved = {side for move in moves for side in sides(move)}
    intents = []
    for broker, side in sorted(involved, key=lambda pair: (pair[0], pair[1].value)):
        answer = found.get(Resource.broker(broker))
        if (broker, side) in ours or answer is None or isinstance(answer, Fault):
            continue
        value = answer.get(side.rate_config, ConfigValue(None, ConfigSource.DEFAULT))
        prior = value.value or None
        number = as_rate(prior)
        rate, limit = (
            per_side_rates.get((broker, side), rate_bytes_per_s),
            per_side_rates.get((broker, side), most),
        )
        kept = number is not None and number <= limit and not override
        intents.append(RateIntent(broker, side, prior, value.source, None if kept else rate))
    return tuple(intents)


def list_changes(intents: Iterable[ListIntent]) -> list[ConfigChange]:
    return [
        ConfigChange(Resource.topic(i.topic), i.side.list_config, ConfigOp.APPEND, joined(i.pairs))
        for i in intents
        if i.pairs
    ]


def rate_changes(intents: Iterable[RateIntent]) -> list[ConfigChange]:
    return [
        ConfigChange(
            Resource.broker(i.broker),
            i.side.rate_config,
            ConfigOp.SET,
            str(i.rate_bytes_per_s),
        )
        for i in intents
        if i.rate_bytes_per_s is not None
    ]


def not_in_force(
    lists: Iterable[ListIntent], rates: Iterable[RateIntent], found: Configs
) -> tuple[str, ...]:
    """Return in words what is not as intended yet; empty when all of it is in force."""
    off = []
    for i in lists:
        answer = found.get(Resource.topic(i.topic), {})
        there = frozenset[str]() if isinstance(answer, Fault) else entries(own_list(answer, i.side))
        if ALL not in there and not set(i.pairs) <= there:
            off.append(f"the {i.side.value} list of {i.topic}")
    for r in rates:
        if r.rate_bytes_per_s is None:
            continue
        answer = found.get(Resource.broker(r.broker), {})
        value = None if isinstance(answer, Fault) else answer.get(r.side.rate_config)
        if value is None or value.value != str(r.rate_bytes_per_s):
            off.append(f"the {r.side.value} rate of broker {r.broker}")
    return tuple(off)
