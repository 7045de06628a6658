"""The first look at a cluster, in a process of its own.

kafka-python takes a tenth of a second to import and as long to connect, all of it Python: in a
thread it would hold up Textual, which takes as long to import. So a fork does it side by side
with that, sends what it saw through a pipe, and ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading

from core.cluster.connect import Address, connect
from core.cluster.state import ClusterState
from core.errors import TrimtabError


class Prefetch:
    """A look at real brokers that began when this was made; to be made before any thread."""

    def __init__(self, address: Address) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._answer, answering = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _look(address, answering)
        os.close(answering)

    @staticmethod
    def suits(address: Address) -> bool:
        """Return whether a fork is worth it and safe (macOS's own libraries do not survive one)."""
        return not address.is_simulated and sys.platform == "linux"

    def result(self) -> ClusterState | None:
        """Wait for what was seen, once; None where it ended without. Raises as `connect` does."""
        with os.fdopen(self._answer, "rb") as pipe:
            pickled = pipe.read()
        with self._lock:
            os.waitpid(self._pid, 0)
            self._ended = True
        # From our own fork through a pipe that nobody else can open: safe to unpickle.
        answer: ClusterState | TrimtabError | None = pickle.loads(pickled) if pickled else None
        if isinstance(answer, TrimtabError):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process if it still looks; `result` then returns None."""
        with self._lock:
            if not self._ended:
                os.kill(self._pid, signal.SIGKILL)


def _look(address: Address, answering: int) -> None:
    """Look, answer and end; what goes wrong otherwise is the parent's to see when it looks."""
    # Signals end it as any process: what the parent does then is none of its business.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        try:
            answer: object = connect(address).client.describe_cluster()
        except TrimtabError as error:
            answer = error
        with os.fdopen(answering, "wb") as pipe:
            pickle.dump(answer, pipe, pickle.HIGHEST_PROTOCOL)
    finally:
        # Neither a traceback nor the parent's own clean-up may happen here.
        os._exit(0)
