"""Starts the autopilot of a cluster as a process of its own, sets its switch, and looks at both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core import files, paths
from core.auto import switch as switches
from core.auto.flying import ROLE, tell_switch
from core.auto.history import History
from core.auto.log import DecisionLog, Entry, remembered
from core.auto.settings import Mode
from core.auto.switch import Switch
from core.errors import UsageError
from core.load import layout, serving
from core.process import Process
from core.run.requests import request

STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How an autopilot stands; `process` is None while nobody flies."""

    switch: Switch
    process: Process | None
    last: Entry | None
    history: History


def set_switch(switch: Switch) -> None:
    """Set the switch and write down who did; raises OSError or TrimtabError."""
    switches.write(switch)
    tell_switch(switch)


def start_flying(switch: Switch) -> Process | None:
    """Start the process unless one flies this cluster already; returns at once."""
    root = paths.load_root()
    layout.mark(root)
    module = "core.auto.service"
    return serving.start(ROLE, module, switch.cluster_id, root=root, address=switch.address)


def is_flying(cluster_id: str) -> bool:
    return files.is_leased(layout.lock(paths.load_root(), cluster_id, ROLE))


def standing(switch: Switch) -> Standing:
    """Return how an autopilot stands, from its files alone."""
    entries = list(DecisionLog(switch.cluster_id).entries())
    return Standing(
        switch,
        serving.holder(paths.load_root(), switch.cluster_id, ROLE),
        entries[-1] if entries else None,
        remembered(entries),
    )


def turn_off(
    switch: Switch, *, at: datetime, who: str, cancel: bool = False
) -> tuple[tuple[str, ...], str]:
    """Turn an autopilot off; needs neither the cluster nor its process.

    Returns its runs that are in progress, and with `cancel` why one could not be cancelled.
    """
    set_switch(switch.turned(Mode.OFF, at=at, who=who))
    open_ = [act.run for act in standing(switch).history.acts if act.ended_at is None]
    trouble = ""
    for run in open_ if cancel else ():
        try:
            request(switch.cluster_id, run, "cancel")
        except UsageError as error:  # it has ended meanwhile, or is being cancelled already
            trouble = str(error.title)
    return tuple(open_), trouble
