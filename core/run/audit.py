"""The audit: who asked for what, from where, and every change that was made to a cluster."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from core import files, paths
from core.run.journal.journal import JournalError
from core.text.json_text import parse_json
from core.units import format_time


def requester() -> dict[str, str]:
    """Return the user, this host, and from where the user came to it."""
    return {"who": user(), "host": socket.gethostname(), "from": origin()}


def user() -> str:
    """Return the name that the system knows this process's user by; behind sudo, whose it was."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", name)
    return name if behind == name else f"{behind} as {name}"


def origin() -> str:
    """Return `ssh ADDRESS`, else the terminal, else ""."""
    ssh = (os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_CLIENT") or "").split()
    if ssh:
        return f"ssh {ssh[0]}"
    for stream in (0, 1, 2):
        if os.isatty(stream):
            return os.ttyname(stream)
    return ""


Entry = Mapping[str, Any]

START: Final = "0" * 64
"""What the first line holds in place of a hash before it."""
ROOM_BYTES: Final = 1 << 20
"""What must be free for a change that is not written down before it is made."""
MENDED: Final = "mended"
_HASH: Final = ',"hash":"'
_BLOCK: Final = 1 << 16


class AuditError(JournalError):
    """The audit cannot be written; nothing was changed because of it."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the file, counted from 1; `entry` is None when it is no whole entry."""

    number: int
    raw: bytes
    entry: Entry | None
    whole: bool
    """Whether the line has its end: a crash may leave the last one without."""


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What the chain says: `problem` names the first line that is wrong, None when all is well."""

    entries: int
    last_hash: str
    problem: str | None = None
    line: int | None = None
    cut: bool = False
    """Whether the file ends within a line, as a crash leaves it; the next entry mends it."""
    mended: int = 0


def note(cluster_id: str, run: str | None, what: str, **detail: Any) -> None:
    """Write one entry, on disk as this returns, in the name of whoever runs this process.

    Raises AuditError when it cannot be written.
    """
    entry = {
        "at": format_time(datetime.now(UTC)),
        **requester(),
        "cluster_id": cluster_id,
        "run": run,
        "what": what,
        **detail,
    }
    with _open() as handle:
        size = os.lseek(handle, 0, os.SEEK_END)
        rest, before = _tail(handle, size)
        text = b""
        if rest:
            cut = {"cut_bytes": len(rest), "cut_sha256": hashlib.sha256(rest).hexdigest()}
            mended = {"at": entry["at"], **requester(), "what": MENDED, **cut}
            line, before = _chain_entry(mended, before)
            text = b"\n" + line
        line, _ = _chain_entry(entry, before)
        files.append_whole(handle, text + line, size)


def check_room() -> None:
    """Raise AuditError where the audit cannot be opened to be written, or its disk is full."""
    with _open() as handle:
        disk = os.fstatvfs(handle)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < ROOM_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _open() -> Iterator[int]:
    path = paths.audit_file()
    try:
        paths.make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)
    except OSError as error:
        raise AuditError(
            f"The audit {path} cannot be written: {error.strerror}.",
            detail="Nothing is changed that is not written down there.",
            next="Free or mount that disk writable, or set TRIMTAB_HOME to another place.",
        ) from error


def _tail(handle: int, size: int) -> tuple[bytes, str]:
    """Return what stands behind the last line's end, and the last whole entry's hash."""
    at, text = size, b""
    while at > 0:
        step = min(_BLOCK, at)
        at -= step
        text = os.pread(handle, step, at) + text
        if text.count(b"\n") > 1:
            break
    *lines, rest = text.split(b"\n")
    hashes = (str(entry["hash"]) for line in reversed(lines) if (entry := _entry(line)))
    return rest, next(hashes, START)


def _chain_entry(entry: Entry, before: str) -> tuple[bytes, str]:
    body = json.dumps({**entry, "prev": before}, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256((before + body).encode()).hexdigest()
    return f'{body[:-1]}{_HASH}{digest}"}}\n'.encode(), digest


def _entry(raw: bytes) -> Entry | None:
    try:
        entry = parse_json(raw)
    except ValueError:
        return None
    known = isinstance(entry, dict) and isinstance(entry.get("hash"), str) and "what" in entry
    return entry if known else None


# -- reading ---------------------------------------------------------------------------------------


def read(path: Path | None = None) -> Iterator[AuditLine]:
    """Yield the lines of the audit, oldest first; nothing when there is none yet."""
    path = path or paths.audit_file()
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            whole = raw.endswith(b"\n")
            raw = raw.rstrip(b"\n")
            yield AuditLine(number, raw, _entry(raw) if whole else None, whole)


def verify(lines: Iterator[AuditLine]) -> AuditVerdict:
    """Follow the chain and return what it says; reads to the first line that is wrong."""
    before, entries, mended = START, 0, 0
    fragment: AuditLine | None = None
    for line in lines:
        if not line.whole:
            return AuditVerdict(entries, before, cut=True, mended=mended)
        if line.entry is None and fragment is None:
            fragment = line  # only a crash's, if the next line says so
            continue
        problem = _line_problem(line, before, fragment)
        if problem:
            wrong = fragment or line
            return AuditVerdict(entries, before, f"Line {wrong.number} {problem}.", wrong.number)
        assert line.entry is not None
        mended += fragment is not None
        fragment = None
        before, entries = str(line.entry["hash"]), entries + 1
    if fragment is not None:
        return AuditVerdict(
            entries, before, f"Line {fragment.number} is no entry.", fragment.number
        )
    return AuditVerdict(entries, before, mended=mended)


def _line_problem(line: AuditLine, before: str, fragment: AuditLine | None) -> str:
    """Return what is wrong with a line after the hash `before`, or with the fragment before it."""
    entry = line.entry
    if fragment is not None:
        cut = hashlib.sha256(fragment.raw).hexdigest()
        if entry is None or (entry["what"], entry.get("cut_sha256")) != (MENDED, cut):
            return "is no entry, and no crash was noted there"
    if entry is None:
        return "is no entry"
    body, mark, digest = line.raw.decode("utf-8", "replace").rpartition(_HASH)
    if not mark or hashlib.sha256((before + body + "}").encode()).hexdigest() != digest[:-2]:
        if entry.get("prev") != before:
            return "does not follow the one before: lines were taken out, put in or changed"
        return "was changed after it was written"
    return ""
