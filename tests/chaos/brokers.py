"""Real brokers with throttles of others on them, the six moves of a run, and Kafka's judges.

Five brokers, of which the last takes no part, and three controllers. The six partitions go to and
fro between two layouts, so that one run after another has the same to do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import eventually

from core.cluster.client import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.state import TopicPartition
from core.cluster.workload import create_topics, delete_topics, fill
from core.run.record.history import History, Phase
from core.run.record.journal import Journal, journal_path
from core.run.tell.runs import read_run
from core.run.tell.view import MoveState, RunState, RunView

MB = 1_000_000
ROOT = Path(__file__).resolve().parents[2]
INJECT = Path(__file__).with_name("inject")
RATE = 2 * MB
SLOW = 300_000
"""A rate at which a run lasts long enough to be cancelled."""
PARTITION_BYTES = 3 * MB
BATCH = 2
UNINVOLVED = 5
EVERY_BROKER = Resource(ResourceKind.BROKER, "")
PARTS_OF_THE_RUN = ("source", "destination", "uninvolved", "controller")
DEADLINE_SECONDS = 180.0

Targets = Mapping[TopicPartition, tuple[int, ...]]
LAYOUTS: Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {
    TopicPartition("chaos-a", 0): ((1, 2, 3), (4, 2, 3)),
    TopicPartition("chaos-a", 1): ((2, 3, 1), (2, 3, 4)),
    TopicPartition("chaos-b", 0): ((3, 1, 2), (3, 4, 1)),
    TopicPartition("chaos-b", 1): ((1, 2, 4), (4, 1, 2)),
    TopicPartition("chaos-c", 0): ((4, 1, 2), (3, 1, 2)),
    TopicPartition("chaos-c", 1): ((2, 4, 3), (1, 4, 3)),
}
"""Six partitions; the fourth is only re-ordered."""
TOPICS = ("chaos-a", "chaos-b", "chaos-c")
THROTTLES = (
    (EVERY_BROKER, LEADER_RATE, "80000000"),
    (Resource.broker(1), LEADER_RATE, "77000000"),
    (Resource.broker(3), FOLLOWER_RATE, "1500000"),
    (Resource.topic("chaos-a"), LEADER_LIST, "7:1,0:1"),
    (Resource.topic("chaos-b"), LEADER_LIST, "*"),
    (Resource.topic("chaos-b"), FOLLOWER_LIST, "*"),
    (Resource.topic("chaos-c"), FOLLOWER_LIST, ""),
)
STATIC = {LEADER_RATE: "90000000"}

_REPLICAS = re.compile(r"Topic: (\S+)\s+Partition: (\d+).*?Replicas: ([\d,]+)")


@dataclass(frozen=True, slots=True)
class Strike:
    """What is killed as a kind of record is written: the run's process, or one of `pids`."""

    when: str
    kind: str
    pids: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.when} {self.kind}"


def chaos_sandbox(name: str) -> Sandbox:
    """Start brokers for chaos: one that takes no part, and three controllers."""
    ids = (1, 2, 3, 4, UNINVOLVED)
    return Sandbox.up(name, ids, controllers=3, overrides=STATIC, replace=True)


