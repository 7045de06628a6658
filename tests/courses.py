"""How well a run told its time left: what it said over its course, against when it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

TENTHS = range(1, 10)
"""Of a run's time: before the first nothing has been seen, after the last nothing is left."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run said at one moment of its own clock, in seconds since it was asked for.

    `largest` is the longest time left that it said of a single move, None while of none.
    """

    at: float
    left: float | None
    largest: float | None = None


@dataclass(frozen=True, slots=True)
class Tenth:
    """What was said at a tenth of a run beside what was then left.

    `error` is what it was off by over the run's whole time, `of_left` over what was really left.
    """

    tenth: int
    at: float
    said: float
    largest: float | None
    really: float
    error: float
    of_left: float


def tenths(course: Sequence[Prediction], seconds: float) -> list[Tenth]:
    """Return what was said last before each tenth of a run that took so many seconds."""
    comparisons = []
    for tenth in TENTHS:
        moment = seconds * tenth / 10
        known = [
            prediction
            for prediction in course
            if prediction.at <= moment and prediction.left is not None
        ]
        if not known:
            continue
        last = known[-1]
        eta, really = max(0.0, (last.left or 0.0) - (moment - last.at)), seconds - moment
        off = abs(eta - really)
        comparisons.append(
            Tenth(tenth, moment, eta, last.largest, really, off / seconds, off / max(really, 1e-9))
        )
    return comparisons


def longer_than_the_whole(course: Iterable[Prediction]) -> list[Prediction]:
    """Return when a single move was said to take longer than the whole run."""
    return [
        prediction
        for prediction in course
        if prediction.left is not None
        and prediction.largest is not None
        and prediction.largest > prediction.left + 0.05
    ]


def scored(runs: Iterable[Sequence[Tenth]]) -> dict[str, float]:
    """Return the median and the worst of all tenths of all runs, over the whole and what was left.

    A worst `error` is of one tenth of one run.
    """
    rows = [row for run in runs for row in run]
    return {
        "median": median(row.error for row in rows),
        "worst": max(row.error for row in rows),
        "median_of_left": median(row.of_left for row in rows),
        "worst_of_left": max(row.of_left for row in rows),
    }


def as_json(rows: Iterable[Tenth]) -> list[dict[str, Any]]:
    return [
        {name: None if v is None else round(v, 3) for name, v in asdict(row).items()}
        for row in rows
    ]
