"""A run's replication rates: those requested and those in force.

Plain data. What is asked for (a rate, bounds, a pause on the floor) and what is in force are folded
from the journal; `core.run.throttles.adaptive_rate` says what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from core.errors import UsageError
from core.plan.copies import Side
from core.run.journal.move_state import RunMove
from core.run.journal.throttle_values import Key, by_side
from core.units import UNLIMITED, format_rate


@dataclass(frozen=True, slots=True)
class RateBounds:
    """Between which rates an adaptive one stays.

    `spare_bytes_per_s` is what capacity leaves a broker's side, where it is known.
    """

    min_bytes_per_s: int
    max_bytes_per_s: int
    spare_bytes_per_s: Mapping[Key, float] = field(default_factory=dict)

    @classmethod
    def of(cls, min_bytes_per_s: int, max_bytes_per_s: int) -> RateBounds:
        """Return the bounds that somebody asks for; raises UsageError where they are none."""
        if not 1 <= min_bytes_per_s <= max_bytes_per_s:
            low, high = format_rate(min_bytes_per_s), format_rate(max_bytes_per_s)
            raise UsageError(
                f"{low} to {high} are no bounds of a rate.",
                next="Give the lower one first, like auto:5MB/s-50MB/s.",
            )
        return cls(min_bytes_per_s, max_bytes_per_s)

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> RateBounds:
        spare = rates_from_json(p.get("spare", ()))
        return cls(int(p["least_bytes_per_s"]), int(p["most_bytes_per_s"]), spare)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "least_bytes_per_s": self.min_bytes_per_s,
            "most_bytes_per_s": self.max_bytes_per_s,
        }
        if self.spare_bytes_per_s:
            document["spare"] = rates_to_json(self.spare_bytes_per_s)
        return document


def rates_to_json(rates: Mapping[Key, float]) -> list[list[Any]]:
    """Return rates of brokers and sides as options and requests hold them."""
    return [[broker, side.value, round(rate)] for (broker, side), rate in rates.items()]


def rates_from_json(rows: Iterable[Sequence[Any]]) -> dict[Key, int]:
    """Return what `rates_to_json` wrote; raises TypeError and ValueError for anything else."""
    return {(broker, Side(side)): int(rate) for broker, side, rate in rows}


@dataclass(frozen=True, slots=True)
class SideRate:
    """The rate that one broker's side has, since when, and when trouble last lowered it.

    Never above `max_bytes_per_s`, which somebody else had set.
    """

    rate_bytes_per_s: int
    changed_at: datetime
    troubled_at: datetime | None = None
    max_bytes_per_s: int | None = None
    theirs: bool = False
    """Somebody else has changed it: left so until another rate is asked for."""
    refused_bytes_per_s: int | None = None
    """What the cluster refused instead: not tried again, nor beyond, until another is asked for."""

    def capped_at(self, rate: int) -> int:
        high = self.max_bytes_per_s
        return rate if high is None else min(rate, high)

    def is_refused(self, rate: int) -> bool:
        """Return whether `rate` is, or lies beyond, what the cluster has refused."""
        refused, now = self.refused_bytes_per_s, self.rate_bytes_per_s
        if refused is None:
            return False
        return rate >= refused if refused > now else rate <= refused


@dataclass(frozen=True, slots=True)
class RateControl:
    """What is asked of a run's rates, and what is in force: plain data, folded from the journal.

    `rate_bytes_per_s` holds while `bounds` is None, but for those in `per_side_rates`, which need
    less as long as the plan stays what it was. `rates` are ours, and lower ones of somebody else's
    that were kept: a still lower one takes their place, until it is put back.
    """

    rate_bytes_per_s: int
    bounds: RateBounds | None = None
    floored: bool = False
    rates: Mapping[Key, SideRate] = field(default_factory=dict)
    adapted: bool = False
    """There were bounds before: a process that died may have left its probe's topic."""
    per_side_rates: Mapping[Key, int] = field(default_factory=dict)

    @property
    def first_bytes_per_s(self) -> int:
        """Return the rate that a side begins with: a pause meanwhile, or bounds, and it is low."""
        return self.bounds.min_bytes_per_s if self.bounds else self.rate_bytes_per_s

    def with_request(self, kind: str, payload: Mapping[str, Any]) -> RateControl:
        """Take a request in; kinds that do not concern rates change nothing."""
        match kind:
            case "pause" if payload.get("floor"):
                return replace(self._with_all_sides_allowed(), floored=True)
            case "pause":
                return replace(self, floored=False)
            case "resume":
                return replace(self._with_all_sides_allowed(), floored=False)
            case "throttle" if payload.get("auto"):
                bounds = RateBounds.from_json(payload["auto"])
                if self.bounds and not bounds.spare_bytes_per_s:
                    bounds = replace(bounds, spare_bytes_per_s=self.bounds.spare_bytes_per_s)
                return replace(self._with_all_sides_allowed(), bounds=bounds, per_side_rates={})
            case "retarget" | "rollback":  # other sides copy now, and more than was reckoned with
                return replace(self, per_side_rates={})
            case "throttle":
                rate, adapted = payload["rate_bytes_per_s"], self.bounds is not None
                return replace(
                    self._with_all_sides_allowed(),
                    rate_bytes_per_s=rate,
                    bounds=None,
                    per_side_rates={},
                    adapted=self.adapted or adapted,
                )
            case _:
                return self

    def changed(self, rates: Iterable[tuple[Key, int]], at: datetime) -> RateControl:
        """Take in that these rates were set at `at`."""
        side_rates = dict(self.rates)
        for key, rate in rates:
            known = side_rates.get(key)
            troubled_at = known.troubled_at if known else None
            if known and self.bounds and not self.floored and rate < known.rate_bytes_per_s:
                troubled_at = at
            refused = known.refused_bytes_per_s if known else None
            side_rates[key] = SideRate(rate, at, troubled_at, refused_bytes_per_s=refused)
        return replace(self, rates=side_rates)

    def refused(self, rates: Iterable[tuple[Key, int, int]], at: datetime) -> RateControl:
        """Take in that the cluster refused rates of sides, which keep others: key, both rates."""
        side_rates = dict(self.rates)
        for key, refused, kept in rates:
            side_rates[key] = replace(
                side_rates.get(key, SideRate(kept, at)),
                rate_bytes_per_s=kept,
                changed_at=at,
                refused_bytes_per_s=refused,
            )
        return replace(self, rates=side_rates)

    def _with_all_sides_allowed(self) -> RateControl:
        """Return what follows from asking for a rate: every side may be given it once more."""
        rates = {
            key: replace(held, theirs=False, refused_bytes_per_s=None)
            for key, held in self.rates.items()
        }
        return replace(self, rates=rates)

    def taken_over(self, rates: Mapping[Key, int | None], at: datetime) -> RateControl:
        """Take in that somebody else has set these rates of ours at `at`; None for no limit."""
        theirs = {
            key: SideRate(UNLIMITED if rate is None else rate, at, theirs=True)
            for key, rate in rates.items()
        }
        return replace(self, rates={**self.rates, **theirs})

    def given_back(self, keys: Iterable[Key]) -> RateControl:
        """Take in that these rates are the cluster's own again."""
        gone = set(keys)
        return replace(self, rates={k: rate for k, rate in self.rates.items() if k not in gone})


