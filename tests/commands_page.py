"""docs/reference/commands.md: every command with its options, from the command line's help."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from core.cli.main import root

HEAD = """# Commands

Made from the command line's own help by `make docs`. Options before the command say which cluster
is meant; every command has `--help`.
"""


def commands(
    command: click.Command, name: str = "trimtab", above: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """Yield every command that is shown, by its full name."""
    # A command keeps the help option that it is first asked for: it must be that of all commands.
    settings = root.context_settings if above is None else {}
    context = click.Context(command, info_name=name.rsplit(" ", 1)[-1], parent=above, **settings)
    yield name, context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            subcommand = command.get_command(context, below)
            if subcommand is not None and not subcommand.hidden:
                yield from commands(subcommand, f"{name} {below}", context)


def section(name: str, context: click.Context) -> str:
    """Return what one command does, how it is called, and its options, as Markdown."""
    usage = " ".join(context.command.collect_usage_pieces(context)[1:])
    options = (param for param in context.command.params if isinstance(param, click.Option))
    records = (option.get_help_record(context) for option in options)
    rows = [
        f"| `{names}` | {help} |"
        for names, help in (_cells(record) for record in records if record is not None)
    ]
    text = " ".join((context.command.help or "").replace("\b", "").split())
    parts = [f"## {name} {usage}".rstrip(), text]
    if rows:
        parts.append("\n".join(("| option | what it does |", "|---|---|", *rows)))
    return "\n\n".join(part for part in parts if part)


def _cells(record: tuple[str, str]) -> tuple[str, str]:
    names, help = (cell.replace("|", "\\|") for cell in record)
    return names, help.replace("<", "&lt;")


def page() -> str:
    return "\n\n".join((HEAD.rstrip(), *(section(*command) for command in commands(root)))) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
