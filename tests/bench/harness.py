"""What benches share: brokers, a folder of their own, commands that are timed, and what they leave.

Rows are left as they come, so that an hour of them is not lost to what ends a bench.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.daemons.process import running_with
from tests.waiting import eventually

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
REASSIGN_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
MB = 1_000_000
QUIET_LOAD = 2.5
"""What the machine may be busy with else: above it a row waits, and then says so."""
PATIENCE_SECONDS = 60.0


def arguments(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Return what a bench was called with: `-o FILE`, and an option for each default."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("-o", "--output", type=Path, required=True)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


def leave(report: Any, path: Path) -> None:
    """Write what was found to PATH, as JSON; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


def leave_and_print(report: Any, path: Path) -> None:
    leave(report, path)
    print(json.dumps(report, indent=2))


@contextmanager
def brokers(name: str, ids: Sequence[int] = (1, 2, 3, 4), **options: Any) -> Iterator[Sandbox]:
    """Give a sandbox of its own, which is gone afterwards."""
    say = options.pop("say", lambda text: print(text, file=sys.stderr))
    sandbox = Sandbox.up(f"bench-{name}", ids, replace=True, say=say, **options)
    try:
        yield sandbox
    finally:
        sandbox.down()


@contextmanager
def home_folder() -> Iterator[Path]:
    """Have this process, and what it starts, keep its files in a folder that is gone afterwards.

    Also after Ctrl-C no run is left that would wait for brokers which are gone.
    """
    before = os.environ.get("TRIMTAB_HOME")
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        home = Path(folder)
        os.environ["TRIMTAB_HOME"] = folder
        try:
            yield home
        finally:
            with suppress(OSError):
                for process in running_with({str(path) for path in home.rglob("*.run")}):
                    process.stop(0.0)
            del os.environ["TRIMTAB_HOME"]
            if before is not None:
                os.environ["TRIMTAB_HOME"] = before


# -- commands --------------------------------------------------------------------------------------


def trimtab(sandbox: Sandbox, *words: str, codes: Sequence[int] = (0,)) -> str:
    """Run one command on a sandbox and return what it printed."""
    done = subprocess.run(
        [TRIMTAB, "-b", sandbox.bootstrap, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode in codes, (words, done.returncode, done.stderr, done.stdout)
    return done.stdout


class Reassignment:
    """A plan on a sandbox, carried out by `trimtab apply` or by Kafka's own tool."""

    def __init__(
        self, sandbox: Sandbox, home: Path, targets: Mapping[TopicPartition, Sequence[int]]
    ) -> None:
        self._sandbox, self.path = sandbox, home / "plan.json"
        rows = [{"topic": t, "partition": p, "replicas": to} for (t, p), to in targets.items()]
        self.path.write_text(json.dumps({"version": 1, "partitions": rows}))

    def apply(self, throttle: str) -> list[dict[str, Any]]:
        """Carry it out with trimtab; return the events that it told."""
        words = ("apply", str(self.path), "--throttle", throttle, "--yes", "--json")
        return [json.loads(line) for line in trimtab(self._sandbox, *words).splitlines()]

    def tool(self, *words: str) -> str:
        """Call Kafka's own tool with it; return what that printed."""
        bootstrap = ("--bootstrap-server", self._sandbox.bootstrap)
        files = ("--reassignment-json-file", str(self.path))
        done = self._sandbox.tool(REASSIGN_TOOL, *bootstrap, *words, *files)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Flight:
    """When moves were first and last seen in flight, and when each ended."""

    def __init__(
        self,
        client: KafkaClient,
        *,
        every: float = 0.05,
        sample: Callable[[float], None] = lambda since: None,
    ) -> None:
        """`sample` is called at each look, with the seconds since moves were first in flight."""
        self._client, self._every, self._sample = client, every, sample
        self.began = self.ended = 0.0
        self.ends: list[float] = []
        self._flying = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        before: set[TopicPartition] = set()
        while not self._over.is_set():
            now = set(self._client.fetch_reassignments())
            if before - now:
                self.ends.append(time.monotonic())
            if now:
                self.ended = time.monotonic()
                self.began = self.began or self.ended
                self._sample(self.ended - self.began)
            before, self._flying = now, bool(now)
            time.sleep(self._every)

    def wait(self, seconds: float) -> None:
        """Return once moves have begun and none is left."""
        eventually(lambda: bool(self.began) and not self._flying, seconds, every=0.01)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


_COMMAND = """
import sys
from core.cli.main import run
sys.exit(run(lambda context: None))
"""
# The kernel's ru_maxrss would count what this process held when it made the other one. Workers of
# its own count as if all of them were at their peak at once.
_LAST = """
import atexit, json, os, resource, sys, time
def tell():
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + workers.ru_utime + workers.ru_stime
    kilobytes = int(peak.split()[1]) + workers.ru_maxrss * min(os.cpu_count(), 4)
    print(json.dumps([used, kilobytes * 1024]), file=sys.stderr)
atexit.register(tell)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a process wrote to stdout, and what it took; `code` is its exit code."""

    output: str
    code: int
    seconds: float
    processor_seconds: float
    memory_bytes: int

    @property
    def spent(self) -> dict[str, float]:
        return {
            "seconds": round(self.seconds, 2),
            "processor_seconds": round(self.processor_seconds, 2),
            "memory_bytes": self.memory_bytes,
        }


def run_measured(*words: str, program: str = _COMMAND) -> Measured:
    """Run `trimtab` with some words, or another program; raises where it tells nothing."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LAST + program, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    last = done.stderr.strip().splitlines()[-1:] or [""]
    if not last[0].startswith("["):
        raise RuntimeError(done.stderr)
    processor, peak = json.loads(last[0])
    return Measured(done.stdout, done.returncode, seconds, processor, peak)


# -- numbers ---------------------------------------------------------------------------------------


def percentile(values: Sequence[float], fraction: float) -> float:
    return sorted(values)[math.ceil(fraction * len(values)) - 1]


def summed_up(seconds: list[float]) -> dict[str, float]:
    """Return what waits of one kind come to."""
    return {
        "changes": len(seconds),
        "median": round(median(seconds), 2),
        "p95": round(percentile(seconds, 0.95), 2),
        "worst": round(max(seconds), 2),
    }


def wait_for_quiet() -> float:
    """Wait until the machine has little else to do, but not for ever; return how busy it is."""
    until = time.monotonic() + PATIENCE_SECONDS
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < until:
        time.sleep(1)
    return os.getloadavg()[0]


def begun(output: Path, name: str, expected_names: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of an interrupted bench, by `name`; none where it had all that are wanted."""
    if not output.exists():
        return []
    report = json.loads(output.read_text())
    rows = report["plans"] if isinstance(report, dict) else report
    done = [row for row in rows if row[name] in expected_names]
    return [] if len(done) == len(expected_names) else done