RateOf = Callable[[Key], int]
"""The rate of a broker and side that is in force, bytes/s or UNLIMITED."""


@dataclass(slots=True)
class Backlog:
    """Bytes that are to come, by broker and side, each as of the moment it was last settled."""

    left: dict[Key, tuple[float, datetime]] = field(default_factory=dict)

    def left_bytes(self, key: Key, rate_bytes_per_s: int, now: datetime) -> float:
        """Return what is left of one side at `now`, at the rate that has been in force since."""
        size, at = self.left.get(key, (0.0, now))
        if rate_bytes_per_s == UNLIMITED:
            return 0.0
        return max(0.0, size - rate_bytes_per_s * max(0.0, (now - at).total_seconds()))

    def settle(self, rate_of: RateOf, at: datetime) -> None:
        """Take in that rates change at `at`: up to then those of `rate_of` have been in force."""
        left = {key: self.left_bytes(key, rate_of(key), at) for key in self.left}
        self.left = {key: (size, at) for key, size in left.items() if size}

    def add(self, m: RunMove, rate_of: RateOf, at: datetime) -> None:
        """Take in that a move is submitted."""
        for key, size in copied_sides(m):
            self.left[key] = self.left_bytes(key, rate_of(key), at) + size, at

    def remove(self, m: RunMove, rate_of: RateOf, at: datetime) -> None:
        """Take in that the rest of a move never comes, as far as that can be told."""
        for key, size in copied_sides(m):
            self.left[key] = max(0.0, self.left_bytes(key, rate_of(key), at) - size), at


def copied_sides(m: RunMove) -> Iterator[tuple[Key, float]]:
    """Return which brokers and sides copy for a move, and how much, as far as that is known."""
    leader = next(iter(m.move.before), None) if m.leader is None else m.leader
    return by_side(m.move, [m.size_bytes or 0] * len(m.move.receiving), leader)
