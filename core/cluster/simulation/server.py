"""The simulator's side of the socket: a SimulatedCluster that lives in real time.

JSON lines both ways, one answer a request; no pickle. `core.load.simulator` is the process.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from core.cluster.client import NewPartitions, NewTopic, OffsetAt
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation import codec
from core.cluster.simulation.cluster import SimulatedCluster

Json = Any

PULSE_SECONDS = 0.05
"""How often the cluster is brought up to its clock, in real time."""


class SimulatorServer:
    """Owns a cluster and its clock: `speed` simulated seconds pass in each real one."""

    def __init__(self, cluster: SimulatedCluster, path: Path, speed: float = 1.0) -> None:
        self.cluster = cluster
        self.path = path
        self.speed = speed
        self.stopped = threading.Event()
        self._began = time.monotonic()
        self._began_at = cluster.now
        cluster.set_speed(speed)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = _Server(str(path), _Connection)
        path.chmod(0o600)
        self._server.owner = self
        self._calls = _calls(self)

    def start(self) -> None:
        """Serve and live in background threads until `stop` or a client's shutdown."""
        threading.Thread(
            target=self._server.serve_forever, args=(PULSE_SECONDS,), daemon=True
        ).start()
        threading.Thread(target=self._live, daemon=True).start()

    def stop(self) -> None:
        """Stop serving and remove the socket."""
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self.path.unlink(missing_ok=True)

    def clock_document(self) -> Json:
        return {"at": self._began_at.isoformat(), "monotonic": self._began, "speed": self.speed}

    def answer(self, request: Json) -> Json:
        call = self._calls.get(request.get("call"))
        if call is None:
            return {"error": f"unknown call {request.get('call')!r}"}
        try:
            return {"answer": call(*request.get("args", ()))}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _live(self) -> None:
        started = self.cluster.elapsed_seconds
        while not self.stopped.wait(PULSE_SECONDS):
            due = started + (time.monotonic() - self._began) * self.speed
            # In small portions, so that requests are answered in between when it lags behind.
            while due - self.cluster.elapsed_seconds > 1e-6 and not self.stopped.is_set():
                self.cluster.advance(min(due - self.cluster.elapsed_seconds, 5.0 * self.speed))


def _calls(server: SimulatorServer) -> Mapping[str, Callable[..., Json]]:
    """Return what may be asked, by name, in terms of what travels."""
    cluster = server.cluster
    own = {group.id: group.members for group in cluster.spec.groups}
    faults = codec.encode_fault

    def altered(done: Mapping[TopicPartition, Fault | None]) -> Json:
        return codec.encode_by_partition(done, faults)

    def by_topic(done: Mapping[str, Fault | None]) -> Json:
        return [[name, faults(fault)] for name, fault in done.items()]

    def create_topics(topics: Json) -> Json:
        wanted = [NewTopic(name, _layout(replicas), configs) for name, replicas, configs in topics]
        return by_topic(cluster.create_topics(wanted))

    def add_partitions(additions: Json) -> Json:
        wanted = {name: NewPartitions(n, _layout(replicas)) for name, n, replicas in additions}
        return by_topic(cluster.add_partitions(wanted))

    def alter_configs(changes: Json) -> Json:
        done = cluster.alter_configs(codec.decode_changes(changes))
        return [[codec.encode_resource(r), faults(fault)] for r, fault in done.items()]

    def list_entries(lists: Json) -> Json:
        found = cluster.fetch_list_entries([(codec.decode_resource(r), name) for r, name in lists])
        return [
            [codec.encode_resource(r), name, None, faults(answer)]
            if isinstance(answer, Fault)
            else [codec.encode_resource(r), name, sorted(answer), None]
            for (r, name), answer in found.items()
        ]

    def alter_log_dirs(moves: Json) -> Json:
        wanted = {(TopicPartition(t, p), b): path for t, p, b, path in moves}
        done = cluster.alter_log_dirs(wanted)
        return [[*tp, broker, faults(fault)] for (tp, broker), fault in done.items()]

    return {
        "clock": server.clock_document,
        "shutdown": server.stopped.set,
        "describe_cluster": lambda: codec.encode_state(cluster.describe_cluster()),
        "fetch_denied_topics": lambda names: sorted(cluster.fetch_denied_topics(names)),
        "describe_log_dirs": lambda brokers: codec.encode_logs(cluster.describe_log_dirs(brokers)),
        "fetch_reassignments": lambda: codec.encode_by_partition(
            cluster.fetch_reassignments(), lambda r: [r.replicas, r.adding, r.removing]
        ),
        "alter_reassignments": lambda targets: altered(
            cluster.alter_reassignments(codec.decode_by_partition(targets, tuple))
        ),
        "cancel_reassignments": lambda tps: altered(
            cluster.cancel_reassignments(codec.decode_partitions(tps))
        ),
        "describe_configs": lambda resources, names: codec.encode_configs(
            cluster.describe_configs([codec.decode_resource(r) for r in resources], names)
        ),
        "alter_configs": alter_configs,
        "fetch_list_entries": list_entries,
        "elect_leaders": lambda tps, unclean: altered(
            cluster.elect_leaders(codec.decode_partitions(tps), unclean=unclean)
        ),
        "create_topics": create_topics,
        "add_partitions": add_partitions,
        "delete_topics": lambda names: by_topic(cluster.delete_topics(names)),
        "alter_log_dirs": alter_log_dirs,
        "fetch_offsets": lambda tps, at: codec.encode_by_partition(
            cluster.fetch_offsets(codec.decode_partitions(tps), OffsetAt(at)), int
        ),
        "describe_groups": lambda matching: [
            codec.encode_group(g) for g in cluster.describe_groups(matching)
        ],
        "stop_broker": cluster.stop_broker,
        "start_broker": cluster.start_broker,
        "fill_disk": cluster.fill_disk,
        "free_disk": cluster.free_disk,
        "skew": lambda of, times, tps: cluster.skew(of, times, codec.decode_partitions(tps)),
        "even": cluster.clear_skew,
        "change_members": cluster.change_members,
        "faults": lambda: {
            "skewed": cluster.skewed,
            "full": [[broker, list(paths)] for broker, paths in cluster.full_disks().items()],
            "more": {group: n - own.get(group, 0) for group, n in cluster.members().items()},
        },
    }


def _layout(replicas: Json) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(one) for one in replicas)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    owner: SimulatorServer


class _Connection(socketserver.StreamRequestHandler):
    """One client's requests; a client that dies takes nothing else with it."""

    def handle(self) -> None:
        owner = cast(_Server, self.server).owner
        with contextlib.suppress(OSError):  # the client has gone, and nobody is left to tell
            for line in self.rfile:
                if owner.stopped.is_set():
                    return
                try:
                    answer = owner.answer(json.loads(line))
                except (ValueError, AttributeError):
                    answer = {"error": "not a request"}
                self.wfile.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
