"""Pace: which replication rates a run wants now, broker by broker and side by side, and how fast.

Pure. What is asked for (a rate, bounds, a pause on the floor) and what is in force are folded from
the journal; `next_rates` returns the next change with its reason. Lowering is at once; raising
takes its time, because a raised quota frees 11.5 s of the difference at wire speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from core.errors import UsageError
from core.run.limits.critical import holding_up
from core.run.limits.inflow import CREDIT_SECONDS, FLOOR_BYTES_PER_S
from core.run.limits.strain import SideSeen, Strain, strain
from core.run.limits.throttle import Side
from core.units import UNLIMITED, format_rate

RAMP_SECONDS = 1.0
"""How long a raised rate is left before it is raised again."""
RAMP_FACTOR = 1.2
"""How much more than what is wanted may pass while a rate rises."""
CALM_STEP, CAREFUL_STEP = 0.10, 0.05
"""By which part an adaptive rate rises: before there was any trouble, and afterwards."""
CAREFUL_SECONDS = 12.0
"""How long an adaptive rate is watched after trouble before it rises: one quota window."""
TROUBLED_SECONDS = 120.0
"""How long trouble is remembered."""
LATE_STEP, ISR_STEP = 0.7, 0.5
"""What is left of a rate when clients wait longer, and when a follower falls out of step."""
USED_SHARE = 0.7
"""A side that uses less of its rate than this does not hold the run up: it is not raised."""
SPARE_SHARE, BLIND_SHARE = 0.8, 0.5
"""Of a broker's spare capacity: while a probe watches, and while nothing does."""
INFLOW_FACTOR = 1.25
"""How far above what comes in an adaptive rate stays, so that the run ends."""


Key = tuple[int, Side]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which rates an adaptive one stays.

    `spare_bytes_per_s` is what capacity leaves a broker's side, where it is known.
    """

    least_bytes_per_s: int
    most_bytes_per_s: int
    spare_bytes_per_s: Mapping[Key, float] = field(default_factory=dict)

    @classmethod
    def of(cls, least_bytes_per_s: int, most_bytes_per_s: int) -> Bounds:
        """Return the bounds that somebody asks for; raises UsageError where they are none."""
        if not 1 <= least_bytes_per_s <= most_bytes_per_s:
            least, most = format_rate(least_bytes_per_s), format_rate(most_bytes_per_s)
            raise UsageError(
                f"{least} to {most} are no bounds of a rate.",
                next="Say the lower one first, like auto:5MB/s-50MB/s.",
            )
        return cls(least_bytes_per_s, most_bytes_per_s)

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> Bounds:
        spare = rates_from_json(p.get("spare", ()))
        return cls(int(p["least_bytes_per_s"]), int(p["most_bytes_per_s"]), spare)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "least_bytes_per_s": self.least_bytes_per_s,
            "most_bytes_per_s": self.most_bytes_per_s,
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

    Never above `most_bytes_per_s`, which somebody else had set.
    """

    rate_bytes_per_s: int
    changed_at: datetime
    troubled_at: datetime | None = None
    most_bytes_per_s: int | None = None
    theirs: bool = False
    """Somebody else has changed it: left so until another rate is asked for."""
    refused_bytes_per_s: int | None = None
    """What the cluster refused instead: not tried again, nor beyond, until another is asked for."""

    def at_most(self, rate: int) -> int:
        most = self.most_bytes_per_s
        return rate if most is None else min(rate, most)

    def is_refused(self, rate: int) -> bool:
        """Return whether `rate` is, or lies beyond, what the cluster has refused."""
        refused, now = self.refused_bytes_per_s, self.rate_bytes_per_s
        if refused is None:
            return False
        return rate >= refused if refused > now else rate <= refused


