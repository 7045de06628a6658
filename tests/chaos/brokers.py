"""Real brokers with throttles of others on them, and the commands that start and follow runs.

Five brokers, of which the last takes no part, a sixth that is dead, and three controllers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.judges import Judges
from chaos.layout import (
    DEAD,
    EVERY_LAYOUT,
    PARTITION_BYTES,
    SHORT,
    SHORT_CONFIGS,
    STATIC,
    THROTTLES,
    TOPICS,
    UNINVOLVED,
    Layouts,
    LogDirMover,
    Targets,
    document,
    sources,
)
from chaos.orders import Orders
from waiting import eventually

from core.cluster.configs import ConfigChange, ConfigOp, Resource, ResourceKind
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.daemons.process import Process, running_with
from core.errors import UnreachableError
from core.run.journal.journal import Journal, JournalError, journal_path
from core.run.journal.move_state import Phase
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.reporting.runs import read_run
from core.run.reporting.views import MoveStatus, RunView
from core.run.run_process import log_path
from tests.sandbox_data import delete_topics, fill

ROOT = Path(__file__).resolve().parents[2]
INJECT = Path(__file__).with_name("inject")
DEADLINE_SECONDS = 180.0
NOTIFY = '[notify]\ncommand = ["true"]\n'


def chaos_sandbox(name: str) -> Sandbox:
    """Start brokers for chaos: one that takes no part, a dead one, and three controllers."""
    ids = (1, 2, 3, 4, UNINVOLVED, DEAD)
    sandbox = Sandbox.up(name, ids, controllers=3, overrides=STATIC, replace=True)
    sandbox.kill(DEAD)
    return sandbox


class Brokers:
    """The sandbox, and the runs on it with a home of their own."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self.sandbox, self.home = sandbox, home
        os.environ["TRIMTAB_HOME"] = str(home)  # of the runs; Kafka's jars are where they are
        self.settings = ConnectionSettings(sandbox.bootstrap)
        self.client = KafkaClient(self.settings)
        self.judges = Judges(sandbox, home)
        self.orders = Orders(home / "orders")
        (home / "config").mkdir(exist_ok=True)
        (home / "config" / "config.toml").write_text(NOTIFY)

    def lay_out(self, layouts: Layouts = EVERY_LAYOUT) -> None:
        """Make the topics with their data, and set what others have set before."""
        eventually(lambda: not self.is_alive(DEAD))  # until then it may be named as the controller
        self.make(layouts)
        for resource, name, value in THROTTLES:
            answers = self.client.alter_configs([ConfigChange(resource, name, ConfigOp.SET, value)])
            assert answers == {resource: None}, answers
        eventually(lambda: all(self.shown(r, name) == value for r, name, value in THROTTLES))

    def make(self, layouts: Layouts) -> None:
        """Make topics in their first layout, with data; those that there are stay as they are."""
        for topic in dict.fromkeys(tp.topic for tp in layouts):
            firsts = [first for tp, (first, _) in layouts.items() if tp.topic == topic]
            configs = {"min.insync.replicas": "2"} | (SHORT_CONFIGS if topic == SHORT else {})
            create_topics(self.settings, {topic: firsts}, configs)
        fill(self.settings, dict.fromkeys(layouts, PARTITION_BYTES))

    def clean(self) -> None:
        """Leave the brokers as they were before `lay_out`."""
        delete_topics(self.settings, TOPICS)
        rates = [(r, name) for r, name, _ in THROTTLES if r.kind is ResourceKind.BROKER]
        self.client.alter_configs([ConfigChange(*rate, ConfigOp.DELETE) for rate in rates])
        eventually(lambda: not any(self.shown(*rate) for rate in rates))
        self.client.close()

    def shown(self, resource: Resource, name: str) -> str | None:
        """Return a config as brokers show it now; None when it is not set, or not told."""
        configs = self.client.describe_configs([resource], [name])[resource]
        config = None if isinstance(configs, Fault) else configs.get(name)
        return config.value if config else None

    # -- runs -------------------------------------------------------------------------------------

    def start(
        self, targets: Targets, options: Mapping[str, Any], log_dirs: LogDirMover | None = None
    ) -> str:
        """Start a run in its own process and return its id, "" when it died before it had one."""
        plan = self.home / "plan.json"
        plan.write_text(document(targets, log_dirs))
        known = set(self._journals())
        module = ("-m", "chaos.start", self.sandbox.bootstrap, str(plan), json.dumps(options))
        done = self._run([sys.executable, "-P", *module])
        if done.returncode == 0:
            return done.stdout.strip()
        assert self.orders.struck(), done.stderr
        begun = [path.stem for path in set(self._journals()) - known if _is_begun(path)]
        return begun[0] if begun else ""

    def follow(self, run: str) -> subprocess.Popen[str]:
        """Bring a run's process back if it has died, and follow it to its end, or to the next."""
        with (self.home / "attach.log").open("w") as output:
            return subprocess.Popen(
                self._command("runs", "attach", run, "--yes", "--json"),
                env=self._environment(),
                stdout=subprocess.DEVNULL,
                stderr=output,
                text=True,
            )

    def attach_log(self) -> str:
        """Return what the command that followed a run last had to say."""
        return (self.home / "attach.log").read_text()

    def cancel(self, run: str) -> None:
        done = self._run(self._command("runs", "cancel", run, "--yes", "--json"))
        assert "Traceback" not in done.stderr, done.stderr

    def newest(self) -> str:
        """Return the run that was made last, "" when there is none."""
        made = sorted(filter(_is_begun, self._journals()), key=lambda path: path.stat().st_ctime_ns)
        return made[-1].stem if made else ""

    def view(self, run: str) -> RunView:
        return read_run(self.sandbox.cluster_id, run)

    def history(self, run: str) -> RunState:
        with Journal.open(journal_path(self.sandbox.cluster_id, run)) as journal:
            return fold(journal.records())

    def kinds(self, run: str) -> list[Kind]:
        """Return the kinds of the records that a run has written, in their order."""
        with Journal.open(journal_path(self.sandbox.cluster_id, run)) as journal:
            return [record.kind for record in journal.records()]

    def log(self, run: str) -> str:
        """Return what the run's processes have logged."""
        path = log_path(journal_path(self.sandbox.cluster_id, run))
        return path.read_text(errors="replace") if path.exists() else ""

    def is_over(self, run: str) -> bool:
        """Return whether the run itself has ended, whatever became of its process."""
        return self.history(run).ended is not None

    def process(self, run: str) -> Process | None:
        """Return the run's process while it lives."""
        process = self.history(run).process
        return process if process is not None and process.alive else None

    def await_gone(self, run: str) -> None:
        """Return once a run that has ended has told whom it tells of that, too."""
        eventually(lambda: self.process(run) is None)

    def as_the_run_says(self, run: str) -> dict[TopicPartition, tuple[int, ...]]:
        """Return which replicas the run says that it has left."""
        moves = self.history(run).moves
        return {m.move.tp: m.move.after if m.phase is Phase.DONE else m.move.before for m in moves}

    def done_moves(self, run: str) -> int:
        return sum(m.state is MoveStatus.DONE for m in self.view(run).moves)

    def has_moves_in_flight(self, run: str) -> bool:
        """Return whether moves of a run are in flight."""
        planned = {m.move.tp for m in self.history(run).moves}
        return bool(planned & self.fetch_reassignments().keys())

    def dirs_now(self, broker: int) -> dict[TopicPartition, str]:
        """Return in which log dir a broker's replicas lie, as it tells now."""
        (answer,) = self.client.describe_log_dirs([broker])
        here = [log for log in answer.replicas if not log.future]
        return {TopicPartition(log.topic, log.partition): log.log_dir for log in here}

    def replicas_now(self, tp: TopicPartition) -> tuple[int, ...]:
        """Return a partition's replicas, as a broker tells them now."""
        state = self.client.describe_cluster()
        index = state.find(tp)
        return () if index is None else state.replicas(index)

    def fetch_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Return what is in flight; nothing while nobody answers."""
        try:
            return self.client.fetch_reassignments()
        except UnreachableError:
            return {}

    def end_processes(self) -> None:
        """End whatever runs for this home: runs are in sessions of their own."""
        for path in self._journals():
            for process in running_with({str(path)}):
                process.stop(0.0)

    def _journals(self) -> list[Path]:
        folder = journal_path(self.sandbox.cluster_id, "x").parent
        return list(folder.glob("*.run"))

    def _command(self, *words: str) -> list[str]:
        main = "import sys; from core.cli.main import run; sys.exit(run(lambda context: None))"
        return [sys.executable, "-P", "-c", main, "-b", self.sandbox.bootstrap, *words]

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        path = [str(ROOT), str(ROOT / "tests"), str(INJECT)]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(path),
            "TRIMTAB_CHAOS": str(self.orders.folder),
        }

    # -- nodes ------------------------------------------------------------------------------------

    def pid(self, node: int) -> int:
        process = self.sandbox.process(node)
        assert process is not None, f"node {node} does not run"
        return process.pid

    def is_alive(self, broker: int) -> bool:
        with suppress(UnreachableError):
            return any(b.id == broker and b.alive for b in self.client.describe_cluster().brokers)
        return False

    def nodes_of(self, part: str, targets: Targets, before: Targets) -> tuple[int, ...]:
        """Return the nodes that play a part in the run from `before` to these targets."""
        arriving = [b for tp in targets for b in targets[tp] if b not in before[tp]]
        leading = [before[tp][0] for tp in targets]
        match part:
            case "source":
                return ((sources(targets, before) or leading)[0],)
            case "destination":
                receiving = arriving or leading  # whose replicas change their log dir
                return (max(sorted(set(receiving)), key=receiving.count),)
            case "uninvolved":
                return (UNINVOLVED,)
            case "controller":
                return (self._active_controller(),)
            case _:
                return tuple(
                    n for role in part.split(" and ") for n in self.nodes_of(role, targets, before)
                )

    def _active_controller(self) -> int:
        controllers: list[int] = []

        def leads() -> bool:
            with suppress(UnreachableError):
                leader = self.client.describe_cluster().controller
                if leader is not None and self.sandbox.process(leader) is not None:
                    controllers.append(leader)
            return bool(controllers)

        eventually(leads)
        return controllers[0]

    def start_nodes(self) -> None:
        """Start whatever is down, but for the broker that is dead for good."""
        for node in self.sandbox.nodes:
            if node.id != DEAD and self.sandbox.process(node.id) is None:
                self.sandbox.start(node.id)

    def revive(self) -> None:
        """Start whatever is down, and return once every replica is in sync."""
        self.start_nodes()
        eventually(self._is_whole, 120)

    def _is_whole(self) -> bool:
        with suppress(UnreachableError):
            state = self.client.describe_cluster()
            rows = [state.row(i) for i in range(state.partition_count)]
            return all(set(row.isr) >= set(row.replicas) - set(row.adding) for row in rows)
        return False


def _is_begun(path: Path) -> bool:
    with suppress(JournalError), Journal.open(path) as journal:
        return bool(journal.records())
    return False
