"""The simulator's process: owns a simulated cluster, serves it, and publishes what it carries.

`start_simulator` starts one and waits until it answers; it ends with its owner, or when told.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from core import paths
from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.simulated import SimulatedCluster, demo_spec
from core.cluster.state import ClusterState
from core.errors import TrimtabError, UnreachableError
from core.load.snapshot import BrokerLoad, Float64, LoadSnapshot, Quality, Source

PUBLISH_SECONDS = 15.0
"""How often a snapshot is published, in real time."""
START_SECONDS = 30.0
"""How long a simulator may take to answer."""
LONGEST_SOCKET_PATH = 100
"""Unix socket paths may have about 104 bytes."""
READY = "ready"

# horizon, how far apart rates are looked at within it
_HORIZONS = (
    ("5m", timedelta(minutes=5), timedelta(seconds=15)),
    ("1h", timedelta(hours=1), timedelta(minutes=2)),
    ("24h", timedelta(hours=24), timedelta(minutes=30)),
)


@dataclass(frozen=True, slots=True)
class Simulator:
    """A running simulator and how to end it."""

    address: Address
    cluster_id: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End the simulator; one that is gone already is fine."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_simulator(
    seed: int = 0, brokers: int = 12, partitions: int = 4180, speed: float = 1.0
) -> Simulator:
    """Start a simulator owned by this process; returns once it answers and has published.

    Raises UnreachableError when it does not come up; its log says why.
    """
    log = paths.log_dir() / "simulator.log"
    log.parent.mkdir(parents=True, exist_ok=True)
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
            [sys.executable, "-P", "-m", "core.load.simulated"]
            + [part for name, value in arguments.items() for part in (f"--{name}", str(value))],
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
    if len(str(folder)) > LONGEST_SOCKET_PATH - len("/sock"):
        return Path(tempfile.mkdtemp(prefix="trimtab-"))
    folder.mkdir(mode=0o700)
    return folder


# -- what it publishes -----------------------------------------------------------------------------


def snapshot_of(cluster: SimulatedCluster, number: int) -> LoadSnapshot:
    """Return the load of a simulated cluster as a snapshot, from what its producers really do."""
    now = cluster.now
    state = cluster.describe()
    state = state.with_logs(
        cluster.log_dirs([broker.id for broker in state.brokers if broker.alive])
    )
    readers, message_bytes = cluster.readers_and_message_bytes()
    rates: dict[tuple[str, str, str], Float64] = {}
    for horizon, span, step in _HORIZONS:
        moments = [now - span + step * (i + 0.5) for i in range(span // step)]
        seen = cluster.produced_bytes_per_s(moments)
        for statistic, column in (
            ("avg", seen.mean(axis=0)),
            ("p95", np.percentile(seen, 95, axis=0)),
            ("max", seen.max(axis=0)),
        ):
            rates[horizon, "in_bytes_per_s", statistic] = column
            rates[horizon, "out_bytes_per_s", statistic] = column * readers
            rates[horizon, "messages_per_s", statistic] = column / message_bytes
    count = state.partition_count
    return LoadSnapshot(
        cluster_id=state.cluster_id,
        snapshot_id=f"{number:012d}",
        source=Source.SIMULATED,
        published_at=now,
        window_end=now,
        topics=tuple(topic.name for topic in state.topics),
        topic_of=state.topic_of,
        partition=state.partition,
        rates=rates,
        size_bytes=state.partition_size_bytes,
        growth_bytes_per_s=np.full(count, np.nan),
        quality=np.full(count, Quality.FULL, np.int8),
        method=np.ones(count, np.int8),
        brokers=broker_loads(
            state,
            rates["5m", "in_bytes_per_s", "avg"],
            rates["5m", "out_bytes_per_s", "avg"],
        ),
        metadata_hash=state.metadata_hash,
        leader=state.leader,
    )


def broker_loads(
    state: ClusterState, in_bytes_per_s: Float64, out_bytes_per_s: Float64
) -> tuple[BrokerLoad, ...]:
    """Return every broker's totals, given each partition's rates, [P]."""
    size = int(state.broker_ids.max()) + 1
    leads, on = state.is_leader, state.replica_broker
    copies = state.in_sync & ~leads
    of = state.partition_of_replica
    followers = np.bincount(of, copies, state.partition_count)

    def per_broker(values: Float64) -> Float64:
        totals: Float64 = np.bincount(on, values, size).astype(np.float64)
        return totals

    led_in = per_broker(np.where(leads, in_bytes_per_s[of], 0.0))
    copied_in = per_broker(np.where(copies, in_bytes_per_s[of], 0.0))
    led_out = out_bytes_per_s + in_bytes_per_s * followers
    out = per_broker(np.where(leads, led_out[of], 0.0))
    held = per_broker(np.maximum(state.size_bytes, 0).astype(np.float64))
    leaders = per_broker(leads.astype(np.float64))
    replicas = np.bincount(on, minlength=size)
    return tuple(
        BrokerLoad(
            broker=b.id,
            leader_in_bytes_per_s=float(led_in[b.id]),
            follower_in_bytes_per_s=float(copied_in[b.id]),
            out_bytes_per_s=float(out[b.id]),
            size_bytes=int(held[b.id]) if b.alive else None,
            leaders=int(leaders[b.id]),
            replicas=int(replicas[b.id]),
        )
        for b in state.brokers
    )


# -- the process -----------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Be the simulator until the owner is gone, a client says so, or a signal comes."""
    import signal

    from core.cluster.simulator_server import SimulatorServer

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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stopped.set())
    root = paths.load_root()
    server.start()
    try:
        _publish_until_stopped(server.cluster, root, server.stopped, arguments.owner)
    finally:
        server.stop()
        _forget(root, spec.cluster_id)
        with contextlib.suppress(OSError):
            arguments.socket.parent.rmdir()
    return 0


def _publish_until_stopped(
    cluster: SimulatedCluster, root: Path, stopped: threading.Event, owner: int | None
) -> None:
    from core.load.published import write_snapshot

    number, due = 0, 0.0
    child = owner == os.getppid()
    while not stopped.is_set():
        if time.monotonic() >= due:
            number += 1
            try:
                write_snapshot(root, snapshot_of(cluster, number))
            except (OSError, TrimtabError) as error:
                print(f"snapshot {number} was not published: {error}", file=sys.stderr, flush=True)
            due = time.monotonic() + PUBLISH_SECONDS
            if number == 1:
                print(READY, flush=True)
        stopped.wait(0.5)
        if owner is not None and not _runs(owner, child):
            return


def _runs(owner: int, child: bool) -> bool:
    """Return whether the owner still runs; a child is told by losing its parent."""
    if child:
        return os.getppid() == owner
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _forget(root: Path, cluster_id: str) -> None:
    """Remove what was published: nobody will meet this cluster again."""
    from core.load import layout

    for folder in (layout.snapshots(root, cluster_id), layout.windows(root, cluster_id)):
        shutil.rmtree(folder, ignore_errors=True)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="core.load.simulated")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brokers", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=4180)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--owner", type=int)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
