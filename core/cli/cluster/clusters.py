"""`trimtab clusters`: the clusters that config.toml names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from core import paths
from core.cli.common.options import Group, complete_known_name, json_option
from core.cli.common.output import emit, say, write_text
from core.cluster.known_names import forget_name, known_names
from core.errors import UsageError
from core.settings import ClusterSettings, load_settings
from core.text.tables import text_table


@click.group(cls=Group)
def clusters() -> None:
    """List named clusters, and forget which cluster a name was."""


@clusters.command("ls")
@json_option
def ls(as_json: bool) -> None:
    """List the clusters of config.toml, each by the name that --cluster takes.

    ID is the ID of the cluster that answered to the name last. No cluster is contacted.
    """
    found = sorted(load_settings().clusters.items())
    ids = known_names()
    if as_json:
        emit([to_json(name, one) | {"cluster_id": ids.get(name)} for name, one in found])
    else:
        write_text(_text(found, ids), None)


@clusters.command("forget")
@click.argument("name", shell_complete=complete_known_name)
def forget(name: str) -> None:
    """Forget which cluster NAME was, so that another one may answer to it.

    Until then --cluster NAME is refused when another cluster answers at its addresses.
    """
    if not forget_name(name):
        raise UsageError(
            f"{name} has not been used here yet.", next="`trimtab clusters ls` lists the names."
        )
    say(f"{name} is the cluster that answers next.")


def to_json(name: str, one: ClusterSettings) -> dict[str, Any]:
    """Return what is said of a cluster as JSON values; durations in seconds, rates in bytes/s."""
    return {
        "name": name,
        "bootstrap": one.bootstrap,
        "command_config": None if one.command_config is None else str(one.command_config),
        "read_only": one.read_only,
        "color": one.color,
        "snapshots": one.snapshots,
        "timeout_s": one.timeout_seconds,
        "in_capacity_bytes_per_s": one.in_capacity_bytes_per_s,
        "out_capacity_bytes_per_s": one.out_capacity_bytes_per_s,
    }


def _text(found: list[tuple[str, ClusterSettings]], ids: Mapping[str, str]) -> str:
    if not found:
        return (
            f"{paths.config_file()} names no cluster yet. Add one:\n\n"
            '[clusters.prod]\nbootstrap = "kafka-1:9092,kafka-2:9092"\n'
        )
    rows = [
        [
            name,
            "read-only" if one.read_only else "writable",
            one.color or "-",
            ids.get(name, "-"),
            one.bootstrap,
            "-" if one.command_config is None else str(one.command_config),
        ]
        for name, one in found
    ]
    return text_table(("NAME", "MODE", "COLOR", "ID", "BOOTSTRAP", "COMMAND-CONFIG"), rows)
