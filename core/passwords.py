"""Passwords that client properties leave out: typed by the user, kept in memory only.

They reach the processes that this one starts through a pipe that is read once. They are in no
argument, no environment, no file and no log; a process that nobody handed them has none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import DocumentError

ON_STDIN = "--passwords-on-stdin"
"""Says to a process that what `open_pipe` opened is its stdin."""
_MAX_BYTES = 4096
"""What any pipe takes before somebody reads it."""

_known: dict[tuple[str, str], str] = {}


@dataclass(frozen=True, slots=True)
class MissingPassword:
    """A password that a properties file leaves out: under which key, and whose it is."""

    file: Path
    key: str
    owner: str

    @property
    def prompt(self) -> str:
        return f"Password of {self.owner}"


class PasswordMissingError(DocumentError):
    """Client properties name what has a password, and nobody has said it."""

    def __init__(self, missing: MissingPassword) -> None:
        super().__init__(
            f"There is no password of {missing.owner}.",
            next=f"Set it in {missing.file} ({missing.key}); on a terminal you are asked for it.",
        )
        self.args = (missing,)  # so that it can be pickled
        self.missing = missing


class WrongPasswordError(DocumentError):
    """A password is not the one of what it is for."""


def remember(missing: MissingPassword, password: str) -> None:
    """Keep what was typed; raises DocumentError where it is too long to be handed on."""
    _known[_place(missing.file), missing.key] = password
    if len(_line(missing.file)) > _MAX_BYTES:
        forget(missing)
        raise DocumentError(
            f"The password of {missing.owner} is too long to be handed to other processes.",
            next=f"Set it in {missing.file} ({missing.key}).",
        )


def forget(missing: MissingPassword) -> None:
    _known.pop((_place(missing.file), missing.key), None)


def find_password(file: Path, key: str) -> str | None:
    """Return what was typed for a key of a properties file; None where nothing was."""
    return _known.get((_place(file), key))


def passwords_of(file: Path | None) -> dict[str, str]:
    """Return what was typed for a properties file, by its keys."""
    place = None if file is None else _place(file)
    return {key: password for (known, key), password in _known.items() if known == place}


@contextmanager
def open_pipe(file: Path | None) -> Iterator[int | None]:
    """Open a pipe with what was typed for a properties file, for a process to read; or None."""
    if file is None or not passwords_of(file):
        yield None
        return
    reading, writing = os.pipe()
    try:
        try:
            os.write(writing, _line(file))
        finally:
            os.close(writing)
        yield reading
    finally:
        os.close(reading)


def receive() -> None:
    """Take what `open_pipe` wrote from stdin, which leads nowhere from then on."""
    line = b""
    while not line.endswith(b"\n") and (part := os.read(0, _MAX_BYTES)):
        line += part
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    if line:
        handed = json.loads(line)
        for key, password in handed["passwords"].items():
            _known[handed["file"], key] = password


def _line(file: Path) -> bytes:
    """Return what is handed on: whoever reads a line need not wait until all ends are closed."""
    return json.dumps({"file": _place(file), "passwords": passwords_of(file)}).encode() + b"\n"


def _place(file: Path) -> str:
    return str(file.absolute())
