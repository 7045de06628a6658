"""systemd's user units of trimtab: their text, their files, and systemctl.

A unit has no secret: it names what a command line names, and the files that hold the rest.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from core import paths
from core.errors import TrimtabError

PREFIX, SUFFIX = "trimtab-", ".service"
RESTART_SECONDS = 30
USAGE_STATUS = 2
"""A wrong command line or a wrong config.toml: it stays wrong until somebody mends it."""
_SECTION = "X-Trimtab"
_SYSTEMCTL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Unit:
    """A service of one role for one cluster, by the name that the user has for it."""

    role: str
    cluster: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.role}-{_escape_unit_name(self.cluster)}{SUFFIX}"

    @property
    def text(self) -> str:
        lines = [
            "# Made by `trimtab service install`, which writes it anew.",
            "[Unit]",
            f"Description=trimtab {self.role} of {_escape_specifiers(self.cluster)}",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            f"ExecStart={' '.join(map(_quote, self.command))}",
            *(f"Environment={_quote(f'{k}={v}', '')}" for k, v in self.environment.items()),
            f"EnvironmentFile=-{_escape_specifiers(str(environment_file()))}",
            "Restart=on-failure",
            f"RestartSec={RESTART_SECONDS}",
            f"RestartPreventExitStatus={USAGE_STATUS}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
            f"[{_SECTION}]",
            f"Role={self.role}",
            f"Cluster={self.cluster}",
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Installed:
    """A unit file of ours, and how systemd has it; None where systemd does not say."""

    path: Path
    role: str
    cluster: str
    enabled: str | None
    active: str | None

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)


def environment_file() -> Path:
    """Return the file of variables that services are given, if it is there."""
    return paths.config_dir() / "service.env"


def units_dir() -> Path:
    """Return where systemd looks for this user's units."""
    return platformdirs.user_config_path() / "systemd" / "user"


def installed_units() -> list[Installed]:
    """Return our units by name; systemd is asked how they are where it is there."""
    files = sorted(units_dir().glob(f"{PREFIX}*{SUFFIX}"))
    states = _states([path.name for path in files])
    return [Installed(path, *_parse(path), *states.get(path.name, (None, None))) for path in files]


def install(unit: Unit) -> bool:
    """Write a unit, have it start with the user's manager, and start it; False if all was so.

    Raises TrimtabError without systemd, before anything is written.
    """
    require_manager()
    path = units_dir() / unit.name
    is_same = path.exists() and path.read_text(encoding="utf-8") == unit.text
    if is_same and _states([unit.name]).get(unit.name) == ("enabled", "active"):
        return False
    if not is_same:
        from core import files

        files.write_text(path, unit.text)
        _systemctl("daemon-reload")
    _systemctl("enable", unit.name)
    _systemctl("restart", unit.name)
    return True


def uninstall(name: str) -> bool:
    """Stop a unit and remove it; False if there is none. Raises TrimtabError without systemd."""
    path = units_dir() / f"{name.removesuffix(SUFFIX)}{SUFFIX}"
    if not path.name.startswith(PREFIX) or "/" in name or not path.exists():
        return False
    require_manager()
    _systemctl("disable", "--now", path.name)
    path.unlink()
    _systemctl("daemon-reload")
    return True


def require_manager() -> None:
    """Raise TrimtabError where no systemd keeps this user's services."""
    if shutil.which("systemctl") is None:
        raise TrimtabError("This machine has no systemd.", next=_WITHOUT)
    done = _run("show", "--property=Version", "--value")
    if done.returncode:
        why = next(
            iter(done.stderr.strip().splitlines()), f"systemctl ended with {done.returncode}"
        )
        raise TrimtabError(
            f"systemd's manager of this user does not answer: {why}.".replace("..", "."),
            next="Log in as this user (su and sudo do not start it). " + _WITHOUT,
        )


_WITHOUT = (
    "With --print, see the command that a service starts, and have it started by what starts "
    "programs here."
)


def _states(names: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return whether units are enabled and active, in systemd's words; {} where it cannot tell."""
    if not names or shutil.which("systemctl") is None:
        return {}
    done = _run("show", "--property=Id,UnitFileState,ActiveState", "--", *names)
    if done.returncode:
        return {}
    states = {}
    for block in done.stdout.split("\n\n"):
        unit = dict(line.partition("=")[::2] for line in block.splitlines())
        if "Id" in unit:
            states[unit["Id"]] = (
                unit.get("UnitFileState") or None,
                unit.get("ActiveState") or None,
            )
    return states


def _systemctl(*words: str) -> None:
    done = _run(*words)
    if done.returncode:
        why = done.stderr.strip() or f"it ended with {done.returncode}"
        raise TrimtabError(
            f"systemctl --user {' '.join(words)} failed: {why}",
            next="See `systemctl --user status 'trimtab-*'`.",
        )


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", "--user", "--no-pager", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SYSTEMCTL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise TrimtabError(
            f"systemctl has not answered for {_SYSTEMCTL_SECONDS:.0f} s.",
            next="See `systemctl --user status`.",
        ) from error


def _parse(path: Path) -> tuple[str, str]:
    """Return role and cluster of a unit file of ours; what somebody took out is empty."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (configparser.Error, UnicodeDecodeError):
        return "", ""
    role, cluster = (parser.get(_SECTION, key, fallback="") for key in ("Role", "Cluster"))
    return role, cluster


def _escape_unit_name(name: str) -> str:
    """Return a name as a part of a unit's name, no two alike: systemd.unit(5)."""
    return re.sub(
        r"[^A-Za-z0-9:_.-]",
        lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode()),
        name,
    )


def _escape_specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quote(word: str, variable: str = "$") -> str:
    """Return a word as systemd reads it: systemd.syntax(7); `variable` is doubled in ExecStart."""
    text = _escape_specifiers(word)
    if variable:
        text = text.replace(variable, variable * 2)
    if re.fullmatch(r"[\w@%+=:,./$-]+", text, re.ASCII):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
