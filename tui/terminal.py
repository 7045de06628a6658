"""What must be right about the terminal before Textual is imported, and what Textual gets wrong.

`prepare` sets defaults in the environment (the user's own values win); `mend_driver` and
`PreciseCompositor` amend Textual 8; `clipboard_sequence` is OSC 52, wrapped for tmux and screen.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.terminal import through

if TYPE_CHECKING:
    import asyncio

CLIPBOARD_LIMIT = 74_994
"""Bytes of text above which terminals drop OSC 52 silently (xterm's limit, as k9s has it)."""


def prepare() -> None:
    """Set Textual's environment defaults; to be called before Textual is imported.

    Raises UsageError when there is no terminal to draw on.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "The dashboard needs a terminal.",
            next="Without one, `trimtab … show` prints the heat map as text.",
        )
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError(
            "This terminal (TERM=dumb) cannot draw a dashboard.",
            next="Set TERM to what it is (xterm-256color), or use `trimtab … show`.",
        )
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    os.environ.setdefault("TEXTUAL_FPS", "15" if "SSH_CONNECTION" in os.environ else "30")


def no_color() -> bool:
    """Return whether the user wants no colour (https://no-color.org: set and not empty)."""
    return bool(os.environ.get("NO_COLOR"))


def few_colors() -> bool:
    """Return whether this terminal has 16 colours or fewer, so that glyphs carry the level."""
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return False
    return "256color" not in os.environ.get("TERM", "")


def mend_driver() -> None:
    """Let the input thread survive bytes that are not UTF-8 (tmux reattach, Textual #6668)."""
    import codecs
    from functools import partial

    from textual.drivers import linux_driver

    def replacing(encoding: str) -> Callable[..., codecs.IncrementalDecoder]:
        return partial(codecs.getincrementaldecoder(encoding), errors="replace")

    linux_driver.getincrementaldecoder = replacing  # type: ignore[attr-defined,assignment]


def leave_on_hangup(loop: asyncio.AbstractEventLoop, leave: Callable[..., None]) -> None:
    """Leave in order when the terminal goes away; Textual alone would die without unmounting."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        loop.add_signal_handler(number, leave, None, 128 + number)


def clipboard_sequence(text: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the OSC 52 sequence that copies `text`, wrapped for tmux or screen.

    None when the text is larger than terminals take.
    """
    data = text.encode()
    if len(data) > CLIPBOARD_LIMIT:
        return None
    return through(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07", environment)
