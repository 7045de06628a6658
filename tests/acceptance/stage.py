"""Where replicas are, as Kafka's TopicCommand describes it: leaders counted, racks compared."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import ExitCode, TrimtabError
from core.units import counted, format_bytes
from tests.sandbox_data import delete_topics, fill

_ROW = re.compile(
    r"Topic: (?P<topic>\S+)\s+Partition: (?P<partition>\d+)\s+Leader: (?P<leader>\S+)"
    r"\s+Replicas: (?P<replicas>\S+)\s+Isr: (?P<isr>\S*)"
)

Replicas = tuple[int, ...]
"""Broker ids, preferred leader first."""


@dataclass(frozen=True, slots=True)
class Described:
    """One partition; `leader` is None where there is none."""

    leader: int | None
    replicas: Replicas
    isr: Replicas


def parse_description(description: str, topics: Collection[str]) -> list[Described]:
    """Return these topics' partitions in order, from what `TopicCommand --describe` prints."""
    rows = {
        (row["topic"], int(row["partition"])): Described(
            int(row["leader"]) if row["leader"].isdigit() else None,
            _ids(row["replicas"]),
            _ids(row["isr"]),
        )
        for row in _ROW.finditer(description)
        if row["topic"] in topics
    }
    return [rows[partition] for partition in sorted(rows)]


def count_leaders(rows: Sequence[Described]) -> str:
    """Return how many partitions each broker leads: `1: 4, 2: 4`."""
    counts = Counter(row.leader for row in rows if row.leader is not None)
    return format_counts(counts)


