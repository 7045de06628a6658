"""Replication throttles of a run: what to set, how it is read back, how it is put back exactly.

Nothing of somebody else's is ever overwritten: lists are appended to and subtracted from, `*` is
left alone, a lower foreign rate is kept, and what was unset before is deleted, so that static and
default values show again (KIP-73, KIP-339; reference of the rules: docs/runs.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from core.cluster.client import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Fault,
    Resource,
    ResourceKind,
)
from core.plan.plan import Move
from core.plan.throttle_lists import ALL, batch_lists, entries, joined, missing

NO_LIMIT = 2**63 - 1
"""What brokers report for a rate that nobody has set."""

Configs = Mapping[Resource, Mapping[str, ConfigValue] | Fault]


class Side(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def list_config(self) -> str:
        return LEADER_LIST if self is Side.LEADER else FOLLOWER_LIST

    @property
    def rate_config(self) -> str:
        return LEADER_RATE if self is Side.LEADER else FOLLOWER_RATE


ListKey = tuple[str, Side]
"""A topic and side."""
LISTS = (LEADER_LIST, FOLLOWER_LIST)
RATES = (LEADER_RATE, FOLLOWER_RATE)


@dataclass(frozen=True, slots=True)
class ListIntent:
    """One topic list: how it was found, and the pairs that we append and later subtract."""

    topic: str
    side: Side
    prior: str | None
    """The topic's own value before us, "" when set to nothing, None when unset."""
    pairs: tuple[str, ...]

    def joined(self, later: ListIntent) -> ListIntent:
        """Return this intent with a later batch's pairs; how it was found stays the first."""
        new = tuple(pair for pair in later.pairs if pair not in self.pairs)
        return replace(self, pairs=self.pairs + new)

    def without(self, pairs: Collection[str]) -> ListIntent:
        return replace(self, pairs=tuple(pair for pair in self.pairs if pair not in pairs))

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "side": self.side.value,
            "prior": self.prior,
            "pairs": list(self.pairs),
        }

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> ListIntent:
        return cls(p["topic"], Side(p["side"]), p["prior"], tuple(p["pairs"]))


@dataclass(frozen=True, slots=True)
class RateIntent:
    """One broker and side: how its rate was found, and what we set; None keeps a lower one."""

    broker: int
    side: Side
    prior: str | None
    """The value that was in effect, whoever gave it; None for none."""
    source: ConfigSource
    rate_bytes_per_s: int | None
    perhaps: tuple[int, ...] = ()
    """Other rates of ours that may be in force, while one is changed."""

    @property
    def dynamic(self) -> bool:
        """Return whether somebody had set the rate on this very broker."""
        return self.source is ConfigSource.BROKER and self.prior is not None

    @property
    def found_bytes_per_s(self) -> int | None:
        """Return the rate that held before us; None for none."""
        return _number(self.prior)

    @property
    def limit_bytes_per_s(self) -> int | None:
        """Return the rate that holds during the run."""
        kept = self.rate_bytes_per_s is None
        return self.found_bytes_per_s if kept else self.rate_bytes_per_s

    def to_json(self) -> dict[str, Any]:
        return {
            "broker": self.broker,
            "side": self.side.value,
            "prior": self.prior,
            "source": self.source.name,
            "rate_bytes_per_s": self.rate_bytes_per_s,
        }

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> RateIntent:
        return cls(
            p["broker"],
            Side(p["side"]),
            p["prior"],
            ConfigSource[p["source"]],
            p["rate_bytes_per_s"],
        )


# -- what to set ---------------------------------------------------------------------------------


def resources(moves: Iterable[Move], alive: Collection[int]) -> tuple[list[Resource], set[int]]:
    """Return the topics and alive brokers whose configs the throttles of `moves` touch."""
    copying = [move for move in moves if move.moves_data]
    brokers = {b for move in copying for b in (*move.before, *move.after)} & set(alive)
    topics = sorted({move.tp.topic for move in copying})
    return [Resource.topic(topic) for topic in topics], brokers


def intend_lists(
    moves: Iterable[Move],
    found: Configs,
    ours: Mapping[ListKey, ListIntent],
    held: Mapping[ListKey, frozenset[str]],
) -> tuple[ListIntent, ...]:
    """Return what to append to the topic lists; pairs that are there already are not ours.

    `ours` are the pairs of batches before this one: still in a list, and ours all the same.
    `held` is what the controller says that is in each list: `found` may be older.
    A topic that is gone, or that has `*`, is left out.
    """
    wanted = batch_lists(moves)
    intents = []
    for side, lists in ((Side.LEADER, wanted.leader), (Side.FOLLOWER, wanted.follower)):
        for topic in sorted(lists):
            answer = found.get(Resource.topic(topic))
            if answer is None or isinstance(answer, Fault):
                continue
            there = held.get((topic, side))
            if there is None:
                continue
            prior = list_now(own_list(answer, side), there)
            known = ours.get((topic, side))
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
    most_bytes_per_s: int | None = None,
    override: bool = False,
) -> tuple[RateIntent, ...]:
    """Return the rates to set: leader side wherever a replica may lead, follower side on arrivals.

    A lower rate of somebody else's is kept unless `override`, also one between ours and the most
    that ours may become; rates in `ours` stand already.
    Brokers that `found` does not hold (they are down) are left out.
    """
    most = rate_bytes_per_s if most_bytes_per_s is None else most_bytes_per_s
    copying = [move for move in moves if move.moves_data]
    involved = {(b, Side.LEADER) for move in copying for b in (*move.before, *move.adding)}
    involved |= {(b, Side.FOLLOWER) for move in copying for b in move.adding}
    intents = []
    for broker, side in sorted(involved, key=lambda pair: (pair[0], pair[1].value)):
        answer = found.get(Resource.broker(broker))
        if (broker, side) in ours or answer is None or isinstance(answer, Fault):
            continue
        value = answer.get(side.rate_config, ConfigValue(None, ConfigSource.DEFAULT))
        prior = value.value or None
        number = _number(prior)
        kept = number is not None and number <= most and not override
        intents.append(
            RateIntent(broker, side, prior, value.source, None if kept else rate_bytes_per_s)
        )
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


