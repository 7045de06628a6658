"""SimulatorClient: a ClusterClient at the other end of a simulator's private Unix socket."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from core.cluster.groups import Group
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.codec import CALLS, decode, encode
from core.errors import UnreachableError

ANSWER_SECONDS = 30.0
"""How long a client waits for an answer."""


class SimulatorClock:
    """The simulator's clock, read here: both processes see the same monotonic clock."""

    def __init__(self, clock: Mapping[str, Any]) -> None:
        self._at: datetime = clock["at"]
        self._began: float = clock["monotonic"]
        self.speed: float = clock["speed"]

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self.speed

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / self.speed)


class SimulatorClient:
    """The cluster at the other end: all of `codec.CALLS`, UnreachableError once it is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stream: tuple[socket.socket, Any] | None = None
        self.last_answer_at = -math.inf
        """When it has last answered anything (monotonic seconds)."""
        self.clock = SimulatorClock(self._ask("clock"))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in CALLS:
            raise AttributeError(name)
        return partial(self._ask, name)

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        """Return groups; `lost` stays here, as a simulated cluster loses none."""
        groups: tuple[Group, ...] = self._ask("describe_groups", matching)
        return groups

    def shutdown(self) -> None:
        """Tell the simulator to end; a simulator that is gone already has done so."""
        with contextlib.suppress(UnreachableError):
            self._ask("shutdown")

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _ask(self, call: str, *args: Any, **options: Any) -> Any:
        request = {"call": call, "args": encode(args), "options": encode(options)}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                stream = self._connect()
                stream.write(line)
                stream.flush()
                line = stream.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionError("the connection was closed")
            except OSError as error:
                self._disconnect()
                raise UnreachableError(
                    f"The simulator at {self.path} does not answer.",
                    detail=str(error),
                    next="Start one with: trimtab demo",
                ) from error
        self.last_answer_at = time.monotonic()
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the simulator refused {call}: {answer['error']}")
        return decode(answer["answer"])

    def _connect(self) -> Any:
        if self._stream is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(ANSWER_SECONDS)
            try:
                connection.connect(str(self.path))
            except OSError:
                connection.close()
                raise
            self._stream = (connection, connection.makefile("rwb"))
        return self._stream[1]

    def _disconnect(self) -> None:
        if self._stream is not None:
            connection, stream = self._stream
            self._stream = None
            # What was not yet sent goes down with a simulator that is gone: it is asked anew.
            with contextlib.suppress(OSError):
                stream.close()
            connection.close()
