"""What samples, windows and hours say of a partition's rates; pure functions on columns.

A rate is always a total over the time it covers, never a mean of rates. Percentiles are exact.
What has many parts is written in SQL: Spark reads a line of it in the time that three calls from
Python take, and a small batch took longer to write down than to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.load.snapshot.format import RATES, Quality
from core.load.windows import LENGTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = ("cluster", "topic_id", "partition")
PERCENTILE = 0.95
LENGTH_MS = LENGTH.total_seconds() * 1000.0

MEASURES = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
    "growth_bytes_per_s": "size_delta",
}
"""Each rate and the column of the sample it is made of."""

SAMPLE = "struct<at:bigint,dt_ms:int,leader:int,size_bytes:bigint,method:tinyint,{}>".format(
    ",".join(f"{rate}:double" for rate in MEASURES)
)
"""What is kept of a leader's sample: `at` in microseconds since the epoch, amounts by rate."""


SAMPLED = "struct(at, dt_ms, broker_id AS leader, size_bytes, in_method AS method, {})".format(
    ", ".join(f"double({column}) AS {rate}" for rate, column in MEASURES.items())
)
"""What is kept of a row of samples, as SAMPLE."""


def with_figures(rows: DataFrame, begins_at: str) -> DataFrame:
    """Add what each row's `samples` say, of the time from `begins_at` (microseconds) on.

    For each measure `…_sum`, `…_ms` and `…_avg`, for each rate `…_max` and `…_p95`, too; null where
    nothing is known. Then `n` intervals, `covered_ms`, `quality`, `method_worst`, and the last
    sample as `last`.
    """
    within = f"CAST(least(s.dt_ms, (s.at - {begins_at}) / 1000) AS BIGINT)"
    counted = rows.selectExpr(
        "*",
        *(f"{_sum('s.dt_ms', rate, '0L')} AS {rate}_ms" for rate in MEASURES),
        *(f"{_sum(f's.{rate}', rate, '0D')} AS _{rate}_sum" for rate in MEASURES),
        *(f"{_descending_rates_sql(rate)} AS _{rate}" for rate in RATES),
        "CAST(size(filter(samples, s -> s.dt_ms IS NOT NULL)) AS BIGINT) AS n",
        "aggregate(samples, 0L, (total, s) -> total + coalesce(s.dt_ms, 0L)) AS covered_ms",
        f"aggregate(samples, 0L, (total, s) -> total + coalesce({within}, 0L)) AS _inside",
        "array_max(samples.method) AS method_worst",
        "array_max(samples) AS last",
    )
    figures = [f"{QUALITY} AS quality"]
    for rate in MEASURES:
        total, ms = f"_{rate}_sum", f"{rate}_ms"
        figures.append(f"IF({ms} > 0, {total}, NULL) AS {rate}_sum")
        figures.append(f"IF({ms} > 0, {total} * 1000D / {ms}, NULL) AS {rate}_avg")
    for rate in RATES:
        figures.append(f"get(_{rate}, 0) AS {rate}_max")
        figures.append(f"{percentile(f'_{rate}')} AS {rate}_p95")
    spare = ("_inside", *(f"_{rate}_sum" for rate in MEASURES), *(f"_{rate}" for rate in RATES))
    return counted.selectExpr("*", *figures).drop(*spare)


def _sum(field: str, rate: str, zero: str) -> str:
    """Return the sum of a field over the samples that know a rate."""
    known = f"s.dt_ms IS NOT NULL AND s.{rate} IS NOT NULL"
    return f"aggregate(samples, {zero}, (total, s) -> total + IF({known}, {field}, {zero}))"


def _descending_rates_sql(rate: str) -> str:
    each = f"transform(samples, s -> s.{rate} * 1000D / s.dt_ms)"
    return f"sort_array(array_compact({each}), false)"


def percentile(descending: str) -> str:
    """Return the exact 95th percentile of an array, interpolated as NumPy does; null of none."""
    last = f"(size({descending}) - 1)"
    at = f"({last} * {PERCENTILE}D)"
    below = f"get({descending}, CAST({last} - floor({at}) AS INT))"
    above = f"coalesce(get({descending}, CAST({last} - 1 - floor({at}) AS INT)), {below})"
    return f"{below} + ({above} - {below}) * ({at} - floor({at}))"


def _min_coverage_sql(share: float) -> str:
    return f"_inside >= {share}D * {LENGTH_MS}D AND _inside >= {share}D * covered_ms"


QUALITY = f"""CAST(CASE
    WHEN n = 0 THEN {Quality.NONE.value}
    WHEN {_min_coverage_sql(0.9)} THEN {Quality.FULL.value}
    WHEN {_min_coverage_sql(0.5)} THEN {Quality.HALF.value}
    WHEN covered_ms >= 0.9D * {LENGTH_MS}D THEN {Quality.ADJACENT.value}
    ELSE {Quality.SINGLE.value}
END AS TINYINT)"""
"""`core.load.snapshot.format.Quality` of one window's length.

An interval that began long before (the collector was away) tells of the time before too.
"""
