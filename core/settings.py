"""What the user wrote in config.toml; flags and environment go over it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import paths
from core.errors import UsageError
from core.units import parse_rate


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`[clusters.NAME]`: how to reach a cluster and what may be done to it."""

    bootstrap: str
    command_config: Path | None = None
    read_only: bool = False
    snapshots: str | None = None
    in_capacity_bytes_per_s: float | None = None
    out_capacity_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file; an absent one gives the defaults."""

    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    def cluster(self, name: str) -> ClusterSettings:
        """Return one cluster's settings; raises UsageError naming those there are."""
        found = self.clusters.get(name)
        if found is None:
            known = ", ".join(sorted(self.clusters)) or "none yet"
            raise UsageError(
                f"No cluster named {name!r} in {paths.config_file()}.",
                next=f"Known: {known}. Or say -b HOST:PORT.",
            )
        return found


def load_settings(path: Path | None = None) -> Settings:
    """Read config.toml; raises UsageError for TOML that is not valid or values of a wrong type."""
    path = path or paths.config_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    try:
        document = tomllib.loads(text)
        return Settings(
            clusters={
                name: _cluster(table, path) for name, table in document.get("clusters", {}).items()
            },
            theme=document.get("theme"),
            keys=dict(document.get("keys", {})),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", next="Mend that line.") from error


def _cluster(table: Mapping[str, Any], path: Path) -> ClusterSettings:
    def rate(key: str) -> float | None:
        return float(parse_rate(table[key])) if key in table else None

    config = table.get("command_config")
    return ClusterSettings(
        bootstrap=table["bootstrap"],
        command_config=(path.parent / Path(config).expanduser()) if config else None,
        read_only=bool(table.get("read_only", False)),
        snapshots=table.get("snapshots"),
        in_capacity_bytes_per_s=rate("in_capacity"),
        out_capacity_bytes_per_s=rate("out_capacity"),
    )