class Brokers:
    """The sandbox, the run's commands with a home of their own, and the judges."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self.sandbox, self.home = sandbox, home
        os.environ["TRIMTAB_HOME"] = str(home)  # of the runs; Kafka's jars are where they are
        self.settings = ConnectionSettings(sandbox.bootstrap)
        self.client = KafkaClient(self.settings)
        self._token = home / "struck"

    def lay_out(self) -> None:
        """Make the topics with their data, and set what others have set before."""
        layouts = {
            topic: [first for tp, (first, _) in LAYOUTS.items() if tp.topic == topic]
            for topic in TOPICS
        }
        create_topics(self.settings, layouts, {"min.insync.replicas": "2"})
        fill(self.settings, dict.fromkeys(LAYOUTS, PARTITION_BYTES))
        for resource, name, value in THROTTLES:
            answers = self.client.alter_configs([ConfigChange(resource, name, ConfigOp.SET, value)])
            assert answers == {resource: None}, answers
        eventually(lambda: "1500000" in self.configs())

    def clean(self) -> None:
        """Leave the brokers as they were before `lay_out`."""
        delete_topics(self.settings, TOPICS)
        self.client.alter_configs(
            [
                ConfigChange(resource, name, ConfigOp.DELETE)
                for resource, name, _ in THROTTLES
                if resource.kind is ResourceKind.BROKER
            ]
        )
        eventually(lambda: "throttled" not in self.configs())
        self.client.close()

    # -- runs -------------------------------------------------------------------------------------

    def start(self, targets: Targets, strike: Strike | None, rate: int = RATE) -> str:
        """Start a run in its own process and return its id, "" when it died before it had one."""
        plan = self.home / "plan.json"
        plan.write_text(_document(targets))
        module = ("-m", "chaos.start", self.sandbox.bootstrap, str(plan), str(rate), str(BATCH))
        done = self._run([sys.executable, "-P", *module], strike)
        if done.returncode == 0:
            return done.stdout.strip()
        assert self.has_struck(), done.stderr
        return self.newest()

    def attach(self, run: str, strike: Strike | None = None) -> int:
        """Bring a run's process back if it has died, follow it, and return the exit code."""
        done = self._trimtab("runs", "attach", run, "--yes", "--json", strike=strike)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    def bring_back(self, run: str) -> None:
        """Bring a run's process back, and let go of it."""
        following = subprocess.Popen(
            self._command("runs", "attach", run, "--yes", "--json"),
            env=self._environment(None),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert following.stdout is not None
        eventually(lambda: not self.is_dead(run))
        following.kill()
        following.wait()
        following.stdout.close()

    def cancel(self, run: str) -> None:
        done = self._trimtab("runs", "cancel", run, "--yes", "--json")
        assert "Traceback" not in done.stderr, done.stderr

    def newest(self) -> str:
        folder = journal_path(self.sandbox.cluster_id, "x").parent
        names = sorted(folder.glob("*.run"), key=lambda path: path.stat().st_ctime_ns)
        return names[-1].stem if names else ""

    def view(self, run: str) -> RunView:
        return read_run(self.sandbox.cluster_id, run)

    def is_dead(self, run: str) -> bool:
        return self.view(run).state is RunState.DIED

    def is_over(self, run: str) -> bool:
        """Return whether the run itself has ended, whatever became of its process."""
        state = self.view(run).state
        return state.ended and state is not RunState.DIED

    def await_flight(self, run: str) -> None:
        """Return once moves are in flight, or nothing will bring any."""
        eventually(lambda: self.is_flying() or self.is_dead(run) or self.is_over(run))

    def await_rest(self, run: str) -> None:
        """Return once a run is over, or its process dead."""
        eventually(lambda: self.is_over(run) or self.is_dead(run), 120)

    def as_the_run_says(self, run: str) -> dict[TopicPartition, tuple[int, ...]]:
        """Return which replicas the run says that it has left."""
        with Journal.open(journal_path(self.sandbox.cluster_id, run)) as journal:
            moves = History.fold(journal.records()).moves
        return {m.move.tp: m.move.after if m.phase is Phase.DONE else m.move.before for m in moves}

    def done_moves(self, run: str) -> int:
        return sum(m.state is MoveState.DONE for m in self.view(run).moves)

    def is_flying(self) -> bool:
        return bool(self.client.reassignments())

    def has_struck(self) -> bool:
        return self._token.exists()

    def arm(self) -> None:
        self._token.unlink(missing_ok=True)

    def _trimtab(
        self, *words: str, strike: Strike | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self._run(self._command(*words), strike)

    def _command(self, *words: str) -> list[str]:
        main = "import sys; from core.cli.main import run; sys.exit(run(lambda context: None))"
        return [sys.executable, "-P", "-c", main, "-b", self.sandbox.bootstrap, *words]

    def _run(self, command: list[str], strike: Strike | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self._environment(strike),
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def _environment(self, strike: Strike | None) -> dict[str, str]:
        path = [str(ROOT), str(ROOT / "tests")]
        environment = dict(os.environ)
        if strike is not None:
            path.append(str(INJECT))
            environment["TRIMTAB_CHAOS"] = " ".join((str(strike), *map(str, strike.pids)))
            environment["TRIMTAB_CHAOS_TOKEN"] = str(self._token)
        return environment | {"PYTHONPATH": os.pathsep.join(path)}

    # -- brokers ----------------------------------------------------------------------------------

    def pid(self, node: int) -> int:
        process = self.sandbox.process(node)
        assert process is not None, f"node {node} does not run"
        return process.pid

    def is_alive(self, broker: int) -> bool:
        return any(b.id == broker and b.alive for b in self.client.describe().brokers)

    def node_of(self, part: str, targets: Targets) -> int:
        """Return the node that plays a part in the run to these targets."""
        now = self.replicas()
        arriving = [b for tp in targets for b in targets[tp] if b not in now[tp]]
        match part:
            case "source":
                return next(b for b in (1, 2, 3, 4) if b not in arriving)
            case "destination":
                return max(arriving, key=arriving.count)
            case "uninvolved":
                return UNINVOLVED
            case _:
                return self._active_controller()

    def _active_controller(self) -> int:
        """Return the id of the controller that leads, as Kafka's own tool says."""
        said = self._tool("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
        found = re.search(r"LeaderId:\s+(\d+)", said)
        assert found, said
        return int(found[1])

    def revive(self) -> None:
        """Start whatever is down, and return once every replica is in sync."""
        for node in self.sandbox.nodes:
            if self.sandbox.process(node.id) is None:
                self.sandbox.start(node.id)
        eventually(self._is_whole, 120)

    def _is_whole(self) -> bool:
        state = self.client.describe()
        rows = [state.row(i) for i in range(state.partition_count)]
        return all(set(row.isr) >= set(row.replicas) - set(row.adding) for row in rows)

    # -- judges -----------------------------------------------------------------------------------

    def completed(self, targets: Targets) -> int:
        """Return how many partitions Kafka's tool calls complete; it leaves throttles alone."""
        path = self.home / "verify.json"
        path.write_text(_document(targets))
        said = self._tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--verify", "--preserve-throttles", "--reassignment-json-file", str(path)),
        )
        return said.count("is completed.")

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas in order, as Kafka's tool describes them."""
        said = self._tool("org.apache.kafka.tools.TopicCommand", "--describe")
        return {
            TopicPartition(topic, int(partition)): tuple(map(int, brokers.split(",")))
            for topic, partition, brokers in _REPLICAS.findall(said)
            if topic in TOPICS
        }

    def configs(self) -> str:
        """Return every config of topics and brokers that somebody set, as Kafka's tool says."""
        answers = (
            self._tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", kind)
            for kind in ("topics", "brokers")
        )
        lines = [line.strip() for said in answers for line in said.splitlines() if line.strip()]
        return "\n".join(lines)

    def settle_configs(self) -> None:
        """Return once what was changed last is what Kafka's tool shows, twice alike."""
        eventually(lambda: self.configs() == self.configs())

    def _tool(self, name: str, *words: str) -> str:
        for _ in range(3):
            done = self.sandbox.tool(name, "--bootstrap-server", self.sandbox.bootstrap, *words)
            if done.returncode == 0:
                return done.stdout
            time.sleep(1.0)
        raise AssertionError(f"{name}: {done.stdout}{done.stderr}")


def opposite(
    now: Targets,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return each partition's other layout."""
    return {tp: b if now[tp] == a else a for tp, (a, b) in LAYOUTS.items()}


def _document(targets: Targets) -> str:
    partitions: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in targets.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})
