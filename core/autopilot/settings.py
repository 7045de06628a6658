"""What an autopilot may do, how soon, how much and at which hours: its mode and limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from core.errors import DocumentError, UsageError
from core.patterns import matching, pattern
from core.units import format_bytes, format_duration

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_PART = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?"
    r"(?P<from>\d{1,2}:\d{2})-(?P<to>\d{1,2}:\d{2})"
)


@dataclass(frozen=True, slots=True)
class Hours:
    """Minutes of the week, Monday 00:00 is 0; `text` is how they were written."""

    text: str = ""
    minutes: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str, option: str) -> Hours:
        """Return the hours that `text` names; raises UsageError, which names the `option`.

        What ends before it begins goes on into the next day; without days it is every day.
        """
        minutes: set[int] = set()
        try:
            for part in text.lower().split(","):
                minutes |= _parse_week_minutes(part.strip(), option)
        except ValueError as error:
            raise UsageError(
                f"{option}: not hours of the week: {text!r}.",
                next='Write them like "mon-fri 09:00-18:00, sat 22:00-02:00", by this machine\'s '
                "clock.",
            ) from error
        return cls(text, frozenset(minutes))

    def __bool__(self) -> bool:
        return bool(self.minutes)

    def holds(self, at: datetime) -> bool:
        """Return whether a moment is in them, by the zone that it is given in."""
        return at.weekday() * DAY_MINUTES + at.hour * 60 + at.minute in self.minutes


def _parse_week_minutes(part: str, option: str) -> set[int]:
    """Return the minutes of `mon-fri 09:00-18:00`; raises ValueError for anything else."""
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(part)
    begin, end = _parse_clock(match["from"]), _parse_clock(match["to"])
    if begin % DAY_MINUTES == end % DAY_MINUTES and (begin, end) != (0, DAY_MINUTES):
        raise UsageError(
            f"{option}: {match['from']}-{match['to']} is no time at all.",
            next="A whole day is 00:00-24:00.",
        )
    length = end - begin if end > begin else end + DAY_MINUTES - begin
    first = DAYS.index(match["first"] or DAYS[0])
    last = DAYS.index(match["last"] or match["first"] or DAYS[-1])
    return {
        ((first + day) * DAY_MINUTES + begin + minute) % WEEK_MINUTES
        for day in range((last - first) % 7 + 1)
        for minute in range(length)
    }


def _parse_clock(clock: str) -> int:
    hours, minutes = (int(part) for part in clock.split(":"))
    if minutes > 59 or hours * 60 + minutes > DAY_MINUTES:
        raise ValueError(clock)
    return hours * 60 + minutes


MIN_LIVE_INTERVALS = 3
"""So many intervals of the collector's, in succession, are as good as a window of Spark's."""


class Mode(Enum):
    """What becomes of a plan that the rules allow; the values are what a user types."""

    OFF = "off"
    SUGGEST = "suggest"
    """It is written down, and nothing is done."""
    ACT = "act"


@dataclass(frozen=True, slots=True)
class AutopilotSettings:
    """Shares are parts of a broker's fair share: a band of 0.2 is 80 % to 120 % of it.

    Raises UsageError for values that contradict each other.
    """

    mode: Mode = Mode.OFF
    start_band: float = 0.20
    """Only what is further from its share than this is worth a run …"""
    aim_band: float = 0.10
    """… which then goes on to here."""
    min_imbalance_seconds: float = 900.0
    """How long a broker must be outside, by one measure, in every snapshot …"""
    min_snapshots: int = 3
    """… and in how many of them at least."""
    cool_down_seconds: float = 1800.0
    """How long nothing is begun after any run, or an election of its own, has ended."""
    max_bytes_per_hour: float = 100e9
    max_moves_per_hour: int = 200
    """Partitions that get other replicas or another preferred leader, or are given back to it."""
    min_benefit: float = 0.25
    """Shares that must come into the band for each broker's share of data that is copied."""
    avoid: Hours = field(default_factory=Hours)
    """Busy hours: nothing is begun in them."""
    only: Hours = field(default_factory=Hours)
    """Maintenance windows: if there are any, all is begun in them."""
    stale_seconds: float = 300.0
    """Load that is older says nothing of now."""
    topics: str | None = None
    """Only topics of these names are touched, a regular expression."""
    keep: str | None = None
    """Topics of these names are left as they are."""

    def __post_init__(self) -> None:
        if self.aim_band >= self.start_band:
            raise UsageError(
                f"--band {self.aim_band:.0%} is not inside --start-band {self.start_band:.0%}: "
                "the autopilot would never come to rest.",
                next="Let it start further out than it aims, like --start-band 20 --band 10.",
            )
        if self.only and self.only.minutes <= self.avoid.minutes:
            raise UsageError(
                f"--only {self.only.text!r} lies within --avoid {self.avoid.text!r}: no time is "
                "left to act in.",
                next="Leave one of the two out, or part of it.",
            )
        for text, option in ((self.topics, "--topics"), (self.keep, "--keep")):
            if text is not None:
                pattern(text, option)

    @property
    def inner_band(self) -> float:
        """Return how even brokers must be now by a plan for another load: some way from a start."""
        return (self.aim_band + self.start_band) / 2

    @property
    def alike(self) -> float:
        """Return how far a topic's partitions may be apart, as a part, and count as equal.

        Half of the band, so that what it hides keeps brokers even enough: within `inner_band`.
        """
        return self.aim_band / 2

    def free_seconds(self, now: datetime, max_seconds: float) -> float:
        """Return for how long from now, `max_seconds` at most, runs may begin by its hours."""
        minute = now.replace(second=0, microsecond=0)
        until = now + timedelta(seconds=max_seconds)
        while (minute := minute + timedelta(minutes=1)) < until:
            here = minute.astimezone()
            if self.avoid.holds(here) or (self.only and not self.only.holds(here)):
                return (minute - now).total_seconds()
        return max_seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode.value,
            "start_band": self.start_band,
            "band": self.aim_band,
            "lasting_seconds": self.min_imbalance_seconds,
            "lasting_looks": self.min_snapshots,
            "cool_down_seconds": self.cool_down_seconds,
            "max_bytes_per_hour": limit
            if math.isfinite(limit := self.max_bytes_per_hour)
            else None,
            "max_moves_per_hour": self.max_moves_per_hour,
            "min_benefit": self.min_benefit,
            "avoid": self.avoid.text or None,
            "only": self.only.text or None,
            "stale_seconds": self.stale_seconds,
            "topics": self.topics,
            "keep": self.keep,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AutopilotSettings:
        """Return what `to_json` wrote; raises DocumentError for anything else."""
        try:
            max_bytes = document["max_bytes_per_hour"]
            return cls(
                mode=Mode(document["mode"]),
                start_band=float(document["start_band"]),
                aim_band=float(document["band"]),
                min_imbalance_seconds=float(document["lasting_seconds"]),
                min_snapshots=int(document["lasting_looks"]),
                cool_down_seconds=float(document["cool_down_seconds"]),
                max_bytes_per_hour=math.inf if max_bytes is None else float(max_bytes),
                max_moves_per_hour=int(document["max_moves_per_hour"]),
                min_benefit=float(document["min_benefit"]),
                avoid=_hours(document["avoid"], "--avoid"),
                only=_hours(document["only"], "--only"),
                stale_seconds=float(document["stale_seconds"]),
                topics=_check_pattern(document["topics"]),
                keep=_check_pattern(document["keep"]),
            )
        except (KeyError, TypeError, ValueError, ArithmeticError, UsageError) as error:
            why = error.title.rstrip(".") if isinstance(error, UsageError) else error
            raise DocumentError(f"Not an autopilot's settings: {why}.") from error


