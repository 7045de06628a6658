"""Prepares the terminal before Textual is imported, and writes what Textual does not.

`prepare` sets defaults in the environment (the user's own values win); `clipboard_sequence` is
OSC 52, wrapped for tmux and screen. What Textual's driver gets wrong: `tui/driver.py`.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping

from core.errors import UsageError
from core.text.terminal import through

CLIPBOARD_LIMIT = 74_994
"""Bytes of text above which terminals drop OSC 52 silently (xterm's limit, as k9s has it)."""


def prepare() -> None:
    """Set Textual's defaults, before it is imported; raises UsageError without a terminal."""
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


def clipboard_sequence(text: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the OSC 52 sequence that copies `text`; None where terminals would drop it."""
    data = text.encode()
    if len(data) > CLIPBOARD_LIMIT:
        return None
    return through(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07", environment)