def format_counts(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{broker}: {count}" for broker, count in sorted(counts.items()))


def format_replicas(replicas: Sequence[Sequence[int]]) -> str:
    """Return replicas as vectors are written: `0,3,1 3,1,5`."""
    return " ".join(",".join(map(str, row)) for row in replicas)


def rack_spread(
    replicas: Sequence[Sequence[int]], racks: Mapping[int, str | None]
) -> tuple[int, int]:
    """Return how many replicas of one partition the emptiest and the fullest rack hold."""
    counts = [
        sum(racks[broker] == rack for broker in row)
        for row in replicas
        for rack in set(racks.values())
    ]
    return min(counts), max(counts)


def _ids(text: str) -> Replicas:
    return tuple(int(word) for word in text.split(",") if word)


ALLOWED = ("--allow", "rf-change,rack-spread")
"""Moves of scenarios add replicas, and need not spread them over racks."""
_TOOLS = "org.apache.kafka.tools"
_SECONDS = 600.0
"""No command of a scenario takes as long."""
_END_SECONDS = 60.0
"""No command takes longer to end once it is told to."""


@dataclass(slots=True)
class Stage:
    """Where one scenario is played; `folder` is for its files, `tell` hears what goes on."""

    sandbox: Sandbox
    folder: Path
    short: bool = False
    """Whether only the short form is wanted, as tests play it."""
    report: Callable[[str], None] = lambda text: None
    topics: set[str] = field(default_factory=set)
    """Topics that were made here and are still there."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self.sandbox.broker_ids))

    @property
    def racks(self) -> dict[int, str | None]:
        return {broker: self.sandbox.node(broker).rack for broker in self.brokers}

    @property
    def settings(self) -> ConnectionSettings:
        return ConnectionSettings(self.sandbox.bootstrap)

    # -- setting up ----------------------------------------------------------------------------

    def make(
        self,
        layouts: Mapping[str, Sequence[Sequence[int]]],
        size_bytes: int = 0,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make topics with exactly these replicas, and so much data in each partition."""
        self.topics |= layouts.keys()
        create_topics(self.settings, layouts, configs)
        rows = [TopicPartition(name, p) for name, held in layouts.items() for p in range(len(held))]
        if size_bytes:
            many = counted(len(rows), "partition")
            self.report(f"filling {many}: {format_bytes(size_bytes)} each")
            fill(self.settings, dict.fromkeys(rows, size_bytes))

    def drop(self, *names: str) -> None:
        """Delete these topics, or all that were made here; returns once they are gone."""
        gone = set(names) or set(self.topics)
        delete_topics(self.settings, sorted(gone))
        self.topics -= gone

    def plan(self, name: str, targets: Mapping[tuple[str, int], Sequence[int]]) -> Path:
        """Write a plan as Kafka's own tool takes it, by hand."""
        rows = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in targets.items()
        ]
        return self.write(name, {"version": 1, "partitions": rows})

    def write(self, name: str, document: Any) -> Path:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(document))
        return path

    # -- the product ---------------------------------------------------------------------------

    def trimtab(
        self, *words: str | Path, offline: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on these brokers (unless `offline`) to its end, whatever it answers."""
        line = self._line(words, offline=offline)
        self.report(_command_line(words))
        return subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def document(self, *words: str | Path, offline: bool = False) -> Any:
        """Return what a command that must succeed prints with --json.

        Raises TrimtabError when it does not; an answer of *no* (exit 6) is an answer.
        """
        answer = self.trimtab(*words, "--json", offline=offline)
        if answer.returncode not in (ExitCode.DONE, ExitCode.NO):
            raise _failed(words, answer.returncode, answer.stderr)
        return json.loads(answer.stdout)

    def lines(self, *words: str | Path) -> list[dict[str, Any]]:
        """Return the documents that a command which needs no cluster prints with --json.

        Raises TrimtabError when it fails.
        """
        answer = self.trimtab(*words, "--json", offline=True)
        if answer.returncode != ExitCode.DONE:
            raise _failed(words, answer.returncode, answer.stderr)
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def follow(self, *words: str | Path) -> tuple[int, list[dict[str, Any]], str]:
        """Run a command that follows a run to its end, telling how far it is.

        Returns its exit code, its events, and what it said beside them.
        """
        events: list[dict[str, Any]] = []
        line = self._line((*words, "--json"), offline=False)
        with (
            (self.folder / "said").open("w+") as stderr,
            subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
            ) as process,
        ):
            assert process.stdout is not None
            self.report(_command_line(words))
            for event_line in process.stdout:
                events.append(json.loads(event_line))
                if events[-1]["event"] == "progress":
                    moved, total = (events[-1][key] for key in ("moved_bytes", "total_bytes"))
                    self.report(
                        f"{_command_line(words)}: {format_bytes(moved)} of {format_bytes(total)}"
                    )
            code = process.wait()
            stderr.seek(0)
            return code, events, stderr.read()

    def begin(self, name: str, *words: str | Path) -> Running:
        """Start a command that goes on until it is stopped; what it prints goes to a file."""
        self.report(_command_line(words))
        path = self.folder / f"{name}.out"
        with path.open("wb") as output:
            process = subprocess.Popen(
                self._line(words, offline=False),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return Running(words, path, process)

    def _line(self, words: Sequence[str | Path], *, offline: bool) -> list[str]:
        where = () if offline else ("-b", self.sandbox.bootstrap)
        return [sys.executable, "-P", "-m", "tui", *where, *map(str, words)]

    # -- Kafka's own tools ---------------------------------------------------------------------

    def kafka(self, tool: str, *arguments: str) -> str:
        """Return what one of Kafka's own tools prints; raises TrimtabError when it fails."""
        words = (*arguments, "--bootstrap-server", self.sandbox.bootstrap)
        self.report(f"asking Kafka's {tool.rpartition('.')[2]}")
        answer = self.sandbox.tool(tool, *words)
        if answer.returncode != 0:
            raise _failed((tool, *words), answer.returncode, answer.stdout + answer.stderr)
        return answer.stdout

    def describe(self, *topics: str) -> list[Described]:
        """Return topics' partitions in order, as Kafka's TopicCommand describes them."""
        output = self.kafka(f"{_TOOLS}.TopicCommand", "--describe", "--topic", ",".join(topics))
        return parse_description(output, topics)

    def verified(self, plan: Path) -> int:
        """Return how many partitions of a plan Kafka's tool finds completed."""
        output = self.kafka(
            f"{_TOOLS}.reassign.ReassignPartitionsCommand",
            *("--verify", "--preserve-throttles", "--reassignment-json-file", str(plan)),
        )
        return output.count("is completed.")

    def configs(self, kind: str, *name: str) -> str:
        """Return the configs of all `topics` or `brokers`, or of one, as ConfigCommand prints."""
        which = ("--entity-name", *name) if name else ()
        return self.kafka("kafka.admin.ConfigCommand", "--describe", "--entity-type", kind, *which)

    def throttles(self) -> str:
        """Return the throttles of brokers and topics that Kafka's ConfigCommand shows, or none."""
        with ThreadPoolExecutor() as side_by_side:
            output = "".join(side_by_side.map(self.configs, ("brokers", "topics")))
        limits = [line.strip() for line in output.splitlines() if ".replication.throttled." in line]
        return "; ".join(limits) or "none"


@dataclass(frozen=True, slots=True)
class Running:
    """A command that goes on beside the scenario; `path` holds what it has printed."""

    words: tuple[str | Path, ...]
    path: Path
    process: subprocess.Popen[bytes]

    def events(self) -> list[dict[str, Any]]:
        """Return the JSON documents it has printed, a line each; raises TrimtabError if it died."""
        if self.process.poll() not in (None, ExitCode.DONE):
            raise _failed(self.words, self.process.returncode, self.path.read_text())
        lines = self.path.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def stop(self) -> None:
        """Ask it to end, and wait for that; Ctrl-C may be ignored here, and then is there, too."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(_END_SECONDS)


def _command_line(words: Sequence[str | Path]) -> str:
    """Return a command as one would type it, files by their names."""
    return "trimtab " + shlex.join(w.name if isinstance(w, Path) else w for w in words)


def _failed(words: Sequence[str | Path], code: int, message: str) -> TrimtabError:
    return TrimtabError(
        f"A command of the scenario failed with {code}: {_command_line(words)}",
        detail=message.strip(),
    )
