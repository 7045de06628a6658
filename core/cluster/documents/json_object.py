"""JsonObject: one object of a document, read field by field; what is wrong says where."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar, overload

from core.errors import UsageError
from core.units import parse_time

_T = TypeVar("_T")
_D = TypeVar("_D")


class InvalidDocumentError(Exception):
    """What is wrong, and where in the document."""


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object as JSON is read; of a key twice in it, one value would be lost unsaid."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise InvalidDocumentError(f'it has "{twice}" twice in one object')
    return fields


class JsonObject:
    """One JSON object and where it is, for messages."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise InvalidDocumentError(f"{where} is not an object")
        self._value: dict[str, Any] = value
        self.where = where

    @overload
    def get(self, key: str, kind: type[_T]) -> _T: ...
    @overload
    def get(self, key: str, kind: type[_T], default: _D) -> _T | _D: ...
    def get(self, key: str, kind: type[Any], default: Any = ...) -> Any:
        """Return a value of this type; without a default it must be there."""
        value = self._value.get(key)
        if value is None:
            if default is not ...:
                return default
            raise InvalidDocumentError(f"{self.where} has no {key!r}")
        # JSON's true is no number, whatever Python says.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InvalidDocumentError(f"{key!r} of {self.where} is not {_KINDS[kind]}")
        if kind is int and not -(2**63) <= value < 2**63:
            raise InvalidDocumentError(f"{key!r} of {self.where} is out of range")
        return value

    def has(self, key: str) -> bool:
        """Return whether a key is there, be its value null."""
        return key in self._value

    def child(self, key: str) -> JsonObject | None:
        """Return the object of a key, None where it is null or absent."""
        value = self._value.get(key)
        return None if value is None else JsonObject(value, f"{key!r} of {self.where}")

    def id(self, key: str, *default: int, minimum: int = 0) -> int:
        """Return an id, a partition's number or an epoch: what Kafka holds in 32 bits."""
        value = self.get(key, int, *default)
        if not minimum <= value < 2**31:
            raise InvalidDocumentError(f"{key!r} of {self.where} is out of range")
        return value

    def rate(self, key: str) -> float:
        value = self._value.get(key)
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise InvalidDocumentError(f"{key!r} of {self.where} is not a rate")
        if value >= 2**63:
            raise InvalidDocumentError(f"{key!r} of {self.where} is out of range")
        return float(value)

    def capacity(self, key: str) -> float | None:
        value = self.rate(key)
        if value < 1:
            raise InvalidDocumentError(f"{key!r} of {self.where} is less than 1 byte/s")
        return None if math.isnan(value) else value

    def size(self, key: str) -> int | None:
        value = self.get(key, int, None)
        if value is not None and value < 0:
            raise InvalidDocumentError(f"{key!r} of {self.where} is negative")
        return value

    def ids(self, key: str, *, required: bool = False) -> tuple[int, ...]:
        values = self.get(key, list) if required else self.get(key, list, [])
        if not all(type(v) is int and 0 <= v < 2**31 for v in values):
            raise InvalidDocumentError(f"{key!r} of {self.where} is not a list of broker ids")
        if len(set(values)) != len(values):
            raise InvalidDocumentError(f"{key!r} of {self.where} names a broker twice")
        return tuple(values)

    def time(self, key: str) -> datetime | None:
        text = self.get(key, str, None)
        if text is None:
            return None
        try:
            return parse_time(text)
        except UsageError as error:
            raise InvalidDocumentError(f"{key!r} of {self.where} is not a time") from error

    def each(self, key: str, *, required: bool = False) -> list[JsonObject]:
        values = self.get(key, list) if required else self.get(key, list, [])
        return [JsonObject(value, f"{key}[{i}]") for i, value in enumerate(values)]


_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    list: "a list",
    bool: "true or false",
}
