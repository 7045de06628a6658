"""The shape of a command line, for the log of a bug: names of ours, and kinds of values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_WITH_UNIT = re.compile(r"[+-]?\d+(?:\.\d+)?[A-Za-z%/]{1,6}")
_ADDRESS = re.compile(r"[^\s:,]+:\d{1,5}")


def redact_command_line(root: click.Command, words: Sequence[str]) -> dict[str, str]:
    """Return what was typed: commands and options by name, their values by kind and size."""
    options = {name for command in _below(root) for p in command.params for name in p.opts}
    return {"words": " ".join(_word_shapes(root, words, options)) or "none"}


def _word_shapes(root: click.Command, words: Sequence[str], options: set[str]) -> Iterator[str]:
    command = root
    for word in words:
        name, equals, value = word.partition("=")
        if name in options and name.startswith("-"):
            yield f"{name}={_kind(value)}" if equals else name
        elif word in _names(command):
            command = _names(command)[word]
            yield word
        else:
            yield _kind(word)


def _names(command: click.Command) -> dict[str, click.Command]:
    """Return the commands below one; commands of the root are imported by asking for them."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    commands = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: subcommand for name, subcommand in commands.items() if subcommand is not None}


def _below(command: click.Command) -> Iterator[click.Command]:
    yield command
    for subcommand in _names(command).values():
        yield from _below(subcommand)


def _kind(value: str) -> str:
    if value == "-":
        return "-"
    for pattern, words in ((_NUMBER, "number"), (_WITH_UNIT, "number with a unit")):
        if pattern.fullmatch(value):
            return f"({words})"
    servers = value.split(",")
    if all(_ADDRESS.fullmatch(server) for server in servers):
        return f"({len(servers)} addresses)"
    try:
        place = Path(value)
        if place.is_dir():
            return "(folder)"
        if place.is_file():
            return f"(file of {place.stat().st_size} bytes)"
    except (OSError, ValueError):
        pass
    return f"(text of {len(value)} characters)"
