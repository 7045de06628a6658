"""The throttle scenarios of partition balancing, played on real brokers by public commands.

Brokers 1, 2 and 3 stand for the table's 0, 1 and 2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.topics import create_topics, delete_topics
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.state import TopicPartition
from core.cluster.workload import TopicLoad, Workload, fill, run
from core.errors import ExitCode
from core.plan.spread import START_SECONDS

MB = 1_000_000
TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
Layout = Mapping[str, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, slots=True)
class Needs:
    """What one broker and side must carry: copies, and how often what is produced."""

    copies: int
    inflows: int = 0

    def bytes_per_s(self, size_bytes: float, seconds: float, produced: float) -> float:
        return self.copies * size_bytes / seconds + self.inflows * produced


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table: replicas of each topic's partitions before and after."""

    name: str
    before: Layout
    after: Layout
    needs: Mapping[tuple[int, str], Needs]
    produced_bytes_per_s: float = 0.0
    """To the first partition of T1."""


SCENARIOS = (
    Scenario(
        "1",
        {"T1": ((1, 2), (1, 3)), "T2": ((1,),)},
        {"T1": ((1, 2, 3), (1, 2, 3)), "T2": ((1, 3),)},
        {(1, "leader"): Needs(3), (2, "follower"): Needs(1), (3, "follower"): Needs(2)},
    ),
    Scenario(
        "2",
        {"T1": ((1,), (2,)), "T2": ((2,), (3,))},
        {"T1": ((1, 3), (2, 3)), "T2": ((2, 3), (3, 1))},
        {
            (1, "leader"): Needs(1),
            (1, "follower"): Needs(1),
            (2, "leader"): Needs(2),
            (3, "leader"): Needs(1),
            (3, "follower"): Needs(3),
        },
    ),
    Scenario(
        "3",
        {"T1": ((1, 2),), "T2": ((1, 2),)},
        {"T1": ((1, 2, 3),)},
        {(1, "leader"): Needs(1, 2), (3, "follower"): Needs(1, 1)},
        0.7 * MB,
    ),
)


@dataclass(frozen=True, slots=True)
class Played:
    """What was expected of a scenario, and what was seen; rates in bytes/s, times in seconds."""

    required_expected: dict[tuple[int, str], float]
    required_seen: dict[tuple[int, str], float]
    never: str | None
    """What `estimate` said below ordinary replication; None when nothing is produced."""
    rate: int
    estimated_seconds: float
    range_seconds: tuple[float, float]
    took_seconds: float
    produced_bytes_per_s: float
    """What the leader's log really grew by meanwhile: a generator may fall behind."""
    verified: bool


