"""Atomic file writes, for what other processes read: to a temporary file, synced, renamed."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core import paths

STDIN = Path("-")
"""What a user says instead of a file's name to have stdin read."""
TEMPORARY = ".tmp-"
"""What the name of a file or folder begins with until it is whole."""


def private(path: str, flags: int) -> int:
    """Open a file as `open` asks; one made in a folder of ours is its owner's only."""
    return os.open(path, flags, 0o600 if paths.is_ours(Path(path)) else 0o666)


def sync(path: Path) -> None:
    """Make the content of a file durable, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, write: Callable[[Path], None], *, durable: bool = True) -> None:
    """Let `write` fill a file beside `path`, then sync it and rename it to `path`."""
    paths.make_folder(path.parent)
    aside = _aside(path)
    try:
        write(aside)
        if durable:
            sync(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a small text file whole; what is written again in a moment need not be durable."""

    def write(aside: Path) -> None:
        with open(aside, "w", encoding="utf-8", opener=private) as file:
            file.write(text)

    write_whole(path, write, durable=durable)


def _aside(path: Path) -> Path:
    """Return where `path` is made: nobody can have put a link there, in a folder of everybody's."""
    return path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}-{path.name}"


def read_input(path: Path) -> bytes:
    """Return the content of a file the user names, or stdin's when the name is STDIN."""
    if path != STDIN:
        return path.read_bytes()
    # Without any stdin (closed, as in some cron jobs) Python has None here.
    return sys.stdin.buffer.read() if sys.stdin else b""


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a folder to fill; on leaving, sync its files and rename it to `path`.

    An older folder of that name is taken away; readers that have its files open keep them.
    """
    paths.make_folder(path.parent)
    aside = _aside(path)
    aside.mkdir()
    try:
        yield aside
        for file in aside.iterdir():
            sync(file)
        sync(aside)
        if path.exists():
            shutil.rmtree(path)
        aside.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    sync(path.parent)


def append_whole(handle: int, text: bytes, size: int) -> None:
    """Append all of `text` to an open file of `size` bytes and sync it, or nothing at all."""
    try:
        done = 0
        while done < len(text):
            done += os.write(handle, text[done:])
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


def age_seconds(path: Path, now: float) -> float:
    """Return seconds since the last change; 0 for what another process has just taken away."""
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove_empty(folder: Path) -> None:
    """Remove a folder; one that something is in stays, and one that is gone is fine."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` as a lock among processes of this host, waiting for it."""
    paths.make_folder(path.parent)
    with open(path, "a", opener=private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
