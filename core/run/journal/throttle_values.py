"""Replication throttles as values: topics' lists, brokers' rates, and what a run intends of both.

A list is one topic config with entries `partition:broker`, or `*` for all.
See docs/explanation/runs.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    ConfigSource,
    ConfigValue,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.plan.plan import Move
from core.units import NO_LIMIT

ALL = "*"


def entries(value: str | None) -> frozenset[str]:
    """Return the entries of a list config as a broker returned it; unset and empty have none."""
    return frozenset(part for entry in (value or "").split(",") if (part := entry.strip()))


def missing(required: Set[str], existing: str | None) -> tuple[str, ...]:
    """Return the entries to append so that all `required` count, in order; none beside a `*`.

    What is there already is somebody else's, and not to be subtracted later.
    """
    there = entries(existing)
    return () if ALL in there else tuple(sorted(required - there, key=_by_number))


def joined(required: Iterable[str]) -> str:
    """Return entries as a config value, by partition and broker."""
    return ",".join(sorted(required, key=_by_number))


def _by_number(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split(":"))


Configs = Mapping[Resource, Mapping[str, ConfigValue] | Fault]


Key = tuple[int, Side]
"""A broker and side."""
ListKey = tuple[str, Side]
"""A topic and side."""
ListPairs = tuple[str, Side, tuple[str, ...]]
"""A topic and side, and pairs of ours there."""
LISTS = (LEADER_LIST, FOLLOWER_LIST)
LISTED = (Side.LEADER, Side.FOLLOWER)
"""The sides that limit what topic lists name."""
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)


def by_broker(key: Key) -> tuple[int, str]:
    return key[0], key[1].value


def arriving_sides(move: Move) -> tuple[Key, ...]:
    """Return on which side each of `move.receiving` is limited."""
    adding = [(broker, Side.FOLLOWER) for broker in move.adding]
    return (*adding, *((broker, Side.LOG_DIRS) for broker in move.dir_moves))


def by_side(
    move: Move, arriving: Iterable[float], leader: int | None
) -> Iterator[tuple[Key, float]]:
    """Yield what each side carries where so much arrives on each of `move.receiving`.

    The leader's, if it is known, sends all that followers get.
    """
    sent = 0.0
    for key, part in zip(arriving_sides(move), arriving, strict=True):
        yield key, part
        sent += part if key[1] is Side.FOLLOWER else 0.0
    if move.adding and leader is not None and leader >= 0:
        yield (leader, Side.LEADER), sent


@dataclass(frozen=True, slots=True)
class ListIntent:
    """One topic list: how it was found, and the pairs that we append and later subtract."""

    topic: str
    side: Side
    prior: str | None
    """The topic's own value before us, "" when set to nothing, None when unset."""
    pairs: tuple[str, ...]

    @property
    def key(self) -> ListKey:
        return self.topic, self.side

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
    ours: RateIntent | None = None
    """What was ours until somebody changed it: where its rate shows again, it is ours again."""

    @property
    def key(self) -> Key:
        return self.broker, self.side

    @property
    def dynamic(self) -> bool:
        """Return whether somebody had set the rate on this very broker."""
        return self.source is ConfigSource.BROKER and self.prior is not None

    @property
    def original_bytes_per_s(self) -> int | None:
        """Return the rate that held before us; None for none."""
        return as_rate(self.prior)

    @property
    def limit_bytes_per_s(self) -> int | None:
        """Return the rate that holds during the run."""
        kept = self.rate_bytes_per_s is None
        return self.original_bytes_per_s if kept else self.rate_bytes_per_s

    @property
    def is_theirs(self) -> bool:
        """Return whether it is somebody else's rate that limits: kept, or what ours is again."""
        return self.rate_bytes_per_s in (None, self.original_bytes_per_s)

    def is_original(self, answer: Mapping[str, ConfigValue]) -> bool:
        """Return whether the rate is set now as it was before us."""
        return own_rate(answer, self.side) == (self.prior if self.dynamic else None)

    def is_ours(self, answer: Mapping[str, ConfigValue]) -> bool:
        """Return whether the rate that is set now is one that we set."""
        values = {str(rate) for rate in (self.rate_bytes_per_s, *self.perhaps)}
        return own_rate(answer, self.side) in values

    def is_as_held(self, answer: Mapping[str, ConfigValue]) -> bool:
        """Return whether the rate is one that we set, or kept as it was found."""
        kept = self.rate_bytes_per_s is None
        return self.is_original(answer) if kept else self.is_ours(answer)

    def current(self, answer: Mapping[str, ConfigValue]) -> RateIntent:
        """Return what holds of it: ours that somebody changed, and that has been put back, or it.

        Another run, or an operator, who lowered a rate for a while puts back what was found: ours.
        """
        return self.ours if self.ours is not None and self.ours.is_ours(answer) else self

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


def list_now(shown: str | None, there: frozenset[str]) -> str | None:
    """Return a list's value: `there` of the controller, and of a broker whether empty is unset."""
    if there:
        return shown if entries(shown) == there else ",".join(sorted(there))
    return None if entries(shown) else shown


def is_as_left(left: str | None, shown: str | None, there: frozenset[str]) -> bool:
    """Return whether a list is taken for what a run has `left`: unset, or set to nothing.

    The controller holds nothing in it, and a broker shows that it is set. So it was for a moment,
    to our pairs and then to nothing, when the run gave it back, and a broker may be late. Somebody
    who has set it to nothing since cannot be told from that.
    """
    return shown is not None and not there and not entries(left)


def own_list(answer: Mapping[str, ConfigValue], side: Side) -> str | None:
    """Return the list that is set on the topic itself: "" when set to nothing, None when unset."""
    return own_value(answer.get(side.list_config), ResourceKind.TOPIC)


def own_rate(answer: Mapping[str, ConfigValue], side: Side) -> str | None:
    """Return the rate that is set on the broker itself, None when unset."""
    return own_value(answer.get(side.rate_config), ResourceKind.BROKER)


def own_value(value: ConfigValue | None, kind: ResourceKind) -> str | None:
    required = ConfigSource.TOPIC if kind is ResourceKind.TOPIC else ConfigSource.BROKER
    if value is None or value.source is not required:
        return None
    return value.value or ""


def as_rate(value: str | None) -> int | None:
    """Return a rate as a number; None when it limits nothing or is none."""
    try:
        number = int(value or "")
    except ValueError:
        return None
    return number if 0 <= number < NO_LIMIT else None
