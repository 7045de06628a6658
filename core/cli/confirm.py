"""Asking for a name before anything is changed; without a terminal, `--yes` answers."""

from __future__ import annotations

import sys

import click

from core.errors import UsageError
from core.terminal import printable

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(name: str, verb: str, doing: str, otherwise: str, *, of: str = "cluster") -> None:
    """Return when the name of the cluster, or `of` what else, was typed; raises UsageError.

    `verb` and `doing` say what is asked for ("apply", "Applying"), `otherwise` what holds when
    the name is wrong.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"{doing} asks for the {of}'s name, and there is no terminal.",
            next=f"Say --yes to {verb} without being asked.",
        )
    typed = click.prompt(
        f"Type {printable(name)} to {verb}", default="", show_default=False, err=True
    )
    if typed.strip() != name:
        raise UsageError(f"That is not its name; {otherwise}.")
