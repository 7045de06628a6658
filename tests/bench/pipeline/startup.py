"""P5 to P7: what a process costs that starts: Spark's, and that of who reads a snapshot."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from core.load.load import Source
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, LoadSnapshot
from core.load.snapshot.writer import write_columns
from tests.bench.pipeline.polls import CLUSTER, START, Polls

ROWS = 1_000_000
ONCE_TARGET, READ_TARGET = 0.6, 1.2
PAINT_TESTS = (
    "tests/tui/test_shell.py::test_the_first_paint_imports_nothing_that_is_slow",
    "tests/core/load/test_snapshot.py::test_reading_a_snapshot_imports_neither_pandas_nor_datasets",
)

ONCE = """
import sys
from datetime import timedelta
from pathlib import Path
from core.pipeline import session
from core.pipeline.job import Job
from tests.bench.pipeline.polls import CLUSTER, START
from tests.spark.feeding import StillClock

if sys.argv[2] == "without":
    made = session._java_options
    session._java_options = lambda *given: " ".join(
        word for word in made(*given).split() if "SharedArchiveFile" not in word
    )
running = session.open_session(quick=True)
Job(running.spark, Path(sys.argv[1]), CLUSTER, StillClock(START + timedelta(hours=1))).once()
running.stop()
"""


def timed(argv: Sequence[str]) -> float:
    """Return seconds of a whole process that must end well."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", *argv], check=True, env=dict(os.environ))
    return time.monotonic() - began


def once(rounds: int = 3) -> dict[str, Any]:
    """P5: a one-shot job of a whole process, with the class-data archive and without, by turns."""
    times: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        polls = Polls(1_000)

        def turn(name: str, how: str) -> float:
            root = Path(folder) / name
            for number in range(30):
                polls.feed(root, number)
            return timed(["-c", ONCE, str(root), how])

        turn("first", "with")  # leaves the archive behind
        for number in range(rounds):
            for how in times if number % 2 else reversed(times):
                times[how].append(turn(f"{how}-{number}", how))
    ratio = median(times["with"]) / median(times["without"])
    return {
        "target": f"with / without at most {ONCE_TARGET:g}",
        "value": f"{ratio:.2f}",
        "met": ratio <= ONCE_TARGET,
        "seconds": {how: [round(s, 2) for s in of] for how, of in times.items()},
    }


def read(rounds: int = 7) -> dict[str, Any]:
    """P6: a process that reads a snapshot of a million rows, over one that imports pyarrow."""
    rng = np.random.default_rng(0)
    snapshot = LoadSnapshot(
        cluster_id=CLUSTER,
        snapshot_id="1",
        source=Source.SPARK,
        published_at=START,
        window_end=START,
        topics=tuple(f"topic-{i:05}" for i in range(ROWS // 100)),
        topic_of=np.repeat(np.arange(ROWS // 100, dtype=np.int32), 100),
        partition=np.tile(np.arange(100, dtype=np.int32), ROWS // 100),
        rates={(h, r, s): rng.random(ROWS) for h in HORIZONS for r in RATES for s in STATISTICS},
        size_bytes=rng.integers(0, 10**9, ROWS),
        growth_bytes_per_s=rng.random(ROWS),
        quality=np.zeros(ROWS, np.int8),
        method=np.zeros(ROWS, np.int8),
    )
    words = {
        "read": "import sys; from pathlib import Path; from core.load.snapshot import reader; "
        f"assert len(reader.read_columns(Path(sys.argv[1])).partition) == {ROWS}",
        "import": "import pyarrow",
    }
    times: dict[str, list[float]] = {"read": [], "import": []}
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        path = Path(folder) / "partitions.arrow"
        write_columns(path, snapshot)
        for number in range(rounds + 1):
            for what in times if number % 2 else reversed(times):
                seconds = timed(["-c", words[what], str(path)])
                if number:
                    times[what].append(seconds)
    ratio = median(times["read"]) / median(times["import"])
    return {
        "target": f"at most {READ_TARGET:g}",
        "value": f"{ratio:.2f}",
        "met": ratio <= READ_TARGET,
        "seconds": {what: [round(s, 3) for s in of] for what, of in times.items()},
    }


def first_paint() -> dict[str, Any]:
    """P7: the tests that start fresh interpreters and look at what they have imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *PAINT_TESTS],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "target": "0 forbidden modules",
        "value": "0" if done.returncode == 0 else "some: see what the tests say",
        "met": done.returncode == 0,
        "said": done.stdout.splitlines()[-5:],
    }
