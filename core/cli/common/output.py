"""What commands print: documents and tables on stdout or into a file, messages on stderr.

Names and messages of others may do things to a terminal: all of it goes through here.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from core.errors import UsageError
from core.text.json_text import json_line, json_text
from core.text.tables import text_table
from core.text.terminal import printable

CLEAR = "\r\033[2K"
T = TypeVar("T")


def emit(document: Any, output: Path | None = None) -> None:
    """Print one JSON document on stdout, or write it to `output` atomically."""
    write_data(json_text(document), output)


def emit_line(event: Any) -> None:
    """Print one JSON document on one line, at once: for streams of events."""
    print(json_line(event), flush=True)


def print_lines(text: str) -> None:
    """Print words for people, at once: for streams, which end once their reader has gone."""
    click.echo(printable(text, lines=True))


def write_text(text: str, output: Path | None) -> None:
    """Print words for people, harmless to a terminal; a file has names as they are."""
    shown = output is None or _is_stdout(output)
    write_data(printable(text, lines=True) if shown else text, output)


def write_data(text: str, output: Path | None) -> None:
    """Print `text`, or write it to `output` by rename, so that no half file is ever seen.

    A reader that has gone (`| head`) is no failure: the command goes on to its exit code.
    Raises UsageError when it cannot be written.
    """
    try:
        if output is None:
            click.echo(text, nl=False)
        else:
            write_stream(lambda out: out.write(text), output)
    except BrokenPipeError:
        discard_output()


def write_stream(write: Callable[[IO[str]], Any], output: Path | None) -> None:
    """Let `write` print to stdout, or to `output`, seen whole or not at all; raises UsageError."""
    if output is None or _is_stdout(output):
        write(sys.stdout)
        sys.stdout.flush()
        return

    def fill(path: Path) -> None:
        with path.open("w", encoding="utf-8") as out:
            write(out)

    fill_file(fill, output)


def fill_file(fill: Callable[[Path], None], output: Path) -> None:
    """Let `fill` write the file that `output` is to be, which is seen whole or not at all.

    What `output` links to is written, and may be read by whoever might read it before.
    Raises UsageError when it cannot be written.
    """
    from core import files

    try:
        if output.exists() and not output.is_file():  # a pipe or /dev/null is not replaced
            fill(output)
            return
        place = Path(os.path.realpath(output))
        place.parent.stat()  # a folder that is not there is a slip, and not made
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None

        def fill_alike(path: Path) -> None:
            if mode is not None:
                path.touch(0o600)
                path.chmod(mode)
            fill(path)

        files.write_whole(place, fill_alike)
    except OSError as error:
        raise UsageError(
            f"Cannot write {output}: {error.strerror or error}.",
            next="Choose another place with -o.",
        ) from error


def _is_stdout(path: Path) -> bool:
    """Return whether this is what stdout leads to already, as /dev/stdout is."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def discard_output(stream: int = 1) -> None:
    """Write the rest of stdout to nowhere, also what the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def say(message: str) -> None:
    """Tell the user something on stderr; a reader that has gone ends nothing."""
    try:
        click.echo(printable(message, lines=True), err=True)
    except BrokenPipeError:
        discard_output(2)


def say_none(message: str, output: Path | None) -> None:
    """Say that there is nothing to list; a file gets it instead, so that no older answer stays."""
    if output is None:
        say(message)
    else:
        write_text(f"{message}\n", output)


def say_warnings() -> None:
    """Have them said where nobody else takes them; Python prints them as they came."""
    import logging

    class WarningHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                say(f"trimtab: {record.getMessage()}")
            except Exception:  # noqa: BLE001 - as logging has it: what warns goes on
                self.handleError(record)

    logging.lastResort = WarningHandler(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command answers, by `--json` and `-o`; None is stdout."""

    as_json: bool
    output: Path | None

    def write(self, document: Callable[[], Any], text: Callable[[], str]) -> None:
        """Write the one of them that is wanted."""
        if self.as_json:
            emit(document(), self.output)
        else:
            write_text(text(), self.output)

    def write_table(
        self,
        entries: Sequence[T],
        document: Callable[[T], Any],
        header: Sequence[str],
        row: Callable[[T], Sequence[str]],
        right: str = "",
        *,
        none: str,
    ) -> None:
        """Write a list: an entry or a row each; `none` says in text that there is nothing."""
        if self.as_json:
            emit([document(entry) for entry in entries], self.output)
        elif not entries:
            say_none(none, self.output)
        else:
            write_text(text_table(header, [row(entry) for entry in entries], right), self.output)


class StatusLine:
    """How far long work is: a line on a terminal's stderr, written over every `seconds` at most."""

    def __init__(self, *, shown: bool = True, seconds: float = 0.0) -> None:
        self.shown = shown and sys.stderr.isatty()
        self._seconds, self._next = seconds, time.monotonic() + seconds

    def say(self, text: str) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._seconds
        width = shutil.get_terminal_size().columns - 1
        self._put(printable(text)[:width])

    def end(self) -> None:
        """Clear it."""
        self._put("")

    def _put(self, text: str) -> None:
        if self.shown:
            click.echo(f"{CLEAR}{text}", err=True, nl=False)