@dataclass(frozen=True, slots=True)
class RateChange:
    """Rates to set now, and why in one sentence."""

    rates: Mapping[Key, int]
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the payload of a journal record."""
        return {
            "rates": [
                {"broker": broker, "side": side.value, "rate_bytes_per_s": rate}
                for (broker, side), rate in self.rates.items()
            ],
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Pace:
    """What is asked of a run's rates, and what is in force: plain data, folded from the journal.

    `rate_bytes_per_s` holds while `bounds` is None, but for the sides in `apart`, which need less
    as long as the plan stays what it was. `rates` are ours, and lower ones of somebody
    else's that were kept: a still lower one takes their place, until it is put back.
    """

    rate_bytes_per_s: int
    bounds: Bounds | None = None
    floored: bool = False
    rates: Mapping[Key, SideRate] = field(default_factory=dict)
    adapted: bool = False
    """There were bounds before: a process that died may have left its probe's topic."""
    apart: Mapping[Key, int] = field(default_factory=dict)

    @property
    def first_bytes_per_s(self) -> int:
        """Return the rate that a side begins with: a pause meanwhile, or bounds, and it is low."""
        return self.bounds.least_bytes_per_s if self.bounds else self.rate_bytes_per_s

    def rate_of(self, key: Key) -> int:
        """Return the rate of one side, where none is adapted."""
        return self.apart.get(key, self.rate_bytes_per_s)

    def asked(self, kind: str, payload: Mapping[str, Any]) -> Pace:
        """Take a request in; kinds that do not concern rates change nothing."""
        match kind:
            case "pause" if payload.get("floor"):
                return replace(self._none_left(), floored=True)
            case "pause":
                return replace(self, floored=False)
            case "resume":
                return replace(self._none_left(), floored=False)
            case "throttle" if payload.get("auto"):
                bounds = Bounds.from_json(payload["auto"])
                if self.bounds and not bounds.spare_bytes_per_s:
                    bounds = replace(bounds, spare_bytes_per_s=self.bounds.spare_bytes_per_s)
                return replace(self._none_left(), bounds=bounds, apart={})
            case "retarget" | "rollback":  # other sides copy now, and more than was reckoned with
                return replace(self, apart={})
            case "throttle":
                rate, adapted = payload["rate_bytes_per_s"], self.bounds is not None
                return replace(
                    self._none_left(),
                    rate_bytes_per_s=rate,
                    bounds=None,
                    apart={},
                    adapted=self.adapted or adapted,
                )
            case _:
                return self

    def changed(self, rates: Iterable[tuple[Key, int]], at: datetime) -> Pace:
        """Take in that these rates were set at `at`."""
        found = dict(self.rates)
        for key, rate in rates:
            known = found.get(key)
            troubled_at = known.troubled_at if known else None
            if known and self.bounds and not self.floored and rate < known.rate_bytes_per_s:
                troubled_at = at
            refused = known.refused_bytes_per_s if known else None
            found[key] = SideRate(rate, at, troubled_at, refused_bytes_per_s=refused)
        return replace(self, rates=found)

    def refused(self, rates: Iterable[tuple[Key, int, int]], at: datetime) -> Pace:
        """Take in that the cluster refused rates of sides, which keep others: key, both rates."""
        found = dict(self.rates)
        for key, refused, kept in rates:
            found[key] = replace(
                found.get(key, SideRate(kept, at)),
                rate_bytes_per_s=kept,
                changed_at=at,
                refused_bytes_per_s=refused,
            )
        return replace(self, rates=found)

    def _none_left(self) -> Pace:
        """Return what follows from asking for a rate: every side may be given it once more."""
        rates = {
            key: replace(held, theirs=False, refused_bytes_per_s=None)
            for key, held in self.rates.items()
        }
        return replace(self, rates=rates)

    def left_to_others(self, rates: Mapping[Key, int | None], at: datetime) -> Pace:
        """Take in that somebody else has set these rates of ours at `at`; None for no limit."""
        theirs = {
            key: SideRate(UNLIMITED if rate is None else rate, at, theirs=True)
            for key, rate in rates.items()
        }
        return replace(self, rates={**self.rates, **theirs})

    def given_back(self, keys: Iterable[Key]) -> Pace:
        """Take in that these rates are the cluster's own again."""
        gone = set(keys)
        return replace(self, rates={k: rate for k, rate in self.rates.items() if k not in gone})


def next_rates(pace: Pace, seen: Mapping[Key, SideSeen], now: datetime) -> RateChange | None:
    """Return the next change of rates, or None: what is to be lowered before what may be raised."""
    rates = {key: held.rate_bytes_per_s for key, held in pace.rates.items()}
    slowest = holding_up(rates, {key: one.left_bytes for key, one in seen.items()})
    wishes = [
        (key, held, rate, why)
        for key, held in sorted(pace.rates.items(), key=lambda item: (item[0][0], item[0][1].value))
        for rate, why in [
            _wish(pace, key, held, seen.get(key, SideSeen()), now, holds_up=key in slowest)
        ]
        if not held.is_refused(rate)
    ]
    lower = {key: rate for key, held, rate, _ in wishes if rate < held.rate_bytes_per_s}
    if lower:
        return RateChange(lower, next(why for key, _, _, why in wishes if key in lower))
    higher = {
        key: rate
        for key, held, rate, _ in wishes
        if rate > held.rate_bytes_per_s and _passed(held.changed_at, now, RAMP_SECONDS)
    }
    if not higher:
        return None
    return RateChange(higher, next(why for key, _, _, why in wishes if key in higher))


def _raised(rate: int, wanted: int) -> int:
    """Return the next step on the way up: at most a tenth of what is wanted, ever less.

    While a rate r rises, r + 11.5 s x its rise passes: that is kept below what is wanted and a
    fifth, so that 3 s never bring 4 s' worth. From the floor it takes about 20 s.
    """
    step = (RAMP_FACTOR * wanted - rate) / CREDIT_SECONDS
    return min(wanted, rate + max(1, round(min(step, wanted / 10))))


