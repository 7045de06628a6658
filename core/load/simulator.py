"""The simulator's process: owns a simulated cluster, serves it, and publishes what it carries.

`start_simulator` starts one and waits until it answers; it ends with its owner, or when told.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from core import files, paths
from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.daemons.process import set_on_signals
from core.errors import TrimtabError, UnreachableError, UsageError
from core.load import load_paths as layout

if TYPE_CHECKING:
    from core.load.snapshot.format import LoadSnapshot

PUBLISH_SECONDS = 15.0
"""How often a snapshot is published, in real time."""
HISTORY = timedelta(hours=6)
"""How much of the time before its start it tells, for charts."""
START_SECONDS = 30.0
"""How long a simulator may take to answer."""
MAX_SOCKET_PATH = 100
"""Unix socket paths may have about 104 bytes."""
READY = "ready"
MIN_BROKERS = 3
"""One for each rack."""
MAX_SPEED = 1_000.0
"""Simulated seconds in a real one; a faster cluster would fall behind its clock."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """A running simulator and how to end it."""

    address: Address
    cluster_id: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End the simulator; one that is gone already is fine."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_simulator(
    seed: int = 0, brokers: int = 12, partitions: int = 4180, speed: float = 1.0
) -> Simulator:
    """Start a simulator owned by this process; returns once it answers and has published.

    Raises UsageError for a cluster that cannot be, UnreachableError when it does not come up:
    its log says why.
    """
    if brokers < MIN_BROKERS or partitions < 1 or not 0 < speed <= MAX_SPEED:
        raise UsageError(
            f"No such cluster: {brokers} brokers, {partitions} partitions, speed {speed:g}.",
            next=f"It takes {MIN_BROKERS} brokers, a partition, and a speed up to {MAX_SPEED:g}.",
        )
    log = paths.log_dir() / "simulator.log"
    paths.make_folder(log.parent)
    folder = _socket_folder()
    socket = folder / "sock"
    cluster_id = f"demo-{secrets.token_hex(8)}"
    arguments = {
        "socket": socket,
        "cluster-id": cluster_id,
        "seed": seed,
        "brokers": brokers,
        "partitions": partitions,
        "speed": speed,
        "owner": os.getpid(),
    }
    with log.open("a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            # -P: a `core` folder in the working directory must not be imported.
            [sys.executable, "-P", "-m", "core.load.simulator"]
            + [f"--{name}={value}" for name, value in arguments.items()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    simulator = Simulator(Address(f"{SIMULATOR_PREFIX}{socket}"), cluster_id, process)
    watch = threading.Timer(START_SECONDS, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().strip() == READY
    finally:
        watch.cancel()
    if not ready:
        simulator.stop()
        raise UnreachableError("The simulator did not start.", next=f"Its log: {log}")
    return simulator


def _socket_folder() -> Path:
    """Return a new private folder whose path is short enough for a socket."""
    name = f"sim-{os.getpid()}-{secrets.token_hex(3)}"
    folder = paths.runtime_dir() / name
    if len(str(folder)) > MAX_SOCKET_PATH - len("/sock"):
        return Path(tempfile.mkdtemp(prefix="trimtab-"))
    folder.mkdir(mode=0o700)
    return folder


def main(argv: list[str] | None = None) -> int:
    """Be the simulator until the owner is gone, a client says so, or a signal comes."""
    # Only the process itself publishes; who starts one needs none of this.
    from core.cluster.simulation.server import SimulatorServer
    from core.load.snapshot.manifest import forget_cluster

    arguments = _arguments(argv)
    spec = demo_spec(
        arguments.seed,
        arguments.brokers,
        arguments.partitions,
        cluster_id=arguments.cluster_id,
        started_at=datetime.now(UTC),
    )
    server = SimulatorServer(
        SimulatedCluster(spec, arguments.seed), arguments.socket, arguments.speed
    )
    set_on_signals(server.stopped, (signal.SIGTERM, signal.SIGINT))
    root = paths.load_root()
    server.start()
    try:
        _publish_until_stopped(server.cluster, root, server.stopped, arguments.owner)
    finally:
        server.stop()
        # Nobody will meet this cluster again.
        forget_cluster(root, spec.cluster_id)
        files.remove_empty(arguments.socket.parent)
    return 0


def _publish_until_stopped(
    cluster: SimulatedCluster, root: Path, stopped: threading.Event, owner: int
) -> None:
    from core.load.simulated_load import (
        SimulatedLoad,
        as_if_at,
        build_snapshot,
        build_window,
        past_hours,
        window_starts,
    )
    from core.load.snapshot.writer import write_snapshot
    from core.load.windows import write_window

    windows_since, due = cluster.now - HISTORY, 0.0
    hours = past_hours(windows_since, cluster.now)
    number = len(hours)
    while not stopped.is_set():
        if time.monotonic() >= due:
            number += 1
            try:
                picture = SimulatedLoad.of(cluster)
                write_snapshot(root, build_snapshot(cluster, picture, number))
                if hours:
                    print(READY, flush=True)
                for start in window_starts(windows_since, picture.state.fetched_at):
                    write_window(
                        root, cluster.spec.cluster_id, build_window(cluster, picture, start)
                    )
                    if stopped.is_set():
                        break
                windows_since = picture.state.fetched_at
                for n, hour in enumerate(hours, 1):
                    if not stopped.is_set():
                        _publish_hour(root, build_snapshot(cluster, as_if_at(picture, hour), n))
                hours = []
            except (OSError, TrimtabError) as error:
                print(f"snapshot {number} was not published: {error}", file=sys.stderr, flush=True)
            due = time.monotonic() + PUBLISH_SECONDS
        stopped.wait(0.5)
        if os.getppid() != owner:  # it is gone: another process has taken its children over
            return


def _publish_hour(root: Path, snapshot: LoadSnapshot) -> None:
    """Publish a snapshot of a time past as if it had been written then: retention goes by that."""
    from core.load.snapshot.writer import write_earlier

    write_earlier(root, snapshot)
    folder = layout.snapshots(root, snapshot.cluster_id) / snapshot.snapshot_id
    os.utime(folder, (snapshot.published_at.timestamp(),) * 2)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="core.load.simulator")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--speed", type=float, required=True)
    for name in ("seed", "brokers", "partitions", "owner"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
