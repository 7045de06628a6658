"""From windows and hours to horizons: pure functions from DataFrame to DataFrame.

A roll is one row a partition: each rate's amount, time and maximum, and the largest of its
5-minute means with their number. Rolls merge in any order. Of at most 288 means the 16 largest
are all that an exact 95th percentile takes, so a day is as small to keep as an hour.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.snapshot.format import RATES
from core.pipeline.rates import KEY, MEASURES, PERCENTILE, average, summed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOWS_A_DAY = 288
LARGEST = WINDOWS_A_DAY - math.floor(PERCENTILE * (WINDOWS_A_DAY - 1))
"""How many of a day's means, counted from the largest, the percentile can lie between."""


def of_windows(rows: DataFrame) -> DataFrame:
    """Return each partition's windows as one roll."""
    measured: list[Column] = []
    for rate in MEASURES:
        mean = average(rate)
        measured += [
            *summed(rate),
            F.collect_list(mean).alias(f"{rate}_means"),
            F.count(mean).alias(f"{rate}_n"),
        ]
    return rows.groupBy(*KEY).agg(*measured)


def of_hours(rows: DataFrame) -> DataFrame:
    """Return hours of `core.pipeline.hours` as rolls, one a partition and hour."""
    measured: list[Column] = []
    for rate in MEASURES:
        if rate in RATES:
            known = F.array_compact(F.col(f"{rate}_means").cast("array<double>"))
            measured += [F.col(f"{rate}_{part}") for part in ("sum", "ms", "max")]
        else:
            # Nobody asks for growth over a day.
            known = F.array().cast("array<double>")
            measured += [
                F.lit(None).cast(kind).alias(f"{rate}_{part}")
                for part, kind in (("sum", "double"), ("ms", "bigint"), ("max", "double"))
            ]
        measured += [
            known.alias(f"{rate}_means"),
            F.size(known).cast("long").alias(f"{rate}_n"),
        ]
    return rows.select(*KEY, *measured)


def merged(rolls: DataFrame) -> DataFrame:
    """Return rolls of the same partition as one."""
    measured: list[Column] = []
    for rate in MEASURES:
        measured += [
            *summed(rate),
            F.flatten(F.collect_list(f"{rate}_means")).alias(f"{rate}_means"),
            F.sum(f"{rate}_n").alias(f"{rate}_n"),
        ]
    return rolls.groupBy(*KEY).agg(*measured)


def trimmed(rolls: DataFrame) -> DataFrame:
    """Return rolls of at most a day with no more means than their percentile takes."""
    largest = {
        f"{rate}_means": F.slice(F.sort_array(f"{rate}_means", asc=False), 1, LARGEST)
        for rate in MEASURES
    }
    return rolls.withColumns(largest)
