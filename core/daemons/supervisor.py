"""Starts a cluster's background processes, keeps them going for whoever reads, and stops them.

One process in each role for a cluster on this host: each holds a lease, so of two that start the
second ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import passwords, paths
from core.daemons.heartbeat import Heartbeat
from core.daemons.lease import is_leased, lease_file, lease_holder
from core.daemons.process import Process, spawn

CHECK_SECONDS = 60.0
"""How often a reader checks whether its processes still run."""
MAX_BACKOFF_SECONDS = 3600.0
"""A process that never lasts is started no less often than this."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A background process: `python -P -m module` in a role, with the arguments that it takes."""

    role: str
    module: str
    arguments: tuple[str, ...] = ()
    command_config: Path | None = None
    """Client properties whose passwords, if any were typed, it gets through a pipe."""
    launcher: tuple[str, ...] = ()
    """A program, with its arguments, that becomes the process: `systemd-run …`."""
    instead: tuple[str, ...] = ()
    """Whose process in this role does the same for this cluster."""


def start_daemon(daemon: Daemon, cluster_id: str, *, root: Path) -> Process | None:
    """Start a process for a cluster, its log in the logs' folder; None when one runs already.

    Returns at once. Raises OSError when it cannot be started.
    """
    names = (cluster_id, *daemon.instead)
    if any(is_leased(lease_file(root, name, daemon.role)) for name in names):
        return None
    log = paths.log_dir() / f"{daemon.role}-{paths.safe_name(cluster_id)}.log"
    paths.make_folder(log.parent)
    with passwords.open_pipe(daemon.command_config) as stdin:
        command = [
            # -P: a folder `core` where the user happens to be must not be taken for ours.
            *(*daemon.launcher, sys.executable, "-P", "-m", daemon.module),
            # Joined: a cluster's id may begin with a dash, and would be taken for an option.
            *(f"--cluster-id={cluster_id}", f"--root={root}"),
            *(() if stdin is None else (passwords.ON_STDIN,)),
            *daemon.arguments,
        ]
        return spawn(command, output=log, stdin=stdin)


def stop_daemons(
    root: Path,
    cluster_id: str,
    roles: Iterable[str],
    *,
    started: Iterable[Process] = (),
    seconds: float,
) -> None:
    """Stop whoever has these roles now, whoever else reads; returns when they have ended.

    `started` are processes too young, perhaps, to hold their lease yet. Each has so many seconds.
    """
    holders = (lease_holder(lease_file(root, cluster_id, role)) for role in roles)
    processes = {*started, *(process for process in holders if process is not None)}
    for process in processes:
        process.signal(15)
    for process in processes:
        process.stop(seconds)


class Restarter:
    """One process, started at the first `check`, and again when one finds that it has ended.

    A process that does not last (killed for its memory, not installed) is started with backoff.
    """

    def __init__(self, role: str, start: Callable[[], Process | None]) -> None:
        self.role = role
        self._start = start
        self._due = self._backoff = 0.0
        self.started: Process | None = None
        """The process that was started last; too young, perhaps, to hold its lease yet."""
        self.error: str | None = None
        """Why it could not be started when that was tried last; None when it could."""

    def check(self) -> None:
        """Start the process unless it runs, or was checked a moment ago; raises OSError."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + CHECK_SECONDS
        is_running = self.started is not None and self.started.alive
        try:
            started = None if is_running else self._start()
        except OSError as error:
            self.error = error.strerror or str(error)
            raise
        self.error = None
        if started is None:
            self._backoff = 0.0
            return
        self.started = started
        self._backoff = min(max(CHECK_SECONDS, 2 * self._backoff), MAX_BACKOFF_SECONDS)
        self._due = now + self._backoff


class Supervisor:
    """A reader of one cluster whose processes are kept going until `close`."""

    def __init__(
        self,
        root: Path,
        cluster_id: str,
        daemons: Sequence[Daemon],
        *,
        stop_seconds: float,
        failure: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`failure` returns why one of the processes ended, in its own words."""
        self._root, self._cluster_id = root, cluster_id
        self._stop_seconds, self._failure = stop_seconds, failure
        self._restarters = [
            Restarter(daemon.role, partial(start_daemon, daemon, cluster_id, root=root))
            for daemon in daemons
        ]
        self._heartbeat = Heartbeat(root, cluster_id, self._check)

    @property
    def started(self) -> tuple[Process, ...]:
        """Return the processes that were started for this reader."""
        return tuple(
            restarter.started for restarter in self._restarters if restarter.started is not None
        )

    def trouble(self) -> str | None:
        """Return why a process does not run or work, in a sentence; None while all is fine."""
        errors = (
            f"The {restarter.role} cannot be started: {restarter.error}."
            for restarter in self._restarters
            if restarter.error is not None
        )
        return self._failure() or next(errors, None)

    def close(self) -> None:
        """Stop reading; the processes end when nobody else reads."""
        self._heartbeat.close()

    def stop(self, seconds: float | None = None) -> None:
        """Stop the processes now, whoever else reads; returns when they have ended."""
        self.close()
        stop_daemons(
            self._root,
            self._cluster_id,
            [restarter.role for restarter in self._restarters],
            started=self.started,
            seconds=self._stop_seconds if seconds is None else seconds,
        )

    def _check(self) -> None:
        for restarter in self._restarters:
            restarter.check()
