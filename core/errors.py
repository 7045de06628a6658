"""The errors a user may see: what went wrong, what to do next, and the exit code.

Everything that is not one of these is a bug: its traceback goes to the log, never to the screen.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from core.text.terminal import printable

MAX_TITLE = 600
"""Characters of a sentence: what quotes a damaged file may quote all of it."""


class ExitCode(IntEnum):
    """What the process tells its caller; the meanings are part of the command line's contract."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4
    INCOMPLETE = 5
    NO = 6


class TrimtabError(Exception):
    """One clear sentence (`title`), optional `detail`, and what to do `next`."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, title: str, *, detail: str = "", next: str = "") -> None:
        # Names and values of others are in it: wherever it is shown or logged, it does no harm.
        title = printable(" ".join(title.split("\n")))
        self.title = title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"
        self.detail = printable(detail, lines=True)
        self.next = printable(next, lines=True)
        super().__init__(self.title)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.title, self.detail, self.next) if part)


class UsageError(TrimtabError):
    """The words of a command, a file or a setting are off."""

    exit_code = ExitCode.USAGE


class DocumentError(UsageError):
    """A file the user named cannot be read as what it should be."""


class NewerFormatError(DocumentError):
    """A file is whole, and a newer trimtab wrote it."""


class RefusedError(TrimtabError):
    """A check refuses; `checks` are the ids that `--allow` takes."""

    exit_code = ExitCode.REFUSED

    def __init__(
        self, title: str, *, detail: str = "", next: str = "", checks: tuple[str, ...] = ()
    ) -> None:
        super().__init__(title, detail=detail, next=next)
        self.checks = checks


class UnreachableError(TrimtabError):
    """The cluster does not answer, or answers in another protocol."""

    exit_code = ExitCode.UNREACHABLE


RIGHTS = "Ask for the rights (`doctor --acls` shows which), or name another --command-config."


def rights_advice(takes: str) -> str:
    """Return what to do without a right, like "ALTER on the cluster"; "" for one not known."""
    return f"It takes {takes}. {RIGHTS}" if takes else RIGHTS


class AccessDeniedError(TrimtabError):
    """The cluster answers, and says no; `takes` is the right that is missing, if that is known."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, title: str, *, detail: str = "", next: str = "", takes: str = "") -> None:
        super().__init__(title, detail=detail, next=next)
        self.takes = takes

    @property
    def reason(self) -> str:
        """Return in a clause what is refused and which right it takes, for where advice is not."""
        title = self.title.rstrip(".")
        return f"{title} (it takes {self.takes})" if self.takes else title


class LoginRefusedError(AccessDeniedError):
    """The cluster refuses a user's name or password."""


class StoreError(TrimtabError):
    """An object store does not answer, or says no; of the cluster that tells nothing."""

    exit_code = ExitCode.UNREACHABLE


class IncompleteError(TrimtabError):
    """Something ended before it was complete."""

    exit_code = ExitCode.INCOMPLETE
