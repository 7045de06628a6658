"""P1 and P2: the job's own sums beside DuckDB's, on the same Parquet files.

Twenty million samples of 100,000 partitions. What the job sums up in such numbers are windows, into
hours and days; here each sample stands for a window of its own. P1 is `windows.one_a_window`: of
four rates the total, the time it covers, the largest and the mean. P2 is `windows.hour_figures`,
which adds the exact 95th percentile of the rates that have one: in, out and messages. DuckDB is
asked for the same columns, and must find the same. By turns in one run, two threads each; ratios
are medians of the rounds' own ratios. Spark has the settings and the 1 GiB heap that a pipeline
has.

From samples to figures the job's way is longer, as it must count each once and keep it for what
comes later: `samples.by_partition`, then `rates.with_figures`. That is timed beside P2, without a
target, on as many rows as the job takes in a batch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core.load.snapshot.format import RATES
from core.pipeline import samples, windows
from core.pipeline.rates import MEASURES, with_figures
from core.pipeline.session import Session, open_session, suit
from core.pipeline.source import ROWS_PER_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS, SAMPLES_EACH, FILES = 100_000, 200, 8
PARTITIONS_A_TOPIC = 100
POLL_MS = 10_000
ROUNDS = 3
TARGETS = {"P1": 2.7, "P2": 4.5}


def make(folder: Path, partitions: int, samples_each: int = SAMPLES_EACH) -> None:
    """Write samples as the spool has them: zstd, topics in a dictionary, poll after poll."""
    rng = np.random.default_rng(0)
    topics = partitions // PARTITIONS_A_TOPIC
    names = pa.array([f"id-{t:019}" for t in range(topics)])
    of = np.repeat(np.arange(topics, dtype=np.int32), PARTITIONS_A_TOPIC)
    topic = pa.DictionaryArray.from_arrays(of, names)
    partition = pa.array(np.tile(np.arange(PARTITIONS_A_TOPIC, dtype=np.int32), topics))
    mean = rng.lognormal(8, 2, partitions)
    each = samples_each // FILES
    for number in range(FILES):
        tables = []
        for poll in range(each):
            amount = np.round(mean * rng.uniform(0.5, 1.5, partitions))
            tables.append(
                pa.table(
                    {
                        "topic_id": topic,
                        "partition": partition,
                        "ts": np.full(partitions, (number * each + poll) * POLL_MS * 1000),
                        "dt_ms": np.full(partitions, POLL_MS, np.int32),
                        "offset_delta": np.round(amount / 100).astype(np.int64),
                        "in_bytes": amount,
                        "out_bytes": amount * 2,
                        "size_delta": amount.astype(np.int64),
                    }
                )
            )
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.concat_tables(tables), path, compression="zstd")


# -- the same, asked of both -----------------------------------------------------------------------


def spark_figures(session: Session, folder: Path, *, exact: bool) -> DataFrame:
    """Return P1's figures, or P2's where they are to be `exact`: the job's own functions."""
    rate_of = {rate: F.col(c) * 1000.0 / F.col("dt_ms") for rate, c in MEASURES.items()}
    each = session.spark.read.parquet(str(folder)).select(
        F.lit("bench").alias("cluster"),
        "topic_id",
        "partition",
        F.lit(0).cast("long").alias("start"),
        *(F.col(c).cast("double").alias(f"{rate}_sum") for rate, c in MEASURES.items()),
        *(F.col("dt_ms").cast("long").alias(f"{rate}_ms") for rate in MEASURES),
        *(value.alias(f"{rate}_{name}") for rate, value in rate_of.items() for name in _OF_ONE),
    )
    return windows.hour_figures(each) if exact else windows.one_a_window(each)


_OF_ONE = ("max", "avg")
"""What of a single sample is its rate."""


def duckdb_query(folder: Path, *, exact: bool) -> str:
    """Return the same figures as a query, in columns of the same names."""
    asked = []
    for rate, column in MEASURES.items():
        known, value = rate in RATES, f"{column}::double * 1000.0 / dt_ms"
        total, ms = f"sum({column}::double)", "sum(dt_ms::bigint)"
        average = f"{total} * 1000.0 / {ms}"
        if not exact:
            asked += [f"{total} AS {rate}_sum", f"{ms} AS {rate}_ms", f"max({value}) AS {rate}_max"]
            asked += [f"{average} AS {rate}_avg"] if known else []
        else:
            asked.append(f"{average} AS {rate}_1h_avg")
            if known:
                asked.append(f"quantile_cont({value}, 0.95) AS {rate}_1h_p95")
                asked.append(f"max({value}) AS {rate}_1h_max")
    return (
        f"SELECT topic_id, partition, {', '.join(asked)} "
        f"FROM read_parquet('{folder}/*.parquet') GROUP BY ALL"
    )


