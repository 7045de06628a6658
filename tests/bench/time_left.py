"""The time left that a run tells, against the clock, over suggested plans under load.

On a sandbox of four real brokers: a skewed load is produced and goes on all the time, `plan
suggest` makes a plan of it, and `apply` carries it out in several batches at a rate at which it
takes about a minute. What the run says of its time left is read each second, from its journal
as the screens read it, and held against its end. Rows are written as they end: what was
interrupted goes on where it was, what is complete begins anew.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.cluster.sandbox.workload_spec import Workload, skewed_workload
from core.run.journal.journal import Journal, journal_path
from core.run.journal.records import Sample
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunView
from core.units import format_time
from tests.bench.harness import (
    MB,
    QUIET_LOAD,
    arguments,
    begun,
    brokers,
    home_folder,
    leave,
    trimtab,
    wait_for_quiet,
)
from tests.courses import Prediction, as_json, longer_than_the_whole, scored, tenths
from tests.sandbox_data import delete_topics, fill, produced

PLANS = 10
BROKERS = (1, 2, 3, 4)
BATCH_BYTES = 15_000
PRODUCED = (0.6, 1.5)
"""MB/s to all topics together; replicated once."""
FILLED = 700 * MB
"""What is in all topics together when a plan is suggested, once for each replica."""
SECONDS = (55, 90)
"""What a plan is to take, drawn for each: for so long it is given a rate."""
SUGGESTED = (0, 6)
"""Exit codes of a plan that was suggested, also where a broker stays outside the band."""
POLL_SECONDS = 1.0
LONGEST_SECONDS = 400.0
TARGETS = {"median": 0.15, "worst": 0.30}
"""Of a run's whole time, by which what it says may be off."""


class Bench:
    """One sandbox, and the command on it."""

    def __init__(self, sandbox: Sandbox, home: Path, kept: Path) -> None:
        self.sandbox, self.settings = sandbox, ConnectionSettings(sandbox.bootstrap)
        self.home, self.kept = home, kept

    def measure(self, seed: int) -> dict[str, Any]:
        """Let one plan be suggested and carried out; return what was said over its course."""
        load = wait_for_quiet()
        rng = random.Random(seed)
        workload = _workload(seed, rng.uniform(*PRODUCED) * MB)
        topics = [topic.name for topic in workload.topics]
        create_topics(self.settings, {t.name: t.replicas for t in workload.topics})
        try:
            fill(self.settings, _sizes(workload, rng), batch_bytes=BATCH_BYTES)
            with produced(self.settings, workload):
                trimtab(self.sandbox, "collect", "--once", "--interval", "10s")
                plan = str(self.home / f"plan-{seed}.json")
                trimtab(self.sandbox, "plan", "suggest", "-o", plan, codes=SUGGESTED)
                seconds = rng.uniform(*SECONDS)
                within = ("--within", f"{seconds:.0f}s", "--json")
                estimate = json.loads(trimtab(self.sandbox, "estimate", plan, *within))
                rate = estimate["recommended_bytes_per_s"]
                words = ("--throttle", f"{rate}B/s", "--yes", "--detach", "--json")
                run = json.loads(trimtab(self.sandbox, "apply", plan, *words))["run"]
                outcome = self._follow(run, seed)
        finally:
            delete_topics(self.settings, topics)
        return {
            "seed": seed,
            **outcome,
            "rate_bytes_per_s": rate,
            "load_before": round(load, 1),
            "quiet": load < QUIET_LOAD,
        }

    def _follow(self, name: str, seed: int) -> dict[str, Any]:
        """Return what a run says until it has ended, and how right it was."""
        (path,) = (self.home / "data" / "runs").glob(f"*/{name}.run")
        cluster_id = path.parent.name
        course: list[Prediction] = []
        samples: dict[Any, Sample] = {}
        until = time.monotonic() + LONGEST_SECONDS
        while True:
            assert time.monotonic() < until, f"run {name} does not end"
            view = read_run(cluster_id, name)
            now = time.time() - view.started_at.timestamp()
            if view.state.ended:
                break
            course.append(_prediction(view, now))
            samples |= {sample.at: sample for sample in _samples(journal_path(cluster_id, name))}
            time.sleep(POLL_SECONDS)
        assert view.ended_at is not None
        assert view.state.value == "done", (view.state, view.why)
        self._keep(path, seed, samples.values())
        took = (view.ended_at - view.started_at).total_seconds()
        return {
            "moves": view.partitions,
            "batches": view.batches,
            "bytes": view.total_bytes,
            "estimated_seconds": view.estimated_seconds,
            "took_seconds": round(took, 1),
            "tenths": as_json(rows := tenths(course, took)),
            **{name: round(value, 3) for name, value in scored([rows]).items()},
            "looks": len(course),
            "single_above_whole": len(longer_than_the_whole(course)),
        }

    def _keep(self, path: Path, seed: int, samples: Any) -> None:
        """Keep what a run's course can be told from again: its records, and all of its samples."""
        with Journal.open(path) as journal:
            records = [
                [r.seq, format_time(r.at), r.kind.value, r.payload] for r in journal.records()
            ]
        rows = [[format_time(s.at), s.payload] for s in samples]
        leave({"records": records, "samples": rows}, self.kept / f"{seed}.json")


