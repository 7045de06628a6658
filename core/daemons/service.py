"""The inside of a background process: its arguments, its lease, when it ends, and its log."""

from __future__ import annotations

import argparse
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core import passwords
from core.bug_log import log_bug
from core.daemons.heartbeat import Readers
from core.daemons.lease import hold_lease, lease_file
from core.daemons.process import stop_signals
from core.errors import TrimtabError

REPEAT_SECONDS = 3600.0
"""How often the log repeats what stays the same."""


def build_parser(role: str) -> argparse.ArgumentParser:
    """Return a parser of what `start_daemon` passes on; the process adds its own options."""
    parser = argparse.ArgumentParser(prog=f"trimtab-{role}")
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument(passwords.ON_STDIN, action="store_true")
    return parser


@dataclass(frozen=True, slots=True)
class Service:
    """What the process was started with, and until when it works."""

    options: argparse.Namespace
    stop_requested: threading.Event
    readers: Readers

    def keep_on(self) -> bool:
        return not self.stop_requested.is_set() and not self.readers.are_gone()


class ChangeLog:
    """Logs repeated events: those that are new, and the same only once an hour."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._last: object = None
        self._due = 0.0

    def log(self, level: int, event: object, text: str, *args: object) -> None:
        """Write a line unless `event` equals the last one, a moment ago."""
        now = time.monotonic()
        if event != self._last or now >= self._due:
            self._last, self._due = event, now + REPEAT_SECONDS
            self._log.log(level, text, *args)


def run_service(
    role: str,
    options: argparse.Namespace,
    work: Callable[[Service], None],
    *,
    log: logging.Logger,
    on_failure: Callable[[TrimtabError], None] = lambda error: None,
) -> int:
    """Do `work` in this role until told to stop or until nobody reads; return the exit code.

    A failure is logged and passed to `on_failure`: whoever reads must learn why nothing comes any
    more.
    """
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form)
    log.setLevel(logging.INFO)
    if options.passwords_on_stdin:
        passwords.receive()
    stop_requested = stop_signals(detached=True)
    root, cluster_id = options.root, options.cluster_id

    def work_once() -> None:
        work(Service(options, stop_requested, Readers(root, cluster_id)))

    try:
        try:
            had_lease = work_while_read(root, cluster_id, role, stop_requested, work_once)
        except TrimtabError:
            raise
        except Exception as bug:
            why = next(iter(str(bug).splitlines()), type(bug).__name__)
            raise TrimtabError(f"The {role} broke off: {why}", next=log_bug()) from bug
    except TrimtabError as error:
        log.error("%s", error)
        try:
            on_failure(error)
        except OSError as unwritten:
            log.error("No reader could be told: %s", unwritten)
        return int(error.exit_code)
    log.info("stopped" if had_lease else f"another {role} has this cluster")
    return 0


def work_while_read(
    root: Path,
    cluster_id: str,
    role: str,
    stop_requested: threading.Event,
    work: Callable[[], None],
) -> bool:
    """Do `work` as the one process of this host in `role`; False when another one is.

    A reader that came while `work` was ending found the role taken and started nobody, so readers
    are looked for once more after the lease has been given back.
    """
    while True:
        with hold_lease(lease_file(root, cluster_id, role)) as ours:
            if not ours:
                return False
            work()
        if stop_requested.is_set() or not Readers(root, cluster_id).are_present():
            return True