def run_spark(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def expect_same(connection: Any, query: str, frame: DataFrame) -> None:
    """Hold what both find to each other, by the sum of each column and the number of rows."""
    names = [c for c in frame.columns if c not in ("cluster", "topic_id", "partition", "start")]
    ours = frame.agg(F.count(F.lit(1)), *(F.sum(name) for name in names)).collect()[0]
    sums = ", ".join(f"sum({name})" for name in names)
    theirs = connection.sql(f"SELECT count(*), {sums} FROM ({query})").fetchall()[0]
    np.testing.assert_allclose(list(ours), [float(value) for value in theirs], rtol=1e-9)


def from_samples(session: Session, rows: DataFrame, last: int) -> DataFrame:
    """Return figures of samples as the job makes them, counted once each and kept."""
    whole = rows.withColumns(
        {
            "cluster": F.lit("bench"),
            "topic": F.col("topic_id"),
            "at": F.col("ts"),
            "broker_id": F.lit(1),
            "is_leader": F.lit(True),
            "collector_id": F.lit("bench"),
            "poll_id": F.col("ts"),
            "in_method": F.lit(2).cast("byte"),
            "size_bytes": F.lit(0).cast("long"),
        }
    )
    of_cluster = session.spark.createDataFrame([("bench", 0)], "cluster string, whole_at bigint")
    return with_figures(samples.by_partition(whole, of_cluster), "0L")


# -- measuring -------------------------------------------------------------------------------------


def measure(partitions: int = PARTITIONS) -> dict[str, dict[str, Any]]:
    """Return P1 and P2."""
    import duckdb

    pa.set_cpu_count(2)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        folder = Path(name)
        make(folder, partitions)
        connection = duckdb.connect(config={"threads": 2})
        session = open_session()
        suit(session.spark, partitions * SAMPLES_EACH)
        try:
            ratios = {
                part: _ratio(_by_turns(session, connection, folder, exact), TARGETS[part])
                for part, exact in (("P1", False), ("P2", True))
            }
            ratios["P2"]["from_samples"] = _from_samples(session, connection, folder, partitions)
        finally:
            session.stop()
    return {
        part: {"partitions": partitions, "samples": partitions * SAMPLES_EACH, **of}
        for part, of in ratios.items()
    }


def _by_turns(
    session: Session, connection: Any, folder: Path, exact: bool
) -> dict[str, list[float]]:
    """Return seconds of each way in each round; one round before is not counted."""
    query = duckdb_query(folder, exact=exact)
    expect_same(connection, query, spark_figures(session, folder, exact=exact))
    ways: dict[str, Callable[[], Any]] = {
        "duckdb": lambda: connection.sql(query).to_arrow_table(),
        "spark": lambda: run_spark(spark_figures(session, folder, exact=exact)),
    }
    return _timed(ways)


def _timed(ways: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name in ways if number % 2 else reversed(ways):
            began = time.monotonic()
            ways[name]()
            if number:
                times[name].append(round(time.monotonic() - began, 3))
    return times


def _from_samples(
    session: Session, connection: Any, folder: Path, partitions: int
) -> dict[str, Any]:
    """Return seconds of a batch's rows from samples to figures, beside DuckDB's of P2."""
    last = min(SAMPLES_EACH, ROWS_PER_BATCH // partitions) * POLL_MS * 1000
    rows = session.spark.read.parquet(str(folder)).where(F.col("ts") < last)
    query = duckdb_query(folder, exact=True).replace("GROUP BY", f"WHERE ts < {last} GROUP BY")
    times = _timed(
        {
            "duckdb": lambda: connection.sql(query).to_arrow_table(),
            "spark": lambda: run_spark(from_samples(session, rows, last)),
        }
    )
    return {"samples": partitions * last // POLL_MS // 1000, "seconds": times}


def _ratio(times: dict[str, list[float]], target: float) -> dict[str, Any]:
    ratio = median(a / b for a, b in zip(times["spark"], times["duckdb"], strict=True))
    return {
        "target": f"at most {target:.1f}",
        "value": f"{ratio:.1f}",
        "met": ratio <= target,
        "ratio": round(ratio, 2),
        "seconds": times,
    }


def jvm_pid(session: Session) -> int:
    """Return the process id of Spark's JVM."""
    return int(session.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
