"""Prompts: the cluster's name before anything changes, passwords before connecting.

Without one, `--yes` answers for the name; passwords must be in the client properties.
"""

from __future__ import annotations

import sys

import click

from core.cluster.connect import Address, missing_password, store_password
from core.errors import UsageError
from core.passwords import PasswordMissingError, WrongPasswordError
from core.text.terminal import printable

TRIES = 3


def confirm(name: str, verb: str, doing: str, otherwise: str, *, of: str = "cluster") -> None:
    """Return when the name of the cluster, or `of` what else, was typed; raises UsageError.

    `verb` and `doing` say what is asked for ("apply", "Applying"), `otherwise` what holds when
    the name is wrong.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"{doing} asks for the {of}'s name, but there is no terminal.",
            next=f"Add --yes to {verb} without confirmation.",
        )
    answer = click.prompt(
        f"Type {printable(name)} to {verb}", default="", show_default=False, err=True
    )
    if answer.strip() != name:
        raise UsageError(f"That is not the name; {otherwise}.")


def ask_passwords(address: Address) -> None:
    """Ask for missing passwords; raises PasswordMissingError, or WrongPasswordError in the end."""
    while (missing := missing_password(address)) is not None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise PasswordMissingError(missing)
        prompt = missing.prompt
        for left in reversed(range(TRIES)):
            password = click.prompt(printable(prompt, lines=True), hide_input=True, err=True)
            try:
                store_password(address, missing, password)
                break
            except WrongPasswordError as error:
                if not left:
                    raise
                prompt = f"{error.title}\n{missing.prompt}"
