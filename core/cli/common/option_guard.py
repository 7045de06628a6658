"""Refuses options that were given as nothing, or twice where one counts, for every command at once.

`--drain "$B"` with B unset must not do what leaving `--drain` out does, nor `--keep a --keep b`
what `--keep b` does.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from core.errors import UsageError

if TYPE_CHECKING:
    AnyType = click.ParamType[Any]
else:  # older clicks know no parameter of it
    AnyType = click.ParamType


def as_meant(command: click.Command) -> click.Command:
    """Return `command`, which now refuses such options as all commands below it do.

    Options that take numbers or one of some words refuse empty values by themselves.
    """
    for option in command.params:
        takes_any = isinstance(option.type, click.types.StringParamType | click.Path)
        if isinstance(option, click.Option) and takes_any:
            option.type = _Something(option.type)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            as_meant(below)
    vars(command)["parse_args"] = partial(_parse, command)  # click has no hook for it
    return command


def _parse(command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
    """Parse as `command` does; raise UsageError for a second value where the last would count.

    And for words that no shell can give, which no file system takes as names.
    """
    for word in args:
        if not _can_be_given(word):
            raise UsageError(
                f"Not a word that a command can be given: {word!a}.",
                next="Take out its NUL, or what is no character of any encoding.",
            )
    if not ctx.resilient_parsing:
        _, _, order = command.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            single = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
            if times > 1 and single:
                name = max(option.opts, key=len)
                raise UsageError(
                    f"{name} is given {times} times, and one counts.",
                    next=f"Give {name} once, with all that is meant.",
                )
    return type(command).parse_args(command, ctx, args)


def _can_be_given(word: str) -> bool:
    try:
        return b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


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
