"""JSON as commands print it, and as others may have damaged it.

Printed it is indented, and quickly where a document is large: the standard library writes indented
JSON in Python, some ten times slower than without indents. Whatever is wrong with what is read is a
ValueError or a TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

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
            parts = [f"{json_line(key)}: {_text(child, inner)}" for key, child in value.items()]
            return "{" + inner + f",{inner}".join(parts) + margin + "}"
        case list() | tuple() if value:
            write = json_line if len(value) > MANY else lambda element: _text(element, inner)
            return "[" + inner + f",{inner}".join(map(write, value)) + margin + "]"
        case _:
            return json_line(value)


# -- read ----------------------------------------------------------------------------------------

T = TypeVar("T")

MAX_NUMBER = 2**63
"""No count, size or time of ours is larger; what is cannot be reckoned with, or shown."""


def parse_json(text: str | bytes) -> Any:
    """Return the values of a text; raises ValueError, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def from_known_fields(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a dataclass of a row's values; keys that a later version added are ignored.

    Raises TypeError for a row or a value of another type, or a field that is missing; ValueError
    for a number that cannot be.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"{kind.__name__} is not an object")
    types = _types(cast("Any", kind))
    values = {name: row[name] for name in types if name in row}
    for name, value in values.items():
        if types[name] and type(value) not in types[name]:
            raise TypeError(f"{name} is of another type")
        if isinstance(value, int | float) and abs(value) >= MAX_NUMBER:
            raise ValueError(f"{name} is out of range")
    return kind(**values)


@cache
def _types(kind: Any) -> dict[str, frozenset[type]]:
    """Return the types that each field may have, as JSON has them; none for any."""
    hints = get_type_hints(kind)
    return {name: _allowed(hints[name]) for name in kind.__slots__}


def _allowed(hint: Any) -> frozenset[type]:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(part in (str, int, float, bool, NoneType) for part in parts):
        return frozenset()
    # A whole number of a JSON text is an int, whatever the field is.
    return frozenset(parts) | (frozenset((int,)) if float in parts else frozenset())
