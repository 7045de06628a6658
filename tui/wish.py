"""What the user asks a plan for, as typed: kept for the session, read into what a planner wants.

Pure. What cannot be read is told by field, one short sentence each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import TypeVar

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.planner.limits import Limits
from core.plan.planner.problem import BAND
from core.plan.planner.refusals import refuse
from core.plan.planner.wanted import Wanted, untouched
from core.plan.planner.wishes import broker_ids, broker_pairs
from core.units import parse_duration, parse_size

_Read = TypeVar("_Read")


class Intent(Enum):
    """What a plan is for; the values are what the form says."""

    BALANCE = "balance"
    LEADERS = "leaders only"
    DRAIN = "drain brokers"
    FILL = "fill new brokers"
    REPLACE = "replace a broker"
    RACKS = "repair racks"
    REPLICAS = "replication factor"


MEANING: Mapping[Intent, str] = {
    Intent.BALANCE: "Disk, in, out, replicas and leaders of every broker within the band.",
    Intent.LEADERS: "Preferred leaders are chosen anew; nothing is copied.",
    Intent.DRAIN: "Everything goes off these brokers.",
    Intent.FILL: "Only these brokers receive; nothing moves elsewhere.",
    Intent.REPLACE: "All that the first broker holds goes to the second.",
    Intent.RACKS: "Only replicas that share a rack needlessly move.",
    Intent.REPLICAS: "These topics get so many replicas, or only so many are left.",
}
WITH: Mapping[Intent, str] = {
    Intent.DRAIN: "brokers",
    Intent.FILL: "brokers",
    Intent.REPLACE: "old:new",
    Intent.REPLICAS: "replicas",
}
"""What an intent needs to be told beside; others need nothing."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The form's fields as they stand; empty is no limit."""

    intent: Intent = Intent.BALANCE
    which: Mapping[Intent, str] = field(default_factory=dict)
    """What was typed beside each intent."""
    topics: str = ""
    keep: str = ""
    exclude: str = ""
    band: str = "10"
    max_bytes: str = ""
    max_moves: str = ""
    within: str = ""

    @classmethod
    def proposed(cls, broker: int | None) -> Wish:
        """Return the wish to begin with: even all out; a broker is there for what needs one."""
        if broker is None:
            return cls()
        named = {Intent.DRAIN: f"{broker}", Intent.FILL: f"{broker}", Intent.REPLACE: f"{broker}:"}
        return cls(which=named)

    def beside(self, text: str) -> Wish:
        """Return the wish with this typed beside its intent."""
        return replace(self, which={**self.which, self.intent: text})


@dataclass(frozen=True, slots=True)
class Asked:
    """A wish that could be read: what the planner is to do, and by when the plan should be done."""

    wanted: Wanted
    within_seconds: float | None

    @property
    def leaving(self) -> tuple[int, ...]:
        """Return the brokers that are to hold nothing."""
        return (*self.wanted.drain, *(old for old, _ in self.wanted.replace))


def read(wish: Wish, state: ClusterState) -> tuple[Asked | None, Mapping[str, str]]:
    """Return what is asked for, or None and what is wrong with which field."""
    wrong: dict[str, str] = {}

    def take(name: str, get: Callable[[], _Read], otherwise: _Read) -> _Read:
        try:
            return get()
        except UsageError as error:
            wrong[name] = error.title
        except ValueError as error:
            wrong[name] = str(error)
        return otherwise

    text = wish.which.get(wish.intent, "").strip()
    wanted = replace(
        take("which", lambda: _intent(wish.intent, text, state), Wanted()),
        exclude=take("exclude", lambda: _excluded(wish.exclude, state), ()),
        topics=take("topics", lambda: _topics(wish.topics, state), None),
        keep=take("keep", lambda: _pattern(wish.keep), None),
        band=take("band", lambda: _band(wish.band), BAND),
        limits=Limits(
            most_bytes=take("max_bytes", lambda: _size(wish.max_bytes), inf),
            most_moves=take("max_moves", lambda: _count(wish.max_moves), inf),
        ),
    )
    seconds = take("within", lambda: _time(wish.within), None)
    if both := set(wanted.drain) & set(wanted.exclude):
        wrong["exclude"] = f"Broker {min(both)} is to be drained."
    if not wrong and not take("keep", lambda: _touches(wanted, state), True):
        wrong["keep"] = "It keeps every topic as it is."
    return (None, wrong) if wrong else (Asked(wanted, seconds), {})


def _intent(intent: Intent, text: str, state: ClusterState) -> Wanted:
    match intent:
        case Intent.LEADERS:
            return Wanted(leaders_only=True)
        case Intent.RACKS:
            return Wanted(racks_only=True)
        case Intent.DRAIN:
            return _known(Wanted(drain=_ids(text, needed=True)), state)
        case Intent.FILL:
            return _known(Wanted(fill=_ids(text, needed=True)), state)
        case Intent.REPLACE:
            return _known(Wanted(replace=_pairs(text)), state)
        case Intent.REPLICAS:
            if not text.isdecimal() or not int(text):
                raise ValueError("How many: a number like 3.")
            return _known(Wanted(replicas=int(text)), state)
        case _:
            return Wanted()


def _known(wanted: Wanted, state: ClusterState) -> Wanted:
    refuse(state, wanted)
    return wanted


def _ids(text: str, *, needed: bool = False) -> tuple[int, ...]:
    try:
        ids = broker_ids(text.strip(), "")
    except UsageError as error:
        raise ValueError("Broker ids are written like 3,4.") from error
    if needed and not ids:
        raise ValueError("Which: broker ids like 3,4.")
    return ids


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    try:
        pairs = broker_pairs(text, "")
    except UsageError as error:
        raise ValueError("Old and new are written like 3:7.") from error
    if not pairs:
        raise ValueError("Which: old and new like 3:7.")
    return pairs


def _excluded(text: str, state: ClusterState) -> tuple[int, ...]:
    ids = _ids(text)
    refuse(state, Wanted(exclude=ids))
    return ids


def _topics(text: str, state: ClusterState) -> str | None:
    pattern = _pattern(text)
    if pattern and not any(re.fullmatch(pattern, topic.name) for topic in state.topics):
        raise ValueError("No topic has such a name.")
    return pattern


def _pattern(text: str) -> str | None:
    try:
        re.compile(text.strip())
    except re.error as error:
        raise ValueError(f"No regular expression: {error.msg}.") from error
    return text.strip() or None


def _touches(wanted: Wanted, state: ClusterState) -> bool:
    try:
        untouched(state, wanted)
    except UsageError:
        return False
    return True


def _band(text: str) -> float:
    number = text.strip().removesuffix("%").strip()
    try:
        band = float(number)
    except ValueError:
        band = 0.0
    if not 1 <= band <= 50:
        raise ValueError("A band is 1 to 50 percent.")
    return band / 100


def _size(text: str) -> float:
    return parse_size(text) if text.strip() else inf


def _count(text: str) -> float:
    if text.strip() and not (text.strip().isdecimal() and int(text)):
        raise ValueError("How many: a number like 200.")
    return int(text) if text.strip() else inf


def _time(text: str) -> float | None:
    seconds = parse_duration(text) if text.strip() else None
    if seconds is not None and not seconds > 0:
        raise ValueError("A time is longer than nothing.")
    return seconds
