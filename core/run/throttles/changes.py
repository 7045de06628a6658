"""Config changes that set a run's throttles, and those that restore each exactly. Pure.

Nothing of somebody else's is ever overwritten: lists are appended to, `*` is left alone, and a
lower foreign rate is kept (KIP-73, KIP-339).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from core.cluster.configs import ConfigChange, ConfigOp, ConfigSource, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.plan.plan import Move
from core.run.journal.throttle_values import (
    ALL,
    LISTS,
    Configs,
    Key,
    ListIntent,
    ListKey,
    RateIntent,
    as_rate,
    by_broker,
    entries,
    is_as_left,
    joined,
    list_now,
    missing,
    own_list,
    own_value,
)


def limited(moves: Collection[Move], alive: Collection[int]) -> tuple[set[str], set[int]]:
    """Return the topics and alive brokers that the throttles of `moves` are set on."""
    copying = [move for move in moves if move.moves_data]
    brokers = {b for move in copying for b in (*move.before, *move.after)}
    brokers |= {b for move in moves for b in move.target_log_dirs}
    return {move.tp.topic for move in copying}, brokers.intersection(alive)


def sides(move: Move) -> Iterator[Key]:
    """Yield the brokers and sides that a move needs a rate on."""
    yield from copying_sides(move.before, move.adding)
    for broker in move.target_log_dirs:
        yield broker, Side.LOG_DIRS


def copying_sides(held: Iterable[int], adding: Collection[int]) -> Iterator[Key]:
    """Yield the brokers and sides between which replicas on `adding` are copied."""
    if adding:
        for broker in (*held, *adding):
            yield broker, Side.LEADER
        for broker in adding:
            yield broker, Side.FOLLOWER


def intend_lists(
    moves: Iterable[Move],
    configs: Configs,
    ours: Mapping[ListKey, ListIntent],
    held: Mapping[ListKey, frozenset[str]],
    left: Mapping[ListKey, str | None],
) -> tuple[ListIntent, ...]:
    """Return what to append to the topic lists; pairs that are there already are not ours.

    `ours` are the pairs of batches before this one: still in a list, and ours all the same.
    `held` is what the controller says that is in each list: `configs` may be older.
    `left` is how batches before this one left the lists that they gave back.
    A topic that is gone, or that has `*`, is left out.
    """
    required = batch_lists(moves)
    intents = []
    for key in sorted(required, key=lambda key: (key[1] is Side.FOLLOWER, key[0])):
        topic, side = key
        answer, there = configs.get(Resource.topic(topic)), held.get(key)
        if answer is None or isinstance(answer, Fault) or there is None:
            continue
        shown = own_list(answer, side)
        may_be_late = key in left and is_as_left(left[key], shown, there)
        prior = left[key] if may_be_late else list_now(shown, there)
        known = ours.get(key)
        mine = known.pairs if known else ()
        foreign = ALL if ALL in there else joined(there - set(mine))
        pairs = missing(required[key], foreign)
        if pairs:
            intents.append(ListIntent(topic, side, prior, pairs))
    return tuple(intents)


def intend_rates(
    moves: Iterable[Move],
    rate_bytes_per_s: int,
    configs: Configs,
    ours: Collection[Key],
    *,
    max_bytes_per_s: int | None = None,
    per_side_rates: Mapping[Key, int] | None = None,
    override: bool = False,
) -> tuple[RateIntent, ...]:
    """Return the rates to set: leader side wherever a replica may lead, follower side on arrivals.

    Log dirs wherever a replica is to lie in a certain one: it may come to lie in another first.

    Those in `per_side_rates` have one of their own. A lower rate of somebody else's is kept unless
    `override`, also one between ours and the most that ours may become; rates in `ours` stand
    already.
    Brokers that `configs` do not hold (they are down) are left out.
    """
    max_rate = rate_bytes_per_s if max_bytes_per_s is None else max_bytes_per_s
    per_side_rates = per_side_rates or {}
    involved = {side for move in moves for side in sides(move)}
    intents = []
    for broker, side in sorted(involved, key=by_broker):
        answer = configs.get(Resource.broker(broker))
        if (broker, side) in ours or answer is None or isinstance(answer, Fault):
            continue
        value = answer.get(side.rate_config, ConfigValue(None, ConfigSource.DEFAULT))
        prior = value.value or None
        number = as_rate(prior)
        rate = per_side_rates.get((broker, side), rate_bytes_per_s)
        limit = per_side_rates.get((broker, side), max_rate)
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
        ConfigChange(Resource.broker(i.broker), i.side.rate_config, ConfigOp.SET, str(rate))
        for i in intents
        if (rate := i.rate_bytes_per_s) is not None
    ]


def not_in_force(
    lists: Iterable[ListIntent], rates: Iterable[RateIntent], configs: Configs
) -> tuple[str, ...]:
    """Return in words what is not as intended yet; empty when all of it is in force."""
    off = []
    for i in lists:
        answer = configs.get(Resource.topic(i.topic), {})
        there = frozenset[str]() if isinstance(answer, Fault) else entries(own_list(answer, i.side))
        if ALL not in there and not set(i.pairs) <= there:
            off.append(f"the {i.side.value} list of {i.topic}")
    for r in rates:
        if r.rate_bytes_per_s is None:
            continue
        answer = configs.get(Resource.broker(r.broker), {})
        value = None if isinstance(answer, Fault) else answer.get(r.side.rate_config)
        if value is None or value.value != str(r.rate_bytes_per_s):
            off.append(f"the {r.side.value} rate of broker {r.broker}")
    return tuple(off)


def batch_lists(moves: Iterable[Move]) -> dict[ListKey, frozenset[str]]:
    """Return the entries `p:b` that moves need, by topic and side.

    A re-order, and a mere removal, copy nothing and need none.

    Leader side: every current replica, as Kafka's tool and topicctl list them, and the adding
    ones too, because one that has entered the ISR can be elected while the move still runs.
    Follower side, as theirs: the adding ones only; an in-sync replica listed there is slowed by
    nothing but uses the quota up. (ReassignPartitionsCommand.calculateProposedMoveMap)
    """
    lists: defaultdict[ListKey, set[str]] = defaultdict(set)
    for move in moves:
        if move.moves_data:
            topic, partition = move.tp
            listed = {*move.before, *move.adding}
            lists[topic, Side.LEADER].update(f"{partition}:{broker}" for broker in listed)
            lists[topic, Side.FOLLOWER].update(f"{partition}:{broker}" for broker in move.adding)
    return {key: frozenset(pairs) for key, pairs in lists.items()}


READ_BACK_SECONDS = 10.0
"""How long brokers are given to show what has been changed."""


def subtract_changes(
    intent: ListIntent, pairs: Collection[str], there: frozenset[str], *, unverified: bool = False
) -> list[ConfigChange]:
    """Return what takes our `pairs` out of a list that holds `there`.

    Nothing when they are gone, as a SUBTRACT would make a list that is unset an empty one.
    `unverified` takes them out although they are not there: they may be on their way.
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
    intent: RateIntent, configs: Configs, *, unverified: bool = False
) -> list[ConfigChange]:
    """Return what puts a rate back: SET what somebody had set on the broker, else DELETE.

    Nothing when we had kept theirs, or when somebody has changed the rate since we set it.
    `unverified` puts it back although ours does not show.
    """
    answer = configs.get(Resource.broker(intent.broker))
    if answer is None or isinstance(answer, Fault):
        return []
    intent = intent.current(answer)
    if intent.rate_bytes_per_s is None:
        return []
    if not intent.is_ours(answer) and not (unverified and intent.is_original(answer)):
        return []
    resource, name = Resource.broker(intent.broker), intent.side.rate_config
    if intent.dynamic:
        return [ConfigChange(resource, name, ConfigOp.SET, intent.prior)]
    return [ConfigChange(resource, name, ConfigOp.DELETE)]


def missing_changes(changes: Iterable[ConfigChange], configs: Configs) -> list[ConfigChange]:
    """Return those restoring changes that `configs` do not show yet (brokers lag a little)."""

    def shows(change: ConfigChange) -> bool:
        answer = configs.get(change.resource, {})
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

    return [change for change in changes if not shows(change)]