def _workload(seed: int, bytes_per_s: float) -> Workload:
    """Return a skewed load whose topics no other plan has."""
    plain = skewed_workload(BROKERS, bytes_per_s=bytes_per_s, seed=seed)
    return Workload(tuple(replace(t, name=f"left{seed}.{t.name}") for t in plain.topics), ())


def _sizes(workload: Workload, rng: random.Random) -> dict[TopicPartition, int]:
    """Return what each partition holds at first: as what is produced to it, but unevenly kept."""
    shares = {
        TopicPartition(topic.name, p): rate * rng.uniform(0.5, 2)
        for topic in workload.topics
        for p, rate in enumerate(topic.bytes_per_s)
    }
    whole = sum(shares.values())
    return {tp: round(FILLED * share / whole) for tp, share in shares.items()}


def _prediction(view: RunView, now: float) -> Prediction:
    singles = [m.left_seconds for m in view.moves if m.left_seconds is not None]
    return Prediction(now, view.left_seconds, max(singles, default=None))


def _samples(path: Path) -> Sequence[Sample]:
    with Journal.open(path) as journal:
        return journal.samples()


def report(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is left of a bench: every plan, and over all of them the median and the worst."""
    errors = sorted(tenth["error"] for row in rows for tenth in row["tenths"])
    of_left = sorted(tenth["of_left"] for row in rows for tenth in row["tenths"])
    middle = len(errors) // 2
    return {
        "median": errors[middle],
        "worst": errors[-1],
        "median_of_left": of_left[middle],
        "worst_of_left": of_left[-1],
        "targets": TARGETS,
        "plans": sorted(rows, key=lambda row: row["seed"]),
    }


def format_row(row: Mapping[str, Any]) -> str:
    """Return a plan in one line: how far off each tenth was, in percent of the whole."""
    took = row["took_seconds"]
    errors = " ".join(f"{100 * (t['said'] - t['really']) / took:+3.0f}" for t in row["tenths"])
    beside = "" if row["quiet"] else f"  beside other work (load {row['load_before']})"
    over = f"  single > whole {row['single_above_whole']}×" if row["single_above_whole"] else ""
    return (
        f"plan {row['seed']:2}: {row['moves']:2} moves in {row['batches']} batches,"
        f" {row['bytes'] / MB:4.0f} MB, estimated {row['estimated_seconds']:5.1f} s,"
        f" took {took:5.1f} s, off by {errors} %{over}{beside}"
    )


def main() -> None:
    chosen = arguments(__doc__)
    seeds = range(1, PLANS + 1)
    rows = begun(chosen.output, "seed", seeds)
    done = {row["seed"] for row in rows}
    with brokers("time-left") as sandbox, home_folder() as home:
        bench = Bench(sandbox, home, chosen.output.with_suffix(".kept"))
        for seed in seeds:
            if seed not in done:
                rows.append(bench.measure(seed))
                leave(report(rows), chosen.output)
                print(format_row(rows[-1]), flush=True)
    errors = report(rows)
    print(
        f"{len(rows)} plans: median {errors['median']:.1%}, worst {errors['worst']:.1%} of a run's"
        f" time; of what was left {errors['median_of_left']:.1%}, {errors['worst_of_left']:.1%}"
    )


if __name__ == "__main__":
    main()
