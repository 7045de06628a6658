"""Which sandbox a command means, and how one is shown."""

from __future__ import annotations

from typing import Any

import click

from core.cli.common.output import emit, print_lines
from core.cluster.sandbox.sandbox import Sandbox

name_option = click.option(
    "--name",
    default="default",
    show_default=True,
    help="Name of the sandbox; several can run at the same time.",
)


def document(sandbox: Sandbox) -> dict[str, Any]:
    """Return the sandbox as `--json` shows it."""
    return {
        "name": sandbox.name,
        "kafka": sandbox.kafka,
        "cluster_id": sandbox.cluster_id,
        "bootstrap": sandbox.bootstrap,
        "folder": str(sandbox.folder),
        "nodes": [
            {
                "id": status.node.id,
                "role": status.node.role.value,
                "rack": status.node.rack,
                "port": status.node.port,
                "alive": status.alive,
                "pid": status.pid,
                "log": str(status.node.server_log),
            }
            for status in sandbox.status()
        ],
    }


def show_sandbox(sandbox: Sandbox, as_json: bool) -> None:
    if as_json:
        emit(document(sandbox))
        return
    for status in sandbox.status():
        node = status.node
        rack = f"rack {node.rack}" if node.rack else ""
        state = f"pid {status.pid}" if status.alive else "down"
        print_lines(f"{node.role.value:<10} {node.id:>4}  {node.address:<16} {rack:<7} {state}")
    print_lines(f"\ntrimtab -b {sandbox.bootstrap} --write")
