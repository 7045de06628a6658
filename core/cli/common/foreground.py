"""Commands that run until a signal: one of a kind at a time, cleaned up whatever ends them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from core.cli.common.output import say
from core.daemons.lease import hold_lease, lease_file
from core.errors import RefusedError


@contextmanager
def required_lease(root: Path, cluster_id: str, role: str, busy: RefusedError) -> Iterator[None]:
    """Be the one process of this machine in a role for a cluster; raises `busy` if another is."""
    with hold_lease(lease_file(root, cluster_id, role)) as ours:
        if not ours:
            raise busy
        yield


@contextmanager
def exit_on_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals, unless they are ignored (nohup), unwind the stack to an exit."""

    def leave(number: int, _: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    heeded = [signum for signum in numbers if signal.getsignal(signum) is not signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def exit_cleanly_on_signals(who: str) -> Iterator[ExitStack]:
    """Let a hang-up, SIGTERM or Ctrl-C unwind the stack, so that what was started is stopped.

    That is put on the stack given; once it is being done, no signal cuts it short: the terminal
    may go away meanwhile. A run must not take Ctrl-C for being let go: it ends with the cluster of
    `who`.
    """
    ending = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    with exit_on_signals(*ending):
        try:
            with ExitStack() as cleanup:
                try:
                    yield cleanup
                finally:
                    for number in ending:
                        signal.signal(number, signal.SIG_IGN)
        except SystemExit as left:
            if left.code == 128 + signal.SIGINT:
                say(f"\nStopped, with everything that {who} had started.")
            raise
