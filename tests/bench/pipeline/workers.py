"""P13: the same job on a standalone Spark cluster on this machine, on one and on two workers.

Each worker has one core; the driver and the master are on the machine's two cores, too. A batch is
a minute of sixty clusters, as in P12. By turns the job has one worker and two: of each turn the
first batches warm up what has just started, then a window's five are timed. Speed-ups are of turns
that follow each other.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from core.pipeline.session import open_session
from tests.bench.pipeline.many import BATCHES_A_WINDOW, landing, running_job, start_of
from tests.bench.pipeline.polls import Polls
from tests.spark.standalone import environment, standalone

CLUSTERS, PARTITIONS = 60, 1000
ROUNDS = 3
WARM_UP = 3
TARGET = 1.7


def measure(
    clusters: int = CLUSTERS, partitions: int = PARTITIONS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Return how many times as fast the job is with the second worker."""
    os.environ.update({name: environment()[name] for name in ("JAVA_HOME", "SPARK_LOCAL_IP")})
    polls = Polls(partitions, [f"bench-{number:04d}" for number in range(clusters)])
    seconds: dict[int, list[list[float]]] = {1: [], 2: []}
    start = start_of(len(seconds) * rounds * 2)  # a turn is of less than two windows
    number = 0
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        root = Path(name, "load")
        landing(root).mkdir(parents=True)
        with standalone(Path(name), workers=max(seconds)) as master:
            for turn in range(rounds):
                for workers in sorted(seconds, reverse=turn % 2 == 1):
                    session = open_session(
                        master=master, settings={"spark.cores.max": str(workers)}
                    )
                    with running_job(session, root, polls, start, number) as fed:
                        took = [fed.batch()[1] for _ in range(WARM_UP + BATCHES_A_WINDOW)]
                        number = fed.number
                    seconds[workers].append([round(of, 2) for of in took[-BATCHES_A_WINDOW:]])
    ratios = [
        sum(single) / sum(double) for single, double in zip(seconds[1], seconds[2], strict=True)
    ]
    ratio = median(ratios)
    return {
        "target": f"at least {TARGET} times as fast",
        "value": f"{ratio:.2f} times as fast",
        "met": ratio >= TARGET,
        "clusters": clusters,
        "partitions_each": partitions,
        "ratios": [round(of, 2) for of in ratios],
        "seconds": {str(workers): of for workers, of in seconds.items()},
    }
