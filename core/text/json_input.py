"""JSON that others may have damaged: whatever is wrong with it is a ValueError or a TypeError."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

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
