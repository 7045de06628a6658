"""A sandbox's folder: its state file, its lock, and the processes that belong to it.

Needs neither Java nor a readable state file to clean up: processes are found by the paths on
their command lines, whoever started them.
"""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from core import files
from core.cluster.sandbox.nodes import Node, Role
from core.daemons.process import Process, running_with
from core.text.json_text import parse_json

STATE = "state.json"
STOP_SECONDS = 30.0
"""How long a process may take to end."""


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What is written down: `ready` once all brokers have answered, `processes` by node id."""

    cluster_id: str
    kafka: str
    ready: bool
    nodes: tuple[Node, ...]
    processes: dict[int, Process]


def read_state(folder: Path) -> SandboxState | None:
    """Return what is written down; None when that is nothing, or damaged."""
    try:
        state = parse_json((folder / STATE).read_text())
        return SandboxState(
            state["cluster_id"],
            state["kafka"],
            state["ready"],
            tuple(
                Node(
                    *(n["id"], Role(n["role"]), n["port"], n["rack"], folder / n["folder"]),
                    n.get("tls_port"),
                )
                for n in state["nodes"]
            ),
            {n["id"]: Process(n["pid"], n["started"]) for n in state["nodes"] if n["pid"]},
        )
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_state(folder: Path, state: SandboxState) -> None:
    document = {
        "name": folder.name,
        "cluster_id": state.cluster_id,
        "kafka": state.kafka,
        "ready": state.ready,
        "nodes": [
            {
                "id": node.id,
                "role": node.role.value,
                "port": node.port,
                "tls_port": node.tls_port,
                "rack": node.rack,
                "folder": node.folder.name,
                "pid": process.pid if (process := state.processes.get(node.id)) else None,
                "started": process.started if process else None,
            }
            for node in state.nodes
        ],
    }
    files.write_text(folder / STATE, json.dumps(document, indent=1))


def lock_folder(folder: Path) -> AbstractContextManager[None]:
    """Hold a sandbox against other processes of ours; the lock outlives the folder."""
    return files.locked(folder.with_name(f".{folder.name}.lock"))


def is_up(folder: Path) -> bool:
    """Return whether a sandbox came up whole and still has a process."""
    state = read_state(folder)
    return state is not None and state.ready and bool(_running_processes(folder))


def workload_log(folder: Path) -> Path:
    """Return the argument by which the workload of a sandbox is known; its log is there too."""
    return folder / "workload.log"


def stop_all(folder: Path) -> None:
    """End every process of a sandbox at once."""
    left = _running_processes(folder)
    for process in left:
        process.signal(signal.SIGKILL)
    for process in left:
        process.wait(STOP_SECONDS)


def remove_unlocked(folder: Path) -> None:
    """End what runs and remove the folder; the caller holds the lock."""
    stop_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


def remove_folder(folder: Path) -> bool:
    """Do what `remove_unlocked` does under the lock; returns whether anything was there."""
    with lock_folder(folder):
        there = folder.exists()
        remove_unlocked(folder)
    return there


def _running_processes(folder: Path) -> list[Process]:
    marks = {str(properties) for properties in folder.glob("*/server.properties")}
    return running_with(marks | {str(workload_log(folder))})
