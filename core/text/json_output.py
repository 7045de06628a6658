"""JSON as commands print it: indented, and quickly where a document is large.

The standard library writes indented JSON in Python, some ten times slower than without indents.
"""

from __future__ import annotations

import json
from typing import Any

MANY = 100
"""Items beyond which a list has one on each line, whole: rows that grep and diff can take."""

_plain = json.JSONEncoder(ensure_ascii=False).encode
_tight = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_text(document: Any) -> str:
    """Return a document's text with a newline at its end; keys must be strings."""
    return _text(document, "\n") + "\n"


def json_line(document: Any) -> str:
    """Return a document's text on one line, without an end."""
    return escaped(_plain(document))


def compact(document: Any) -> str:
    """Return a document's text without spaces and an end, as Kafka's tools (Jackson) write it."""
    return escaped(_tight(document))


def escaped(text: str) -> str:
    """Return JSON on one line with escapes for all that a terminal would obey or not show.

    It means the same. Python escapes what is below a space; C1's controls and bidi marks are no
    less obeyed, and half a surrogate pair cannot be written.
    """
    if text.isascii() and "\x7f" not in text:  # at once, and nearly always
        return text
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _text(value: Any, margin: str) -> str:
    inner = margin + "  "
    match value:
        case dict() if value:
            parts = [f"{json_line(key)}: {_text(one, inner)}" for key, one in value.items()]
            return "{" + inner + f",{inner}".join(parts) + margin + "}"
        case list() | tuple() if value:
            write = json_line if len(value) > MANY else lambda one: _text(one, inner)
            return "[" + inner + f",{inner}".join(map(write, value)) + margin + "]"
        case _:
            return json_line(value)
