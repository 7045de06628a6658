"""`elect`, `topics describe` and `groups` from the shell beside Kafka's own tools, by turns.

Each turn is one command from its start to its end, on the same brokers: A B A B …, the first round
not counted. Leaders are taken away from their preferred replicas before each election.
"""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import consume, create_topics
from core.errors import UnreachableError
from tests.bench.harness import TRIMTAB, arguments, brokers, leave_and_print
from tests.sandbox_data import fill
from tests.waiting import eventually

TOOLS = "org.apache.kafka.tools"
TOPICS = tuple(f"bench.topic-{number:02d}" for number in range(20))
PARTITIONS = 12
READ = TOPICS[:4]
GROUP = "bench-readers"
ROUNDS = 7
TARGET = 0.7


class Spent(NamedTuple):
    """What one command took: wall clock, and processor time, user and system."""

    wall: float
    cpu: float


class Pair(NamedTuple):
    """Two commands that do the same, and what is made ready before each."""

    what: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    before: Callable[[], None] = lambda: None


class Place:
    """One sandbox with topics, a group that reads some of them, and a client beside it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        settings = ConnectionSettings(sandbox.bootstrap)
        count = len(sandbox.broker_ids)
        layout = [
            tuple(sandbox.broker_ids[(p + k) % count] for k in range(3)) for p in range(PARTITIONS)
        ]
        create_topics(settings, dict.fromkeys(TOPICS, layout))
        fill(settings, {TopicPartition(t, p): 10_000 for t in READ for p in range(PARTITIONS)})
        self._client = KafkaClient(settings)
        self._stop = threading.Event()
        self._reader = threading.Thread(
            target=consume, args=(settings, GROUP, list(READ), self._stop)
        )
        self._reader.start()
        eventually(self._has_read, every=0.2)

    def close(self) -> None:
        self._stop.set()
        self._reader.join()
        self._client.close()

    def _has_read(self) -> bool:
        try:
            groups = self._client.describe_groups(GROUP)
        except UnreachableError:
            return False  # coordinators begin with loading their groups
        return any(len(group.committed) == len(READ) * PARTITIONS for group in groups)

    def take_leaders_away(self) -> None:
        """Have every partition prefer its second replica: leaders stay where they are."""
        state = self._client.describe_cluster()
        targets = {}
        for row in state.rows():
            if row.topic in TOPICS:
                first, *rest = row.replicas
                targets[row.tp] = (*rest, first)
        faults = self._client.alter_reassignments(targets)
        assert not any(faults.values()), faults
        eventually(lambda: self._away() == len(targets), every=0.05)

    def _away(self) -> int:
        rows = [row for row in self._client.describe_cluster().rows() if row.topic in TOPICS]
        return sum(row.leader != row.replicas[0] for row in rows)

    def ours(self, pair: Pair) -> Spent:
        words = [TRIMTAB, "-b", self._sandbox.bootstrap, *pair.ours]
        # Where tests run, Python may be told to keep no byte code; where trimtab is installed it
        # does, and the round that is not counted writes it.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return self._timed(
            pair, lambda: subprocess.run(words, capture_output=True, text=True, env=env)
        )

    def theirs(self, pair: Pair) -> Spent:
        tool, *words = pair.theirs
        at = ("--bootstrap-server", self._sandbox.bootstrap)
        return self._timed(pair, lambda: self._sandbox.tool(f"{TOOLS}.{tool}", *at, *words))

    def _timed(self, pair: Pair, run: Callable[[], subprocess.CompletedProcess[str]]) -> Spent:
        pair.before()
        cpu, began = _children(), time.monotonic()
        done = run()
        spent = Spent(time.monotonic() - began, _children() - cpu)
        assert done.returncode == 0, done.stderr
        if pair.before == self.take_leaders_away:
            eventually(lambda: self._away() == 0, every=0.05)
        return spent


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(place: Place) -> list[dict[str, Any]]:
    """Return a row for each pair of commands, medians of all rounds with their ratios."""
    pairs = (
        Pair(
            "elect",
            ("elect", "--yes"),
            ("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"),
            place.take_leaders_away,
        ),
        Pair("topics describe", ("topics", "describe"), ("TopicCommand", "--describe")),
        Pair(
            "groups",
            ("groups", GROUP),
            ("consumer.group.ConsumerGroupCommand", "--describe", "--group", GROUP),
        ),
    )
    return [_row(place, pair) for pair in pairs]


def _row(place: Place, pair: Pair) -> dict[str, Any]:
    turns = [(place.ours(pair), place.theirs(pair)) for _ in range(ROUNDS + 1)][1:]
    ours, theirs = zip(*turns, strict=True)
    row: dict[str, Any] = {
        "what": pair.what,
        "tool": pair.theirs[0].rpartition(".")[2],
        "rounds": ROUNDS,
    }
    for name in Spent._fields:
        mine = median(getattr(spent, name) for spent in ours)
        tools = median(getattr(spent, name) for spent in theirs)
        row |= {
            f"{name}_seconds": round(mine, 3),
            f"tool_{name}_seconds": round(tools, 3),
            f"{name}_ratio": round(mine / tools, 3),
        }
    return row | {
        "target_ratio": TARGET,
        "turns": [[round(o.wall, 3), round(t.wall, 3)] for o, t in turns],
    }


def main() -> None:
    chosen = arguments(__doc__)
    with brokers("tools", racks=2) as sandbox:
        place = Place(sandbox)
        try:
            result = measure(place)
        finally:
            place.close()
    leave_and_print(result, chosen.output)


if __name__ == "__main__":
    main()
