"""An hour's and a day's figures: what counting by hand gives, whatever comes late."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from feeding import (
    CLUSTER,
    COLUMNS,
    START,
    Row,
    batch_records,
    feed,
    newest,
    percentile,
    random_polls,
    row,
    run,
    summed_up,
    window_of,
    windows_by_hand,
)

from core.load.samples import HOUR_MICROS, WINDOW_MICROS, to_micros
from core.load.snapshot.format import RATES
from core.pipeline import windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = timedelta(days=1)


def day(root: Path) -> dict[tuple[str, str], Any]:
    snapshot = newest(root)
    return {
        (rate, what): snapshot.rate(rate, "24h", what)
        for rate in COLUMNS
        for what in ("avg", "p95", "max")
    }


def expect_day(root: Path, rows: list[Row], until: datetime) -> None:
    """Hold the figures of the day that ends with `until` to what the rows sum up to."""
    rates = day(root)
    for p in range(3):
        mine = [r for r in rows if r["partition"] == p and until - DAY <= r["ts"] < until]
        by_hand = windows_by_hand(mine)
        for rate, column in COLUMNS.items():
            expected = summed_up(mine, column)
            means = [w[rate]["avg"] for w in by_hand.values() if w[rate]["avg"] is not None]
            expected["p95"] = percentile(means, 0.95)
            for what in ("avg", "p95", "max"):
                assert np.isclose(rates[rate, what][p], expected[what], rtol=1e-9), (p, rate, what)


def test_day_figures_equal_those_counted_by_hand_over_its_whole_hours(
    spark: SparkSession, tmp_path: Path
) -> None:
    # 32 h and some minutes, and nothing of each second window: half the windows hold the same law.
    polls = random_polls(seed=3, polls=690, seconds=168)
    rows = [r for poll in polls for r in poll if window_of(r["ts"]).minute % 10 == 0]
    first = [r for r in rows if r["ts"] < START + timedelta(hours=26, minutes=20)]
    second = [r for r in rows[len(first) :] if r["ts"] < START + timedelta(hours=31, minutes=50)]
    third = rows[len(first) + len(second) :]
    late = second[-300:-270]
    feed(tmp_path, "a", first)
    run(spark, tmp_path, hours=33)
    expect_day(tmp_path, first, START + timedelta(hours=26))
    feed(tmp_path, "b", [r for r in second if r not in late])
    run(spark, tmp_path, hours=33)
    expect_day(
        tmp_path, [*first, *(r for r in second if r not in late)], START + timedelta(hours=31)
    )
    # What comes late changes the hours that are not rolled up, in the next day's figures.
    feed(tmp_path, "late", late)
    run(spark, tmp_path, hours=33)
    feed(tmp_path, "c", third)
    run(spark, tmp_path, hours=33)
    expect_day(tmp_path, rows, START + timedelta(hours=32))
    carried = batch_records(tmp_path)[-1]["carried"]
    rolled_at = carried["clusters"][CLUSTER]["rolled_at"]
    assert rolled_at == to_micros(START) + 25 * HOUR_MICROS, "six hours may change"
    assert all(part["last"] >= rolled_at for part in carried["windows"])
    assert all(part["last"] < rolled_at for part in carried["hours"])


def test_hour_figures_are_those_of_the_known_minutes_until_a_window_closes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll, offset_delta=100 * poll) for poll in range(1, 4)])
    run(spark, tmp_path)
    snapshot = newest(tmp_path)
    for horizon in ("5m", "1h", "24h"):
        assert snapshot.rate("messages_per_s", horizon).tolist() == [20.0]
        assert snapshot.rate("messages_per_s", horizon, "max").tolist() == [30.0]
    feed(tmp_path, "b", [row(31, offset_delta=700), row(32, partition=1, offset_delta=900)])
    run(spark, tmp_path)
    snapshot = newest(tmp_path)
    assert snapshot.window_end == START + timedelta(seconds=320)
    assert snapshot.partition.tolist() == [1], "the one that the newest poll has"
    assert snapshot.rate("messages_per_s", "1h").tolist() == [90.0], "it is new"
    feed(tmp_path, "c", [row(33), row(33, partition=1)])
    run(spark, tmp_path)
    assert newest(tmp_path).rate("messages_per_s", "1h").tolist() == [20.0, 50.0]


def test_hour_without_a_closed_window_has_the_figures_of_the_known_minutes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll, offset_delta=100 * poll) for poll in range(1, 32)])
    run(spark, tmp_path)
    assert newest(tmp_path).rate("messages_per_s", "1h").tolist() == [150.0]
    feed(tmp_path, "b", [row(1000)])  # almost three hours on
    run(spark, tmp_path)
    feed(tmp_path, "c", [row(1001)])
    run(spark, tmp_path)
    assert newest(tmp_path).rate("messages_per_s", "1h").tolist() == [10.0]


def test_hour_and_day_figures_are_aggregated_from_their_windows(spark: SparkSession) -> None:
    at = to_micros(START)
    names = [part.split()[0] for part in windows.WINDOW.split(", ")]

    def window(minutes: int, amount: float | None) -> tuple[Any, ...]:
        known = {
            "cluster": "c",
            "topic_id": "id-t",
            "partition": 0,
            "start": at + minutes // 5 * WINDOW_MICROS,
            "in_bytes_per_s_sum": amount,
            "in_bytes_per_s_ms": 1000 if amount else 0,
            "in_bytes_per_s_max": amount,
            "in_bytes_per_s_avg": amount,
        }
        return tuple(known.get(name) for name in names)

    parts = [window(5, 10.0), window(15, 30.0), window(20, None), window(65, 50.0)]
    late = window(15, 70.0)
    whole = windows.one_a_window(spark.createDataFrame([*parts, late], windows.WINDOW))
    hours = {(r.hour - at) // HOUR_MICROS: r for r in windows.hours_of(whole).collect()}
    assert (hours[0].in_bytes_per_s_sum, hours[0].in_bytes_per_s_ms) == (110.0, 3000)
    assert sorted(hours[0].in_bytes_per_s_means) == [10.0, 50.0]
    assert hours[1].in_bytes_per_s_means == [50.0]
    (figures,) = windows.day_figures(windows.hours_of(whole)).collect()
    assert figures.in_bytes_per_s_24h_avg == 40.0
    assert figures.in_bytes_per_s_24h_max == 70.0
    assert figures.in_bytes_per_s_24h_p95 == 50.0
    assert all(figures[f"{rate}_24h_avg"] is None for rate in RATES if rate != "in_bytes_per_s")


@pytest.mark.parametrize("n", [0, 1, 2, 20, 21, 288])
def test_percentile_equals_numpys_percentile(spark: SparkSession, n: int) -> None:
    values = np.random.default_rng(n).lognormal(size=n).tolist()
    rows = spark.createDataFrame([(sorted(values, reverse=True),)], "a array<double>")

    from core.pipeline.rates import percentile as p95

    value = rows.selectExpr(f"{p95('a')} AS p").collect()[0].p
    assert value == (pytest.approx(np.percentile(values, 95)) if n else None)