class Commands:
    """`trimtab` on these brokers, with a home of its own."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self.settings = ConnectionSettings(sandbox.bootstrap)
        self.home = home

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TRIMTAB, "-b", self.settings.bootstrap, *map(str, words)],
            env={**os.environ, "TRIMTAB_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )

    def document(self, *words: str | Path) -> dict[str, Any]:
        answer = self(*words, "--json")
        assert answer.returncode == ExitCode.DONE, answer.stderr
        document = json.loads(answer.stdout)
        assert isinstance(document, dict)
        return document


def play(
    scenario: Scenario, sandbox: Sandbox, home: Path, size_bytes: int, seconds: float
) -> Played:
    """Set the scenario up with replicas of this size, estimate for this deadline, and apply.

    Raises AssertionError when a command fails.
    """
    trimtab = Commands(sandbox, home)
    produced = scenario.produced_bytes_per_s
    topics = {f"scenario-{scenario.name}.{name}": rows for name, rows in scenario.before.items()}
    create_topics(trimtab.settings, topics)
    try:
        with _produced(trimtab.settings, topics, produced):
            if produced:
                assert trimtab("collect", "--once", "--interval", "10s").returncode == 0
            _fill(trimtab.settings, topics, size_bytes)
            plan = _plan(home, scenario)
            # The in-sync follower and the new replica take 2 x what is produced.
            never = _never(trimtab, plan, 1.6 * produced) if produced else None
            answer = trimtab.document("estimate", plan, "--within", f"{seconds}s")
            rate = answer["recommended_bytes_per_s"]
            start = ("--throttle", f"{rate}B/s", "--allow", "rf-change", "--yes", "--json")
            grown, began = -_leaders_bytes(trimtab.settings, topics), time.monotonic()
            applied = trimtab("apply", plan, *start)
            assert applied.returncode == ExitCode.DONE, applied.stderr
            grown += _leaders_bytes(trimtab.settings, topics)
            seen = grown / (time.monotonic() - began)
            verified = trimtab("verify", plan).returncode == ExitCode.DONE
    finally:
        delete_topics(trimtab.settings, list(topics))
    told = [json.loads(line) for line in applied.stdout.splitlines()]
    copies = sum(n.copies for (_, side), n in scenario.needs.items() if side == "follower")
    size = answer["total_bytes"] / copies  # what was produced since it was filled is copied, too
    return Played(
        {key: n.bytes_per_s(size, seconds, produced) for key, n in scenario.needs.items()},
        {(row["broker"], row["side"]): row["required_bytes_per_s"] for row in answer["rows"]},
        never,
        rate,
        told[0]["estimated_seconds"],
        (answer["range_seconds"][0], answer["range_seconds"][1]),
        _took_seconds(told),
        seen,
        verified,
    )


@contextmanager
def _produced(settings: ConnectionSettings, topics: Layout, bytes_per_s: float) -> Iterator[None]:
    """Produce to the first partition of the first topic meanwhile."""
    if not bytes_per_s:
        yield
        return
    name, replicas = next(iter(topics.items()))
    stop = threading.Event()
    load = Workload((TopicLoad(name, replicas, (bytes_per_s,)),), ())
    producer = threading.Thread(target=run, args=(settings, load, stop))
    producer.start()
    try:
        yield
    finally:
        stop.set()
        producer.join()


def _fill(settings: ConnectionSettings, topics: Layout, size_bytes: int) -> None:
    """Bring every partition to this size; some was produced already."""
    there = _sizes(settings)
    partitions = [
        TopicPartition(name, p) for name, rows in topics.items() for p in range(len(rows))
    ]
    fill(settings, {tp: size_bytes - there.get(tp, 0) for tp in partitions})


def _leaders_bytes(settings: ConnectionSettings, topics: Layout) -> int:
    """Return the bytes of all logs of these topics together, one replica each."""
    return sum(size for tp, size in _sizes(settings).items() if tp.topic in topics)


def _sizes(settings: ConnectionSettings) -> dict[TopicPartition, int]:
    """Return each partition's largest replica, which is its leader's."""
    client = KafkaClient(settings)
    found: dict[TopicPartition, int] = {}
    for answer in client.log_dirs([b.id for b in client.describe().brokers]):
        for replica in answer.replicas:
            tp = TopicPartition(replica.topic, replica.partition)
            found[tp] = max(found.get(tp, 0), replica.size_bytes)
    client.close()
    return found


def _plan(home: Path, scenario: Scenario) -> Path:
    path = home / f"scenario-{scenario.name}.json"
    rows = [
        {"topic": f"scenario-{scenario.name}.{name}", "partition": p, "replicas": replicas}
        for name, after in scenario.after.items()
        for p, replicas in enumerate(after)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def _never(trimtab: Commands, plan: Path, bytes_per_s: float) -> str:
    answer = trimtab("estimate", plan, "--throttle", f"{bytes_per_s:.0f}B/s", "--json")
    assert answer.returncode == ExitCode.NO, answer.stdout + answer.stderr
    return str(json.loads(answer.stdout)["never"])


def _took_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the time of an apply, taking what comes before its first submission as usual.

    How long a busy machine takes to start a process is not what is judged here.
    """
    first, last = (
        [datetime.fromisoformat(e["at"]) for e in events if e["event"] == kind]
        for kind in ("submitted", "ended")
    )
    return START_SECONDS + (max(last) - min(first)).total_seconds()
