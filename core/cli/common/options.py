"""Options that several commands share, and commands that refuse options given as nothing, or twice.

`--drain "$B"` with B unset must not do what leaving `--drain` out does, nor `--keep a --keep b`
what `--keep b` does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from core.cli.common.output import Answer
from core.errors import UsageError

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to this file instead of stdout; it is replaced as a whole.",
)


def answer_options(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command `--json` and `-o`, which it gets as one `answer`."""

    @wraps(command)
    def call(*args: Any, as_json: bool, output: Path | None, **options: Any) -> T:
        return command(*args, answer=Answer(as_json, output), **options)

    return json_option(output_option(call))


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
allow_option = click.option(
    "--allow", metavar="ID,…", help="IDs of the checks to override, like rack-spread,rf-change."
)
plan_argument = click.argument(
    "plan_file", metavar="PLAN", type=click.Path(path_type=Path, allow_dash=True)
)
metrics_option = click.option(
    "--metrics",
    metavar="PLACE",
    help=(
        "Publish metrics for Prometheus: HOST:PORT (:PORT is this machine only) to serve them on, "
        "or a FILE.prom for node_exporter."
    ),
)
root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the load data (default: trimtab's own).",
)


def complete_known_name(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that clusters were used by, as far as they begin so."""
    from core.cluster.known_names import known_names

    return sorted(name for name in known_names() if name.startswith(incomplete))


cluster_id_option = click.option(
    "--cluster-id",
    metavar="ID",
    shell_complete=complete_known_name,
    help="Cluster ID, or a name that it was used by; skips contacting the cluster "
    "(default: the only known one).",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


def refuse_together(options: Mapping[str, object], next: str = "Give only one of them.") -> None:
    """Raise UsageError where more than one of these options is given."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other.", next=next)


class Command(click.Command):
    """A command whose options are checked before they are read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        check_options(self, ctx, args)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group whose options, and those of its commands, are checked before they are read."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        check_options(self, ctx, args)
        return super().parse_args(ctx, args)


def check_options(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise UsageError for an empty value, and for a second one where only the last would count.

    Also for words that no file system takes as names. Options that take numbers or one of some
    words refuse empty values by themselves.
    """
    for word in args:
        try:
            is_valid = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            is_valid = False
        if not is_valid:
            raise UsageError(
                f"Invalid argument: {word!a}.",
                next="Remove the NUL or the characters that cannot be encoded.",
            )
    if ctx.resilient_parsing:
        return
    values, _, order = command.make_parser(ctx).parse_args(args=list(args))
    for option, times in Counter(order).items():
        if not isinstance(option, click.Option):
            continue
        name = max(option.opts, key=len)
        if times > 1 and not (option.multiple or option.is_flag):
            raise UsageError(
                f"{name} is given {times} times.",
                next=f"Give {name} once; it takes one value.",
            )
        value = values.get(option.name or "")
        is_empty = value == "" or (isinstance(value, list) and "" in value)
        if is_empty and isinstance(option.type, click.types.StringParamType | click.Path):
            raise UsageError(
                f"{name} is empty.",
                next="Give a value, or leave the option out; a shell variable may be unset.",
            )
