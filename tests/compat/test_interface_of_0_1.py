"""Every command, option, action and key of version 0.1.0 is still there; new ones may join them.

A line leaves files/interface.txt only with a removal that the changelog names.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
from kept_files import FILES

from core.cli.main import root
from core.errors import ExitCode
from tui.actions.table import ACTIONS


def options(
    command: click.Command, path: tuple[str, ...], above: click.Context | None
) -> Iterator[str]:
    """Yield every command with its arguments and options, in the order of help."""
    context = click.Context(command, info_name=path[-1], parent=above)
    yield " ".join(path)
    for parameter in command.params:
        value = (
            "" if getattr(parameter, "is_flag", False) else f" {parameter.make_metavar(context)}"
        )
        names = " ".join((*parameter.opts, *parameter.secondary_opts))
        shown = names if isinstance(parameter, click.Option) else "argument"
        yield f"{' '.join(path)} {shown}{value}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options(below, (*path, name), context)


def interface() -> Iterator[str]:
    yield from options(root, ("trimtab",), None)
    for code in ExitCode:
        yield f"exit code {code.value} {code.name.lower()}"
    for action in ACTIONS:
        yield f"action {action.binding_id}: {' '.join(action.keys)}"


def test_every_interface_element_of_version_0_1_is_still_present() -> None:
    there = set(interface())
    before = (FILES / "interface.txt").read_text().splitlines()
    assert [line for line in before if line not in there] == []