# -- how to put it back --------------------------------------------------------------------------


def subtraction(
    intent: ListIntent, pairs: Collection[str], there: frozenset[str], *, unseen: bool = False
) -> list[ConfigChange]:
    """Return what takes our `pairs` out of a list that holds `there`.

    Nothing when they are gone, as a SUBTRACT would make a list that is unset an empty one.
    `unseen` takes them out although they are not there: they may be on their way.
    """
    ours = set(pairs) if unseen else there & set(pairs)
    if not ours or ALL in there:
        return []
    resource, name = Resource.topic(intent.topic), intent.side.list_config
    return [ConfigChange(resource, name, ConfigOp.SUBTRACT, joined(ours))]


def deletion(intent: ListIntent, there: frozenset[str]) -> list[ConfigChange]:
    """Return what unsets a list that was unset before us and holds nothing any more.

    SUBTRACT of the last pair leaves a list set to nothing. `there` must be what the controller
    holds at this moment: a DELETE takes whatever has come meanwhile along, and Kafka has no
    conditional one.
    """
    if intent.prior is not None or there:
        return []
    return [ConfigChange(Resource.topic(intent.topic), intent.side.list_config, ConfigOp.DELETE)]


def list_now(shown: str | None, there: frozenset[str]) -> str | None:
    """Return a list's value: `there` of the controller, and of a broker whether empty is unset."""
    if there:
        return shown if entries(shown) == there else ",".join(sorted(there))
    return None if entries(shown) else shown


def restore_changes(
    intent: RateIntent, found: Configs, *, unseen: bool = False
) -> list[ConfigChange]:
    """Return what puts a rate back: SET what somebody had set on the broker, else DELETE.

    Nothing when we had kept theirs, or when somebody has changed the rate since we set it.
    `unseen` puts it back although ours does not show.
    """
    answer = found.get(Resource.broker(intent.broker))
    if intent.rate_bytes_per_s is None or answer is None or isinstance(answer, Fault):
        return []
    if not is_ours(intent, answer) and not (unseen and is_as_found(intent, answer)):
        return []
    resource, name = Resource.broker(intent.broker), intent.side.rate_config
    if intent.dynamic:
        return [ConfigChange(resource, name, ConfigOp.SET, intent.prior)]
    return [ConfigChange(resource, name, ConfigOp.DELETE)]


def is_as_found(intent: RateIntent, answer: Mapping[str, ConfigValue]) -> bool:
    """Return whether a rate is set now as it was before us."""
    return own_rate(answer, intent.side) == (intent.prior if intent.dynamic else None)


def is_ours(intent: RateIntent, answer: Mapping[str, ConfigValue]) -> bool:
    """Return whether a rate that is set now is one that we set."""
    ours = {str(rate) for rate in (intent.rate_bytes_per_s, *intent.perhaps)}
    return own_rate(answer, intent.side) in ours


def still_there(changes: Iterable[ConfigChange], found: Configs) -> tuple[ConfigChange, ...]:
    """Return those putting-back changes that `found` does not show yet (brokers lag a little)."""

    def shows(change: ConfigChange) -> bool:
        answer = found.get(change.resource, {})
        if isinstance(answer, Fault):
            return True
        value = answer.get(change.name)
        own = _own(value, change.resource.kind)
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


def own_list(answer: Mapping[str, ConfigValue], side: Side) -> str | None:
    """Return the list that is set on the topic itself: "" when set to nothing, None when unset."""
    return _own(answer.get(side.list_config), ResourceKind.TOPIC)


def own_rate(answer: Mapping[str, ConfigValue], side: Side) -> str | None:
    """Return the rate that is set on the broker itself, None when unset."""
    return _own(answer.get(side.rate_config), ResourceKind.BROKER)


def _own(value: ConfigValue | None, kind: ResourceKind) -> str | None:
    wanted = ConfigSource.TOPIC if kind is ResourceKind.TOPIC else ConfigSource.BROKER
    if value is None or value.source is not wanted:
        return None
    return value.value or ""


def _number(value: str | None) -> int | None:
    """Return a rate as a number; None when it limits nothing or is none."""
    try:
        number = int(value or "")
    except ValueError:
        return None
    return number if 0 <= number < NO_LIMIT else None
