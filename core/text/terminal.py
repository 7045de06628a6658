"""Text for terminals: escape sequences removed, ASCII where asked for, control sequences."""

from __future__ import annotations

import os
from collections.abc import Mapping

_ASCII = str.maketrans(
    {
        **dict.fromkeys("█▉▊▋▌", "#"),
        **dict.fromkeys("▍▎▏", ":"),
        **dict.fromkeys("▖▗▘▝▚▞▀▄▙▛▜▟▐", "*"),
        **dict.fromkeys("┼┤├└┘┬┴┌┐", "+"),
        **dict.fromkeys("→▸≥", ">"),
        **dict.fromkeys("◂≤", "<"),
        **dict.fromkeys("─–—−", "-"),
        **dict.fromkeys("━‖", "="),
        **dict.fromkeys("╌┄░◌", "."),
        **dict.fromkeys("▒▓", "%"),
        "╱": "/",
        "◆": "#",
        "│": "|",
        "●": "*",
        **dict.fromkeys("○•", "o"),
        "·": ".",
        "▲": "^",
        "✗": "x",
        **dict.fromkeys("√✓±", "+"),
        "×": "x",
        "…": "~",
    }
)


def printable(text: str, *, lines: bool = False) -> str:
    """Return a text that does nothing to a terminal; the ends of `lines` stay.

    Names are their users': Kafka lets a group, a client or a rack be called anything.
    """
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in text)


def in_ascii(text: str) -> str:
    """Return `text` in ASCII, as many columns wide; what the table lacks, as in a name, is `?`."""
    drawn = text.translate(_ASCII)
    if drawn.isascii():
        return drawn
    from rich.cells import cell_len

    return "".join(char if char.isascii() else "?" * cell_len(char) for char in drawn)


def notice_sequence(title: str, text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the sequence of a desktop notification: OSC 777 where that is known, else OSC 9."""
    title, text = (
        "".join(c if c.isprintable() and c != ";" else " " for c in part) for part in (title, text)
    )
    if environment.get("TERM", "").startswith(("rxvt", "foot")):
        return through(f"\x1b]777;notify;{title};{text}\x07", environment)
    return through(f"\x1b]9;{title}: {text}\x07", environment)


def through(sequence: str, environment: Mapping[str, str]) -> str:
    """Return a sequence wrapped so that tmux, or screen, hands it on to the terminal."""
    if environment.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environment.get("TERM", "").startswith("screen"):
        # GNU screen passes at most 768 bytes in one device control string.
        parts = [sequence[i : i + 76] for i in range(0, len(sequence), 76)]
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return sequence
