"""P1, P2 and P10: Spark beside DuckDB, on the same Parquet files.

Twenty million rows of 100,000 keys. By turns in one run, two threads each; ratios are medians of
the rounds' own ratios. Spark has the settings and the 1 GiB heap that the pipeline has.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core.pipeline.session import Session, open_session

KEYS, ROWS_A_KEY, FILES = 100_000, 200, 8
ROUNDS = 3
COLUMNS = ("in_bytes", "out_bytes", "messages")
TARGETS = {"P1": 3.0, "P2": 4.5}
MEMORY_TARGET = 1.2e9


def make(folder: Path) -> None:
    """Write the samples as the spool has them: zstd, topics in a dictionary, poll after poll."""
    rng = np.random.default_rng(0)
    topics = pa.array([f"bench.topic-{t:05}" for t in range(KEYS // 100)])
    topic = pa.DictionaryArray.from_arrays(np.repeat(np.arange(KEYS // 100), 100), topics)
    partition = pa.array(np.tile(np.arange(100, dtype=np.int32), KEYS // 100))
    mean = rng.lognormal(8, 2, KEYS)
    for number in range(FILES):
        tables = []
        for poll in range(ROWS_A_KEY // FILES):
            amount = np.round(mean * rng.uniform(0.5, 1.5, KEYS))
            tables.append(
                pa.table(
                    {
                        "topic": topic,
                        "partition": partition,
                        "ts": np.full(KEYS, (number * ROWS_A_KEY // FILES + poll) * 10_000),
                        "dt_ms": np.full(KEYS, 10_000, np.int32),
                        "in_bytes": amount,
                        "out_bytes": amount * 2,
                        "messages": np.round(amount / 100).astype(np.int64),
                    }
                )
            )
        pq.write_table(
            pa.concat_tables(tables), folder / f"part-{number}.parquet", compression="zstd"
        )


def spark_aggregate(session: Session, folder: Path, exact: bool) -> None:
    rows = session.spark.read.parquet(str(folder))
    asked = [
        F.count(F.lit(1)).alias("n"),
        F.sum("dt_ms").alias("covered_ms"),
        F.max("ts").alias("last"),
        *(F.sum(c).alias(f"{c}_sum") for c in COLUMNS),
        *(F.max(c).alias(f"{c}_max") for c in COLUMNS),
    ]
    if exact:
        asked += [F.collect_list(c).alias(f"{c}_all") for c in COLUMNS[:2]]
    found = rows.groupBy("topic", "partition").agg(*asked)
    if exact:
        found = found.withColumns(
            {f"{c}_all": F.sort_array(f"{c}_all") for c in COLUMNS[:2]}
        ).select(
            "*",
            *(
                F.get(f"{c}_all", F.floor((F.size(f"{c}_all") - 1) * F.lit(q)).cast("int"))
                .alias(f"{c}_{q}")
                for c in COLUMNS[:2]
                for q in (0.5, 0.95, 0.99)
            ),
        )  # fmt: skip
        found = found.drop(*(f"{c}_all" for c in COLUMNS[:2]))
    found.write.format("noop").mode("overwrite").save()


def duckdb_aggregate(connection: Any, folder: Path, exact: bool) -> None:
    asked = ["count(*)", "sum(dt_ms)", "max(ts)"]
    asked += [f"{what}({c})" for what in ("sum", "max") for c in COLUMNS]
    if exact:
        asked += [f"quantile_disc({c}, [0.5, 0.95, 0.99])" for c in COLUMNS[:2]]
    query = (
        f"SELECT topic, partition, {', '.join(asked)} "
        f"FROM read_parquet('{folder}/*.parquet') GROUP BY ALL"
    )
    rows = connection.sql(query).to_arrow_table().num_rows
    assert rows == KEYS


def measure() -> dict[str, dict[str, Any]]:
    """Return P1, P2 and P10."""
    import duckdb

    pa.set_cpu_count(2)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        folder = Path(name)
        make(folder)
        connection = duckdb.connect(config={"threads": 2})
        session = open_session()
        try:
            times, peak = _by_turns(session, connection, folder, exact=False), _peak_memory(session)
            exact = _by_turns(session, connection, folder, exact=True)
        finally:
            session.stop()
    return {
        "P1": _ratio(times, TARGETS["P1"]),
        "P2": _ratio(exact, TARGETS["P2"]),
        "P10": {
            "target": f"at most {MEMORY_TARGET / 1e9:g} GB",
            "value": f"{peak / 1e9:.2f} GB",
            "met": peak <= MEMORY_TARGET,
            "bytes": peak,
        },
    }


def _by_turns(
    session: Session, connection: Any, folder: Path, *, exact: bool
) -> dict[str, list[float]]:
    """Return seconds of each way in each round; one round before is not counted."""
    ways: dict[str, Callable[[], None]] = {
        "duckdb": lambda: duckdb_aggregate(connection, folder, exact),
        "spark": lambda: spark_aggregate(session, folder, exact),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name in ways if number % 2 else reversed(ways):
            began = time.monotonic()
            ways[name]()
            if number:
                times[name].append(round(time.monotonic() - began, 2))
    return times


def _ratio(times: dict[str, list[float]], target: float) -> dict[str, Any]:
    ratio = median(a / b for a, b in zip(times["spark"], times["duckdb"], strict=True))
    return {
        "target": f"at most {target:.1f}",
        "value": f"{ratio:.1f}",
        "met": ratio <= target,
        "ratio": round(ratio, 2),
        "seconds": times,
    }


def _peak_memory(session: Session) -> int:
    """Return the most memory that Spark's JVM has held, in bytes."""
    status = Path(f"/proc/{jvm_pid(session)}/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def jvm_pid(session: Session) -> int:
    """Return the process id of Spark's JVM."""
    return int(session.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
