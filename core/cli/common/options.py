"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path

import click

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write here, atomically.",
)
