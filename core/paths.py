"""Where trimtab keeps its files, and nowhere else; `TRIMTAB_HOME` puts all below one folder."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import platformdirs

APP = "trimtab"
XDG = tuple(
    f"XDG_{kind}"
    for kind in ("CONFIG_HOME", "CACHE_HOME", "DATA_HOME", "STATE_HOME", "RUNTIME_DIR")
)
"""What names folders beside `TRIMTAB_HOME`."""


def _home(kind: str, default: Callable[[str], Path]) -> Path:
    home = os.environ.get("TRIMTAB_HOME")
    return Path(home) / kind if home else default(APP)


def settle() -> None:
    """Let all processes of ours find the same folders: most work in no folder of the user's.

    A relative `TRIMTAB_HOME` is meant from here. Relative `XDG_…` folders are ignored, as the XDG
    specification has it; what we start does not see them either.
    """
    home = os.environ.get("TRIMTAB_HOME")
    if home:
        os.environ["TRIMTAB_HOME"] = str(Path(home).absolute())
    for name in XDG:
        if not Path(os.environ.get(name, "/")).is_absolute():
            del os.environ[name]


def config_dir() -> Path:
    """Return the folder of config.toml and the user's own themes."""
    return _home("config", platformdirs.user_config_path)


def config_file() -> Path:
    return config_dir() / "config.toml"


def user_themes_dir() -> Path:
    return config_dir() / "themes"


def cache_dir() -> Path:
    """Return what can be made again: broker jars, class-data archives."""
    return _home("cache", platformdirs.user_cache_path)


def jars_dir(kafka_version: str) -> Path:
    return cache_dir() / "kafka" / kafka_version


def data_dir() -> Path:
    """Return what should outlive a reboot: load data, run journals."""
    return _home("data", platformdirs.user_data_path)


def load_root() -> Path:
    """Return the root of spool, tables, windows and snapshots (docs/reference/formats.md)."""
    return data_dir() / "load"


def cluster_folder(cluster_id: str) -> str:
    """Return the name of a cluster's folder, and of its files' beginning, below the load root."""
    return f"cluster={safe_name(cluster_id)}"


def runs_dir(cluster_id: str) -> Path:
    """Return the folder of this cluster's run journals."""
    return data_dir() / "runs" / safe_name(cluster_id)


def kept_plan_file(cluster_id: str) -> Path:
    """Return the file of the plan that was left unapplied on this cluster."""
    return data_dir() / "plans" / f"{safe_name(cluster_id)}.json"


def handed_plan_file(cluster_id: str) -> Path:
    """Return the file that names the run which a plan for this cluster was handed to."""
    return data_dir() / "plans" / f"{safe_name(cluster_id)}.handed"


def timeline_file(cluster_id: str) -> Path:
    """Return the file of what was seen to happen in this cluster."""
    return data_dir() / "timeline" / f"{safe_name(cluster_id)}.timeline"


def autopilot_dir(cluster_id: str) -> Path:
    """Return the folder of a cluster's autopilot: its switch, its decisions, what it suggests."""
    return autopilots_dir() / safe_name(cluster_id)


def autopilots_dir() -> Path:
    return data_dir() / "autopilot"


def known_names_file() -> Path:
    """Return where it is kept which cluster each name of config.toml has been."""
    return data_dir() / "known-names.json"


def audit_file() -> Path:
    """Return the one file that every change of a cluster is written down in."""
    return data_dir() / "audit.jsonl"


def sandbox_dir(name: str) -> Path:
    return data_dir() / "sandbox" / safe_name(name)


def log_dir() -> Path:
    return _home("log", platformdirs.user_log_path)


def runtime_dir() -> Path:
    """Return a private folder for sockets and locks; short, as socket paths must be."""
    with warnings.catch_warnings():
        # Without XDG_RUNTIME_DIR (cron, sudo) it is below the temporary folder; that will do.
        warnings.simplefilter("ignore")
        path = _home("run", platformdirs.user_runtime_path)
    _make(path, 0o700)
    return path


def expand_user(path: str) -> Path:
    """Return a path with a `~` as the user's home; one of a user that there is none of stays."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's own raises for that


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing.

    Ours are their owner's only, whatever the umask: in one that others may write to, they could
    put theirs in the place of ours. One elsewhere is as its user has it: others may read there.
    """
    _make(folder, 0o700 if is_ours(folder) else 0o777)


def is_ours(place: Path) -> bool:
    """Return whether this is in a folder of ours, and not in a `--root` that others may read."""
    homes = (data_dir(), cache_dir(), config_dir(), log_dir())
    return any(place.is_relative_to(home) for home in homes)


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        _make(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)


def safe_name(name: str) -> str:
    """Return `name` as one path component (cluster ids may hold any base64url character)."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"
