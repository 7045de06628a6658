"""Calibrates estimates by the durations of earlier runs on the same cluster. Pure.

It touches times and ranges only: whether a plan ever ends, and which rate a deadline needs in
closed form, are no matter of experience. Who reads journals hands `Lesson`s in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from types import MappingProxyType

from core.plan.copies import PlanCopies, Side, min_seconds
from core.plan.estimate.uncertainty import AROUND_RANGE, AROUND_SECONDS, TimeRange
from core.units import counted

MAX_RUNS = 9
"""How many runs are learned from at most, the newest ones."""
MIN_RUNS = 3
"""From so many on a median is of some use; one odd run decides nothing then."""
FACTORS = (0.75, 1.5)
"""Beyond these the model is wrong, or the cluster is another by now; no factor mends that."""
OWN_WEIGHT = 4
"""The estimate's own range counts as so many runs: few of them narrow it only a little."""
MAX_REACH = 3.0
SPEEDS = 0.25
"""How much faster or slower than seen another plan may be copied without a throttle."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One undisturbed run: what was estimated, and what the clock said; seconds of copying.

    `side` is whose quota was the limit, None without a throttle; then nothing was estimated, and
    `busiest_bytes` tells how much the busiest broker side copied.
    """

    side: Side | None
    took_seconds: float
    busiest_bytes: int
    estimated_seconds: float | None = None
    range_seconds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What runs took over what was estimated, and how much of their ranges they used."""

    runs: int
    factor: float
    reach: float

    def on(self, spread: TimeRange) -> TimeRange:
        """Return times as they are to be expected here; at a risk the range gets no narrower."""
        copying = spread.seconds - AROUND_SECONDS
        reach = max(self.reach, 1.0) if spread.risk else self.reach
        low, high = spread.min_seconds - AROUND_RANGE[0], spread.max_seconds - AROUND_RANGE[1]
        expected = copying * self.factor
        below = max(copying - low, 0.0) * self.factor * reach
        above = max(high - copying, 0.0) * self.factor * reach
        return replace(
            spread,
            seconds=expected + AROUND_SECONDS,
            min_seconds=max(expected - below, 0.0) + AROUND_RANGE[0],
            max_seconds=expected + above + AROUND_RANGE[1],
            ends={side: end * self.factor for side, end in spread.ends.items()},
            trace=spread.trace
            and replace(spread.trace, stretch=spread.trace.stretch * self.factor),
        )


@dataclass(frozen=True, slots=True)
class Speed:
    """What the busiest broker sides copied without a throttle, bytes/s."""

    runs: int
    usual_bytes_per_s: float
    min_bytes_per_s: float
    max_bytes_per_s: float

    def on(self, what: PlanCopies) -> TimeRange | None:
        """Return how long a plan takes without a throttle, None where it would never end."""
        slow, fast = self.min_bytes_per_s / (1 + SPEEDS), self.max_bytes_per_s * (1 + SPEEDS)
        usual, high, low = (
            min_seconds(what, rate) for rate in (self.usual_bytes_per_s, slow, fast)
        )
        if usual is None or high is None or low is None:
            return None
        return TimeRange(usual + AROUND_SECONDS, low + AROUND_RANGE[0], high + AROUND_RANGE[1])


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was learned of one cluster, by whose quota is the limit; and without a throttle."""

    sides: Mapping[Side, Learned] = field(default_factory=lambda: MappingProxyType({}))
    speed: Speed | None = None


NOTHING_LEARNED = Calibration()


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How an estimate was calibrated: its time and range from before, None without a throttle."""

    runs: int
    factor: float | None
    seconds: float | None
    range_seconds: tuple[float, float] | None

    @property
    def words(self) -> str:
        """Return `learned from 4 runs here: 3 % longer`."""
        learned = f"learned from {counted(self.runs, 'run')} here"
        if self.factor is None:
            return learned
        percent = round(abs(self.factor - 1) * 100)
        longer = "longer" if self.factor > 1 else "shorter"
        return f"{learned}: {f'{percent} % {longer}' if percent else 'as reckoned'}"


def build_calibration(lessons: Iterable[Lesson]) -> Calibration:
    """Return what runs teach, the newest first; nothing of a side that had too few of them."""
    of_side: dict[Side, list[Lesson]] = {side: [] for side in Side}
    speeds: list[float] = []
    for lesson in lessons:
        if lesson.took_seconds <= 0:
            continue
        if lesson.side is not None:
            of_side[lesson.side].append(lesson)
        elif lesson.busiest_bytes > 0:
            speeds.append(lesson.busiest_bytes / lesson.took_seconds)
    newest = speeds[:MAX_RUNS]
    speed = Speed(len(newest), median(newest), min(newest), max(newest)) if newest else None
    learned = {side: _learned(known[:MAX_RUNS]) for side, known in of_side.items()}
    return Calibration(
        {side: correction for side, correction in learned.items() if correction is not None}, speed
    )


def _learned(lessons: Sequence[Lesson]) -> Learned | None:
    known = [
        (lesson.took_seconds, lesson.estimated_seconds, lesson.range_seconds)
        for lesson in lessons
        if lesson.estimated_seconds and lesson.range_seconds
    ]
    if len(known) < MIN_RUNS:
        return None
    low, high = FACTORS
    factor = min(max(median(took / estimated for took, estimated, _ in known), low), high)
    used = 0.0
    for took, estimated, (shortest, longest) in known:
        off = took / factor - estimated
        room = longest - estimated if off > 0 else estimated - shortest
        used = max(used, abs(off) / max(room, 0.01 * estimated))
    runs = len(known)
    if used < 1:  # a range that was kept to narrows with each run; one that was not widens at once
        used = (OWN_WEIGHT + runs * used) / (OWN_WEIGHT + runs)
    return Learned(runs, factor, min(used, MAX_REACH))