def _wish(
    pace: Pace, key: Key, held: SideRate, seen: SideSeen, now: datetime, *, holds_up: bool
) -> tuple[int, str]:
    """Return the rate that one side should have next, and why."""
    if held.theirs:
        return held.rate_bytes_per_s, ""
    if pace.floored:
        if key[1] is not Side.LEADER:  # what it has stays, which a cancel would throw away
            return held.at_most(FLOOR_BYTES_PER_S), "paused: copies in flight wait on the floor"
        return held.rate_bytes_per_s, ""
    if pace.bounds is None:
        wanted = held.at_most(pace.rate_of(key))
        if wanted < held.rate_bytes_per_s:
            return wanted, f"slowed down to {format_rate(wanted)}, as asked"
        why = f"on the way to {format_rate(wanted)}, little by little"
        return _raised(held.rate_bytes_per_s, wanted), why
    return _adapted(pace.bounds, key, held, seen, now, holds_up=holds_up)


def _adapted(
    bounds: Bounds, key: Key, held: SideRate, seen: SideSeen, now: datetime, *, holds_up: bool
) -> tuple[int, str]:
    """Return the adaptive rate of one side: a tenth more while all is calm, much less at once.

    Only a side that holds the run up gets more.
    """
    rate = held.rate_bytes_per_s
    ends_at = round(seen.inflow_bytes_per_s * INFLOW_FACTOR)
    least = held.at_most(min(bounds.most_bytes_per_s, max(bounds.least_bytes_per_s, ends_at)))
    most = max(held.at_most(_ceiling(bounds, key, seen)), least)
    if rate > most:
        return most, _above(bounds, key, most)
    if rate < least:
        return _raised(rate, least), f"{_name(key)} gets {format_rate(least)} at least"
    found, trouble = strain(seen, held.changed_at), held.troubled_at
    careful = trouble is not None and not _passed(trouble, now, TROUBLED_SECONDS)
    watched = _passed(held.changed_at, now, CAREFUL_SECONDS)
    used = seen.flow_bytes_per_s + seen.inflow_bytes_per_s
    needs = holds_up and rate < most and used >= USED_SHARE * rate
    match found:
        case Strain.OUT_OF_STEP if trouble is None or _passed(trouble, now, CAREFUL_SECONDS):
            why = f"{_name(key)} slows down: {seen.out_of_step}"
            return max(least, round(rate * ISR_STEP)), why
        case Strain.LATE:
            ratio = f"{seen.latency_ratio or 0:.1f}"
            why = f"{_name(key)} slows down: producers wait {ratio} times as long as before"
            return max(least, round(rate * LATE_STEP)), why
        case Strain.CALM | Strain.UNKNOWN if needs:
            if not watched and (careful or found is Strain.UNKNOWN):
                return rate, ""
            step = CAREFUL_STEP if careful else CALM_STEP
            return min(most, max(rate + 1, round(rate * (1 + step)))), _why_more(bounds, key, found)
        case _:
            return rate, ""


def _why_more(bounds: Bounds, key: Key, found: Strain) -> str:
    calm = "producers wait no longer than before"
    spare = f"it has {format_rate(bounds.spare_bytes_per_s.get(key, 0.0))} to spare"
    return f"{_name(key)} may {_DOES[key[1]]} more: {calm if found is Strain.CALM else spare}"


def _ceiling(bounds: Bounds, key: Key, seen: SideSeen) -> int:
    """Return the most that a side may get; while nothing tells how it fares, the least."""
    blind, spare = seen.before is None, bounds.spare_bytes_per_s.get(key)
    if spare is None:
        return bounds.least_bytes_per_s if blind else bounds.most_bytes_per_s
    most = min(bounds.most_bytes_per_s, round(spare * (BLIND_SHARE if blind else SPARE_SHARE)))
    return max(bounds.least_bytes_per_s, most)


def _above(bounds: Bounds, key: Key, most: int) -> str:
    """Return why a side gets no more than this."""
    if most == bounds.most_bytes_per_s:
        return f"{_name(key)} gets {format_rate(most)} at most"
    spare = bounds.spare_bytes_per_s.get(key)
    if spare is None:
        return f"nothing tells how {_name(key)} fares: it keeps to {format_rate(most)}"
    return f"{_name(key)} has {format_rate(spare)} to spare"


def _passed(since: datetime, now: datetime, seconds: float) -> bool:
    """Return whether so long has passed; a clock that was set back holds nothing up."""
    return now < since or now - since >= timedelta(seconds=seconds)


_DOES = {Side.LEADER: "send", Side.FOLLOWER: "receive", Side.LOG_DIRS: "copy between log dirs"}
_DOING = {
    Side.LEADER: "sending",
    Side.FOLLOWER: "receiving",
    Side.LOG_DIRS: "copying between log dirs",
}


def _name(key: Key) -> str:
    return f"b{key[0]} {_DOING[key[1]]}"
