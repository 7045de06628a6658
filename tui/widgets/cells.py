"""Cells: a text with one character for each cell that it takes, none of which moves the cursor.

Names are their users': Kafka lets a group, a client or a rack be called anything.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len


def cells(text: str) -> str:
    """Return what is drawn of `text`: `?` for what a terminal would obey or draw two cells wide.

    What is drawn upon the character before takes no cell, and is left out.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_cell, text))


def columns(text: str) -> int:
    """Return how many columns `text` takes."""
    return len(cells(text))


@lru_cache(maxsize=4096)
def _cell(char: str) -> str:
    if not char.isprintable():
        return "?"
    return ("", char, "?")[cell_len(char)]
