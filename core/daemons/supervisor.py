"""A process of its own that serves those who read a cluster: how it starts, works and is stopped.

One in each role for a cluster on this host: each holds a lease, so of two that start the second
ends. It ends 60 s after its last reader is gone, however that one went.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from core import files, passwords, paths
from core.cluster.capacity import UNKNOWN_CAPACITY, Capacity
from core.cluster.connect import Address, Connection, connect, only_of
from core.daemons.heartbeat import Readers, held_while_read, stop_signals
from core.daemons.process import Process, spawn
from core.errors import TrimtabError
from core.load import layout

LOOK_SECONDS = 60.0
"""How often whoever reads looks whether it is served still."""
LONGEST_SECONDS = 3600.0
"""What never lasts is started again as rarely as that at last."""
NOTED_SECONDS = 3600.0
"""What stays the same is noted as rarely as that."""

# -- whoever starts one ----------------------------------------------------------------------------


def start(
    role: str,
    module: str,
    cluster_id: str,
    *,
    root: Path,
    address: Address | None = None,
    words: Sequence[str] = (),
    under: Sequence[str] = (),
) -> Process | None:
    """Start `module` in this role, its log in the logs' folder; None when one runs already.

    Returns at once. It is given `words` after what `arguments` reads; `under` are words before its
    command, of a program that becomes it.
    """
    if files.is_leased(layout.lock(root, cluster_id, role)):
        return None
    # Joined: a cluster's id may begin with a dash, and would be taken for an option.
    where = [f"--cluster-id={cluster_id}", f"--root={root}"]
    if address is not None:
        where.append(f"--bootstrap={address.bootstrap}")
        if address.command_config is not None:
            where.append(f"--command-config={address.command_config}")
        if address.timeout_seconds is not None:
            where.append(f"--timeout={address.timeout_seconds}")
    log = paths.log_dir() / f"{role}-{paths.safe_name(cluster_id)}.log"
    paths.make_folder(log.parent)
    with passwords.open_pipe(address.command_config if address else None) as stdin:
        handed = () if stdin is None else (passwords.ON_STDIN,)
        # -P: a folder `core` where the user happens to be must not be taken for ours.
        command = [*under, sys.executable, "-P", "-m", module, *where, *handed, *words]
        return spawn(command, output=log, stdin=stdin)


class Kept:
    """A process in a role, started at the first `look`, and again when one finds that it has ended.

    One that does not last (killed for its memory, not installed) is started less and less often.
    """

    def __init__(self, start: Callable[[], Process | None]) -> None:
        self._start = start
        self._process: Process | None = None
        self._due = self._pause = 0.0
        self.trouble: str | None = None
        """Why it could not be started when that was tried last; None when it could."""

    @property
    def started(self) -> tuple[Process, ...]:
        """What was started last; too young, perhaps, to hold its lease yet."""
        return () if self._process is None else (self._process,)

    def look(self) -> None:
        """Start it unless it runs, or was looked at a moment ago; raises OSError."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LOOK_SECONDS
        lives = self._process is not None and self._process.alive
        try:
            started = None if lives else self._start()
        except OSError as error:
            self.trouble = error.strerror or str(error)
            raise
        self.trouble = None
        if started is None:
            self._pause = 0.0
            return
        self._process = started
        self._pause = min(max(LOOK_SECONDS, 2 * self._pause), LONGEST_SECONDS)
        self._due = now + self._pause


def holder(root: Path, cluster_id: str, role: str) -> Process | None:
    """Return the process that has this role for the cluster on this host."""
    path = layout.lock(root, cluster_id, role)
    if not files.is_leased(path):
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        process = Process(int(held["pid"]), str(held["started"]))
    except (ValueError, TypeError, KeyError, FileNotFoundError):
        # It has just begun or is just ending; or who holds it is not known.
        return None
    return process if process.alive else None


def stop(
    root: Path,
    cluster_id: str,
    roles: Iterable[str],
    *,
    started: Iterable[Process] = (),
    seconds: float,
) -> None:
    """End whoever has these roles now, whoever else reads; returns when they have ended.

    `started` are too young, perhaps, to hold their lease yet. Each is given so many seconds.
    """
    holders = (holder(root, cluster_id, role) for role in roles)
    processes = {*started, *(process for process in holders if process is not None)}
    for process in processes:
        process.signal(15)
    for process in processes:
        process.stop(seconds)


# -- the process itself ----------------------------------------------------------------------------


def arguments(role: str, *, asks_cluster: bool = True) -> argparse.ArgumentParser:
    """Return a parser of what `start` says; the process adds its own words."""
    parser = argparse.ArgumentParser(prog=f"trimtab-{role}")
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument(passwords.ON_STDIN, action="store_true")
    if asks_cluster:
        parser.add_argument("--bootstrap", required=True)
        parser.add_argument("--command-config", type=Path)
        parser.add_argument("--timeout", type=float)
    return parser


@dataclass(frozen=True, slots=True)
class Service:
    """What the process was started with, and until when it works."""

    given: argparse.Namespace
    told: threading.Event
    """Set when it is asked to end."""
    readers: Readers

    def keep_on(self) -> bool:
        return not self.told.is_set() and not self.readers.gone()

    @contextmanager
    def connected(self, capacity: Capacity = UNKNOWN_CAPACITY) -> Iterator[Connection]:
        """Speak to the cluster, and to no other that has come to its address.

        Raises UnreachableError.
        """
        given = self.given
        address = Address(given.bootstrap, given.command_config, capacity, given.timeout)
        connection = connect(address)
        try:
            yield replace(connection, client=only_of(connection.client, given.cluster_id))
        finally:
            connection.client.close()


class Notes:
    """A log of what happens again and again: what is new, and the same only once an hour."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._noted: object = None
        self._due = 0.0

    def note(self, level: int, what: object, text: str, *words: object) -> None:
        """Write a line unless `what` equals what was noted last, a moment ago."""
        now = time.monotonic()
        if what != self._noted or now >= self._due:
            self._noted, self._due = what, now + NOTED_SECONDS
            self._log.log(level, text, *words)


def serve(
    role: str,
    given: argparse.Namespace,
    work: Callable[[Service], None],
    *,
    log: logging.Logger,
    broken_off: Callable[[TrimtabError], None] = lambda error: None,
) -> int:
    """Do `work` in this role until told to stop or until nobody reads; returns the exit code.

    What breaks it off is logged, and told to `broken_off`: whoever reads must learn why nothing
    comes any more.
    """
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form)
    log.setLevel(logging.INFO)
    if given.passwords_on_stdin:
        passwords.receive()
    told = stop_signals(detached=True)
    root, cluster_id = given.root, given.cluster_id

    def whole() -> None:
        work(Service(given, told, Readers(root, cluster_id)))

    try:
        ours = _held(root, cluster_id, role, told, whole)
    except TrimtabError as error:
        log.error("%s", error)
        try:
            broken_off(error)
        except OSError as untold:
            log.error("Nobody who reads could be told: %s", untold)
        return int(error.exit_code)
    log.info("stopped" if ours else f"another {role} has this cluster")
    return 0


def _held(
    root: Path, cluster_id: str, role: str, told: threading.Event, work: Callable[[], None]
) -> bool:
    """Do `work` in this role while somebody reads; raises nothing but TrimtabError."""
    try:
        return held_while_read(root, cluster_id, role, told, work)
    except TrimtabError:
        raise
    except Exception as bug:
        from core.bug_log import log_bug

        words = str(bug).splitlines() or [type(bug).__name__]
        raise TrimtabError(f"The {role} broke off: {words[0]}", next=log_bug()) from bug
