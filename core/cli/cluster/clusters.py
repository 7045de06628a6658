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
    entries = sorted(load_settings().clusters.items())
    ids = known_names()
    if as_json:
        emit([to_json(name, cluster) | {"cluster_id": ids.get(name)} for name, cluster in entries])
    else:
        write_text(_text(entries, ids), None)


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


def to_json(name: str, cluster: ClusterSettings) -> dict[str, Any]:
    """Return what is said of a cluster as JSON values; durations in seconds, rates in bytes/s."""
    return {
        "name": name,
        "bootstrap": cluster.bootstrap,
        "command_config": None if cluster.command_config is None else str(cluster.command_config),
        "read_only": cluster.read_only,
        "color": cluster.color,
        "snapshots": cluster.snapshots,
        "timeout_s": cluster.timeout_seconds,
        "in_capacity_bytes_per_s": cluster.in_capacity_bytes_per_s,
        "out_capacity_bytes_per_s": cluster.out_capacity_bytes_per_s,
    }


def _text(entries: list[tuple[str, ClusterSettings]], ids: Mapping[str, str]) -> str:
    if not entries:
        return (
            f"{paths.config_file()} names no cluster yet. Add one:\n\n"
            '[clusters.prod]\nbootstrap = "kafka-1:9092,kafka-2:9092"\n'
        )
    rows = [
        [
            name,
            "read-only" if cluster.read_only else "writable",
            cluster.color or "-",
            ids.get(name, "-"),
            cluster.bootstrap,
            "-" if cluster.command_config is None else str(cluster.command_config),
        ]
        for name, cluster in entries
    ]
    return text_table(("NAME", "MODE", "COLOR", "ID", "BOOTSTRAP", "COMMAND-CONFIG"), rows)
