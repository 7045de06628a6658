"""The argument PLAN: a plan file, or stdin, as every command takes it."""

from __future__ import annotations

from pathlib import Path

import click

from core import files
from core.cli.context import Context
from core.errors import UsageError
from core.plan.plan_document import PlanDocument, read_document

plan_argument = click.argument(
    "plan_file",
    metavar="PLAN",
    type=click.Path(path_type=Path, allow_dash=True),
)


def document_of(context: Context, path: Path, other: Path | None = None) -> PlanDocument:
    """Return a plan file's content; `-` reads stdin, which can be only one of all that is read.

    Raises DocumentError for a bad plan, UsageError when stdin should be two things.
    """
    if files.STDIN == path in (context.target.from_file, other):
        what = "Two plans" if path == other else "The plan and the cluster"
        raise UsageError(
            f"{what} cannot both come from stdin.", next="Name a file for one of them."
        )
    return read_document(path)
