"""How far long work is: one line on stderr, written over; nothing where that is no terminal."""

from __future__ import annotations

import shutil
import sys

import click

from core.terminal import printable

CLEAR = "\r\033[2K"


class OverLine:
    """The line; `shown` says whether there is one."""

    def __init__(self, *, shown: bool = True) -> None:
        self.shown = shown and sys.stderr.isatty()

    def say(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._put(printable(text)[:width])

    def end(self) -> None:
        """Clear it."""
        self._put("")

    def _put(self, text: str) -> None:
        if self.shown:
            click.echo(f"{CLEAR}{text}", err=True, nl=False)  # noqa: TID251 - sequences of our own
