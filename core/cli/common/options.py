"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to this file instead of stdout; it is replaced as a whole.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
allow_option = click.option(
    "--allow", metavar="ID,…", help="IDs of the checks to override, like rack-spread,rf-change."
)
plan_argument = click.argument(
    "plan_file", metavar="PLAN", type=click.Path(path_type=Path, allow_dash=True)
)
root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the load data (default: trimtab's own).",
)
cluster_id_option = click.option(
    "--cluster-id",
    metavar="ID",
    help="Cluster ID; skips contacting the cluster (default: the only known one).",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
