"""P10: what the driver holds, its Python and Spark's JVM, and whether it grows with partitions.

A process of its own sums up P1's twenty million samples, then lets the job take two polls of as
many partitions. It does so with P1's partitions, and with four times as many. Whatever comes to the
driver by partition is seen in the second; the heap is bounded, so that it is Python's that tells.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from core.clock import SystemClock
from core.pipeline.job import Job
from core.pipeline.session import Session, open_session
from tests.bench.pipeline import engines
from tests.bench.pipeline.polls import POLL_SECONDS, Polls

TIMES = 4
POLLS = 2
PYTHON_TARGET, JVM_TARGET = 300e6, 1.2e9
GROWN = 1.1
"""What is still no growth: two runs of the same differ by some of it."""
CLUSTER = "bench"


def measure(partitions: int = engines.PARTITIONS) -> dict[str, Any]:
    """Return the peaks at both sizes, in bytes."""
    peaks_by_size = {}
    for times in (1, TIMES):
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
            folder = Path(name)
            many = partitions * times
            (folder / "rows").mkdir()
            engines.make(folder / "rows", many, engines.SAMPLES_EACH // times)
            polls, now = Polls(many), SystemClock().now()
            for number in range(POLLS):
                at = now - timedelta(seconds=POLL_SECONDS * (POLLS - number))
                polls.feed(folder / "root", number, at)
            peaks_by_size[str(many)] = _in_its_own_process(folder)
    first, last = peaks_by_size.values()
    python = max(peaks["python"] for steps in peaks_by_size.values() for peaks in steps.values())
    jvm = max(peaks["jvm"] for steps in peaks_by_size.values() for peaks in steps.values())
    grown = max(
        last[step][which] / first[step][which] for step in first for which in ("python", "jvm")
    )
    return {
        "target": (
            f"at most {PYTHON_TARGET / 1e6:.0f} MB and {JVM_TARGET / 1e9:g} GB, "
            f"at {TIMES} times the partitions no more"
        ),
        "value": f"{python / 1e6:.0f} MB and {jvm / 1e9:.2f} GB, {grown:.2f} times",
        "met": python <= PYTHON_TARGET and jvm <= JVM_TARGET and grown <= GROWN,
        "bytes": peaks_by_size,
        "grown": round(grown, 3),
    }


def _in_its_own_process(folder: Path) -> dict[str, dict[str, int]]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.bench.pipeline.memory", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    peaks: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def peaks(session: Session) -> dict[str, int]:
    """Return the most memory that this process and Spark's JVM have held, in bytes."""
    return {"python": _peak("self"), "jvm": _peak(str(engines.jvm_pid(session)))}


def _peak(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    folder = Path(sys.argv[1])
    session = open_session()
    try:
        engines.run_spark(engines.spark_figures(session, folder / "rows", exact=False))
        peaks_by_step = {"P1": peaks(session)}
        Job(session.spark, folder / "root", CLUSTER, SystemClock()).once()
        peaks_by_step["the job"] = peaks(session)
    finally:
        session.stop()
    print(json.dumps(peaks_by_step))


if __name__ == "__main__":
    main()
