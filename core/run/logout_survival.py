"""Warns where the login manager kills processes at logout, and says how a run survives it.

systemd-logind does so under KillUserProcesses=yes. A process under the user's own manager is
spared, as long as that manager stays: `loginctl enable-linger` (logind.conf(5)).
"""

from __future__ import annotations

import getpass
import shutil
from dataclasses import dataclass
from pathlib import Path

_YES = ("yes", "true", "1", "on", "y", "t")


@dataclass(frozen=True, slots=True)
class Logout:
    """What happens to processes when this user logs out."""

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


def look(root: Path = Path("/")) -> Logout:
    """Read logind's configuration and lingering below `root`; no file means the defaults: no."""
    folder = root / "etc/systemd"
    files = [folder / "logind.conf", *sorted((folder / "logind.conf.d").glob("*.conf"))]
    kills = False
    for path in files:
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "KillUserProcesses":
                    kills = value.strip().lower() in _YES
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    lingers = bool(user) and (root / "var/lib/systemd/linger" / user).exists()
    return Logout(user, kills, lingers, shutil.which("systemd-run"))
