"""The load pipeline's bench, P1 to P14: `python -m tests.bench.pipeline -o FILE [--only P8 …]`.

Each part is written to FILE when it is done, and is measured again only when it is named or
`--fresh` says so, so that a bench that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core import files

ORDER = ("P8", "P9", "P4", "P10", "P1", "P2", "P12", "P13", "P14")
WHAT = {
    "P1": "20M samples to 100k partitions, the job's own sums: Spark / DuckDB",
    "P2": "the same with exact p95 of rates: Spark / DuckDB",
    "P4": "segment landed to manifest visible, 48 h of segments behind",
    "P8": "killed with SIGKILL at 5 points, 20 seeds: sums of samples",
    "P9": "rates beside a simulated cluster's truth: trimtab and an even split",
    "P10": "peak memory at P1 and with 4 times the partitions, 1 GiB heap: Python, JVM",
    "P12": "{clusters:,} clusters of 1,000 partitions in one job, 2 cores: rows/s",
    "P13": "the same job on a standalone Spark cluster: two workers of a core each, and one",
    "P14": "one cluster of {clusters:,} sends 20 % rubbish, one stalls: delay of the others",
}
Found = dict[str, dict[str, Any]]


def measure(
    part: str, clusters: int, known: dict[str, Any] | None, keep: Callable[[Found], None]
) -> Found:
    """Return what was measured: the part, and those that come with it.

    `clusters` are those of P12 and P14.
    """
    # Each part imports what it needs: Spark and DuckDB are not wanted by all.
    if part in ("P1", "P2"):
        from tests.bench.pipeline import engines

        return engines.measure()
    if part == "P10":
        from tests.bench.pipeline import memory

        return {part: memory.measure()}
    if part in ("P12", "P14"):
        from tests.bench.pipeline import many

        how = many.measure if part == "P12" else many.measure_isolation
        return {part: how(clusters)}
    if part == "P13":
        from tests.bench.pipeline import workers

        return {part: workers.measure()}
    if part == "P4":
        from tests.bench.pipeline import latency

        return {part: latency.measure()}
    if part == "P8":
        from tests.bench.pipeline import kills

        return {part: kills.measure(known, lambda summary: keep({part: summary}))}
    from tests.bench.pipeline import truth

    return {part: truth.measure()}


def done(summary: dict[str, Any] | None) -> bool:
    """Return whether a part needs no more measuring."""
    return summary is not None and summary.get("whole", False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=ORDER, help="Measure these, known or not.")
    parser.add_argument("--fresh", action="store_true", help="Forget what was measured before.")
    parser.add_argument(
        "--clusters", type=int, default=1000, help="Of P12 and P14. A thousand take many hours."
    )
    arguments = parser.parse_args()
    path = arguments.output
    known: Found = {}
    if path.exists() and not arguments.fresh:
        known = json.loads(path.read_text(encoding="utf-8"))

    def keep(results: Found, *, whole: bool = False) -> None:
        for part, result in results.items():
            what = WHAT[part].format(clusters=arguments.clusters)
            known[part] = {"what": what, "whole": whole, **result}
        ordered = sorted(known, key=lambda part: int(part[1:]))
        files.write_text(path, json.dumps({p: known[p] for p in ordered}, indent=2) + "\n")

    for part in arguments.only or ():
        if done(known.get(part)):
            del known[part]
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as home:
        os.environ["TRIMTAB_HOME"] = home
        for part in arguments.only or ORDER:
            if done(known.get(part)):
                continue
            began = time.monotonic()
            keep(measure(part, arguments.clusters, known.get(part), keep), whole=True)
            summary = known[part]
            print(
                f"{part}: {summary['value']} (target: {summary['target']})"
                f"{'' if summary['met'] else ', MISSED'}; took {time.monotonic() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
