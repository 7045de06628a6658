"""The autopilot's switch: a small file with its mode, read again before each action.

Turning it off needs neither the cluster nor a dashboard. One that cannot be read is off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from core import files, paths
from core.autopilot.decision import Reason
from core.autopilot.settings import AutopilotSettings, Mode, limits_in_one_line
from core.cluster.capacity import Capacity
from core.cluster.connect import Address
from core.cluster.known_names import display_name
from core.errors import DocumentError, UsageError
from core.run.options import with_configured_timeout, without_configured_timeout
from core.text.json_text import parse_json
from core.units import format_time, parse_time

FORMAT = "trimtab.autopilot/1"


@dataclass(frozen=True, slots=True)
class Switch:
    """What one cluster's autopilot may do, where the cluster is, and who said so, when."""

    cluster_id: str
    name: str
    address: Address
    settings: AutopilotSettings
    changed_at: datetime
    who: str
    snapshots: str | None = None
    """Where load is published that somebody else makes; None is this machine's own."""
    starts_load: bool = True
    """Whether the collector and Spark are started for it, unless they run."""
    metrics: str | None = None
    """Where its process publishes metrics, as `core.settings.parse_metrics` has it."""

    @property
    def mode(self) -> Mode:
        return self.settings.mode

    def turned(self, mode: Mode, *, at: datetime, who: str) -> Switch:
        """Return the switch in another position; all else stays."""
        settings = replace(self.settings, mode=mode)
        return replace(self, settings=settings, changed_at=at, who=who)


def switch_file(cluster_id: str) -> Path:
    return paths.autopilot_dir(cluster_id) / "switch.json"


def write(switch: Switch) -> None:
    """Set the switch; it holds as this returns. Raises OSError."""
    config = switch.address.command_config
    address = without_configured_timeout(switch.address, switch.name)
    document = {
        "format": FORMAT,
        "cluster_id": switch.cluster_id,
        "name": switch.name,
        "bootstrap": switch.address.bootstrap,
        "command_config": str(config.absolute()) if config else None,
        "in_capacity_bytes_per_s": switch.address.capacity.in_bytes_per_s,
        "out_capacity_bytes_per_s": switch.address.capacity.out_bytes_per_s,
        "timeout_seconds": address.timeout_seconds,
        "changed_at": format_time(switch.changed_at),
        "who": switch.who,
        "snapshots": switch.snapshots,
        "starts_load": switch.starts_load,
        "metrics": switch.metrics,
        "settings": switch.settings.to_json(),
    }
    path = switch_file(switch.cluster_id)
    paths.make_folder(path.parent)
    files.write_text(path, json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def read(cluster_id: str) -> Switch | None:
    """Return how the switch stands; None where there never was one.

    Raises DocumentError for one that cannot be read: whoever acts takes it for off.
    """
    return _read(switch_file(cluster_id))


def read_all() -> Iterator[Switch]:
    """Yield the switches of this machine that can be read."""
    for path in sorted(paths.autopilots_dir().glob("*/switch.json")):
        try:
            switch = _read(path)
        except DocumentError:
            continue
        if switch is not None:
            yield switch


def describe(switch: Switch) -> tuple[Reason, ...]:
    """Return who has set it and to what, and within which limits unless it is off."""
    reason = Reason("switch", f"Set to {switch.mode.value} by {switch.who}.")
    if switch.mode is Mode.OFF:
        return (reason,)
    return reason, Reason("limits", f"Its limits: {limits_in_one_line(switch.settings)}.")


def _read(path: Path) -> Switch | None:
    try:
        return _of(parse_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error
    except UsageError as error:
        raise _damaged(path, error.title.rstrip(".")) from error
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _damaged(path, str(error)) from error


def _of(document: dict[str, Any]) -> Switch:
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']}")
    config, timeout = document["command_config"], document.get("timeout_seconds")
    capacity = Capacity(
        document.get("in_capacity_bytes_per_s"), document.get("out_capacity_bytes_per_s")
    )
    cluster_id = str(document["cluster_id"])
    name = display_name(cluster_id, str(document["name"]))
    address = Address(
        str(document["bootstrap"]),
        Path(config) if config else None,
        capacity,
        None if timeout is None else float(timeout),
    )
    return Switch(
        cluster_id=cluster_id,
        name=name,
        address=with_configured_timeout(address, name),
        settings=AutopilotSettings.from_json(document["settings"]),
        changed_at=parse_time(document["changed_at"]),
        who=str(document["who"]),
        snapshots=document["snapshots"],
        starts_load=bool(document["starts_load"]),
        metrics=document.get("metrics"),
    )


def _damaged(path: Path, why: str) -> DocumentError:
    return DocumentError(
        f"The autopilot's switch {path} cannot be read: {why}.",
        detail="It is taken for off.",
        next="Set it again: trimtab autopilot --mode off.",
    )
