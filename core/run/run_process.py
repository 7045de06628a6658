"""A run's process: the lock of its cluster, starting it, waiting for it and ending it."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from core import files, passwords, paths
from core.cluster.connect import Address
from core.daemons.process import running_with
from core.errors import ExitCode, TrimtabError
from core.run.audit import requester
from core.run.journal.journal import SUFFIX, Journal, unfit
from core.run.options import address_to_json
from core.run.reporting.runs import list_runs

_TRUE = ("yes", "true", "1", "on", "y", "t")


@dataclass(frozen=True, slots=True)
class LogoutPolicy:
    """What happens to processes when this user logs out.

    systemd-logind ends them under KillUserProcesses=yes. One under the user's own manager is
    spared, as long as that manager stays: `loginctl enable-linger` (logind.conf(5)).
    """

    user: str
    kills: bool
    lingers: bool
    runner: str | None
    """Where systemd-run is, which starts a process under the user's own manager."""

    @property
    def ends_runs(self) -> bool:
        """Return whether a run, or an autopilot, would end with the session, whatever we do."""
        return self.kills and not (self.lingers and self.runner is not None)

    @property
    def remedy(self) -> str:
        return f"loginctl enable-linger {self.user}"

    def warning(self, what: str) -> str:
        """Return what to say before `what` starts, "" where it outlives the session."""
        if not self.ends_runs:
            return ""
        return f"This machine ends your processes at logout, {what} too: first {self.remedy}"

    def prefix(self) -> tuple[str, ...]:
        """Return the words to put before a command so that its process outlives the session."""
        if not (self.kills and self.lingers) or self.runner is None:
            return ()
        return (self.runner, "--user", "--scope", "--quiet", "--collect", "--")


def logout_policy(root: Path = Path("/")) -> LogoutPolicy:
    """Read logind's configuration and lingering below `root`; no file means the defaults: no."""
    folder = root / "etc/systemd"
    files = [folder / "logind.conf", *sorted((folder / "logind.conf.d").glob("*.conf"))]
    kills = False
    for path in files:
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "KillUserProcesses":
                    kills = value.strip().lower() in _TRUE
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    lingers = bool(user) and (root / "var/lib/systemd/linger" / user).exists()
    return LogoutPolicy(user, kills, lingers, shutil.which("systemd-run"))


class BusyError(TrimtabError):
    """Another run works on this cluster, started on this machine."""

    exit_code = ExitCode.REFUSED


def take_lock(cluster_id: str, *, patience_seconds: float = 0.0) -> int:
    """Return a file descriptor that holds this cluster's lock; raises BusyError when it is held.

    It goes with the process that holds it: a run that died does not hold it any more. Whoever has
    just taken it has no journal yet, which would name the run: that is waited for so long.
    """
    folder = paths.runs_dir(cluster_id)
    try:
        paths.make_folder(folder)
        handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unfit(folder, error.strerror or str(error)) from error
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            running = [run.run for run in list_runs(cluster_id) if not run.state.ended]
            if not running and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            os.close(handle)
            raise BusyError(
                f"{f'Run {running[0]}' if running else 'A run'} is in progress on this cluster.",
                next="Wait for its end, or follow it: "
                f"`trimtab runs attach {running[0] if running else 'ID'}`.",
            ) from error
        return handle


START_SECONDS = 20.0


def log_path(path: Path) -> Path:
    """Return where the process of the run with this journal logs to."""
    return paths.log_dir() / f"run-{path.parent.name}-{path.name.removesuffix(SUFFIX)}.log"


def log_size(path: Path) -> int:
    """Return how much is in that log now."""
    where = log_path(path)
    return where.stat().st_size if where.exists() else 0


def spawn(path: Path, lock: int, address: Address, *, moved: bool = False) -> None:
    """Start the process and return once it stands on its own (it forks before any import).

    It is told the address where the cluster has `moved`; the journal's is it otherwise.
    """
    where = log_path(path)
    paths.make_folder(where.parent)
    package_root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH")))),
        "OPENBLAS_NUM_THREADS": "1",  # so that the process is single-threaded when it forks
    }
    elsewhere = (json.dumps(address_to_json(address)),) if moved else ()
    with (
        open(where, "ab", opener=files.private) as output,
        passwords.open_pipe(address.command_config) as pipe,
    ):
        handed = () if pipe is None else (passwords.ON_STDIN,)
        python = (*logout_policy().prefix(), sys.executable, "-P", "-m", "core.run.service")
        subprocess.run(
            [*python, *handed, str(path), str(lock), *elsewhere],
            stdin=subprocess.DEVNULL if pipe is None else pipe,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            env=environment,
            cwd="/",
            start_new_session=True,
            check=False,
        )


def await_start(path: Path, cluster_id: str, *, after: int = 1, log_from: int = 0) -> None:
    """Return when the process has written a record after `after`; raise when it has died instead.

    Its log is read from `log_from` for the reason.
    """

    def has_begun() -> bool:
        with Journal.open(path) as journal:
            return bool(journal.records(after=after))

    deadline = time.monotonic() + START_SECONDS
    slow = True
    while slow and time.monotonic() < deadline:
        if has_begun():
            return
        try:
            os.close(take_lock(cluster_id))
        except BusyError:
            time.sleep(0.02)
        else:
            if has_begun():
                return
            slow = False
    if slow and after > 1:
        raise TrimtabError(
            f"The run's process has not come up in {START_SECONDS:.0f} s; it may yet.",
            next=f"Look again in a minute; its log is {log_path(path)}.",
        )
    if slow:
        with Journal.open(path) as journal:  # not dead: it is told not to begin any more
            journal.ask(datetime.now(UTC), "cancel", requester())
    written = log_path(path).read_bytes()[log_from:].decode("utf-8", "replace")
    tail = written.strip().splitlines()
    raise TrimtabError(
        "The run's process did not come up; nothing was changed.",
        detail=tail[-1] if tail else "",
        next=f"Its log is {log_path(path)}.",
    )


def forget_runs(cluster_id: str) -> None:
    """End the processes of this cluster's runs and remove their journals."""
    folder = paths.runs_dir(cluster_id)
    if not folder.is_dir():
        return
    for process in running_with({str(path) for path in folder.glob("*.run")}):
        process.stop()
    shutil.rmtree(folder)
