"""JSON that others may have damaged: of the types that are meant, or refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from core.text.json_text import MAX_NUMBER, from_known_fields, parse_json


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    count: int
    rate: float | None = None
    is_alive: bool = True
    parts: tuple[int, ...] = ()


GOOD = {"name": "a", "count": 1}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "{", b"\xff", ""])
def test_invalid_json_raises_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize(
    ("more", "row"),
    [
        ({}, Row("a", 1)),
        ({"later": 7}, Row("a", 1)),
        ({"rate": 2}, Row("a", 1, 2)),
        ({"rate": None, "is_alive": False}, Row("a", 1, None, False)),
        ({"parts": "anything"}, Row("a", 1, parts="anything")),  # type: ignore[arg-type]
    ],
)
def test_row_takes_only_its_known_fields(more: dict[str, Any], row: Row) -> None:
    assert from_known_fields(Row, GOOD | more) == row


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ([], TypeError),
        (None, TypeError),
        ({"name": "a"}, TypeError),
        (GOOD | {"count": True}, TypeError),
        (GOOD | {"count": 1.0}, TypeError),
        (GOOD | {"count": None}, TypeError),
        (GOOD | {"name": 7}, TypeError),
        (GOOD | {"is_alive": 1}, TypeError),
        (GOOD | {"rate": "1"}, TypeError),
        (GOOD | {"count": MAX_NUMBER}, ValueError),
        (GOOD | {"rate": -math.inf}, ValueError),
    ],
)
def test_row_with_missing_or_invalid_fields_is_refused(row: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        from_known_fields(Row, row)
