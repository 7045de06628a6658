"""Refuses options that were given as nothing, for every command at once.

`--drain "$B"` with B unset must not do what leaving `--drain` out does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from core.errors import UsageError

if TYPE_CHECKING:
    AnyType = click.ParamType[Any]
else:  # older clicks know no parameter of it
    AnyType = click.ParamType


def refusing_empty(command: click.Command) -> click.Command:
    """Return `command`, which now refuses empty values as all commands below it do.

    Options that take numbers or one of some words refuse them by themselves.
    """
    for option in command.params:
        takes_any = isinstance(option.type, click.types.StringParamType | click.Path)
        if isinstance(option, click.Option) and takes_any:
            option.type = _Something(option.type)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            refusing_empty(below)
    return command


class _Something(AnyType):
    """A type that takes what another takes, but for nothing at all."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner, self.name = inner, inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "" and param is not None:
            raise UsageError(
                f"{max(param.opts, key=len)} is empty.",
                next="Say what is meant, or leave the option out; perhaps a variable is not set.",
            )
        return self._inner.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        return self._inner.shell_complete(ctx, param, incomplete)
