"""The simulator's side of the socket: a SimulatedCluster that lives in real time.

JSON lines both ways, one answer a request; no pickle. `core.load.simulator` is the process.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time
from pathlib import Path
from typing import Any, cast

from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.codec import CALLS, Json, decode, encode

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

    def answer(self, request: Json) -> Json:
        """Return the answer to one request, or an error for one that is none."""
        name = request.get("call")
        try:
            args = decode(request.get("args", ["tuple", []]))
            options = decode(request.get("options", ["dict", ["tuple", []], ["tuple", []]]))
            answer: Any = None
            match name:
                case "clock":
                    answer = {
                        "at": self._began_at,
                        "monotonic": self._began,
                        "speed": self.speed,
                    }
                case "shutdown":
                    self.stopped.set()
                case _ if name in CALLS:
                    answer = getattr(self.cluster, name)(*args, **options)
                case _:
                    return {"error": f"unknown call {name!r}"}
            return {"answer": encode(answer)}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _live(self) -> None:
        started = self.cluster.elapsed_seconds
        while not self.stopped.wait(PULSE_SECONDS):
            due = started + (time.monotonic() - self._began) * self.speed
            # In small portions, so that requests are answered in between when it lags behind.
            while due - self.cluster.elapsed_seconds > 1e-6 and not self.stopped.is_set():
                self.cluster.advance(min(due - self.cluster.elapsed_seconds, 5.0 * self.speed))


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