def _check_pattern(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a pattern is no text")
    return value


def _hours(text: str | None, option: str) -> Hours:
    return Hours.parse(text, option) if text else Hours()


def describe_limits(settings: AutopilotSettings) -> dict[str, str]:
    """Return each limit by its name, in the order in which they are read."""
    lasting = format_duration(settings.min_imbalance_seconds)
    return {
        "acts": f"beyond {settings.start_band:.0%} for {lasting}, aims for {settings.aim_band:.0%}",
        "budget": f"{format_bytes(settings.max_bytes_per_hour)} and "
        f"{settings.max_moves_per_hour} partitions in any hour",
        "benefit": f"{settings.min_benefit:g} shares evened for each share copied",
        "cool-down": f"{format_duration(settings.cool_down_seconds)} after any run or election",
        "busy hours": settings.avoid.text or "none",
        "windows": settings.only.text or "any time",
        "topics": settings.topics or "all",
        "keep": settings.keep or "none",
    }


def limits_in_one_line(settings: AutopilotSettings) -> str:
    """Return all limits as part of a sentence."""
    return "; ".join(f"{name} {text}" for name, text in describe_limits(settings).items())


def unmatched_patterns(settings: AutopilotSettings, topics: Iterable[str]) -> list[str]:
    """Return a sentence for each pattern that no topic matches (yet), with what may be meant."""
    known = list(topics)
    sentences = []
    for option, text in (("--topics", settings.topics), ("--keep", settings.keep)):
        if text is None:
            continue
        try:
            matching(text, option, known, "topic")
        except UsageError as error:
            sentences.append(f"{option}: {error.title} {error.next}")
    return sentences
