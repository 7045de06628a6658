"""Names are the user's: whatever is in one, it takes the cells it is counted as, no more."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from tui.drawing.canvas import Row
from tui.drawing.compositor import Pen
from tui.drawing.spans import cells, fit, left, plain, right, shorten, width_of

PLAIN = Style()
NAMES = {
    "orders": "orders",
    "größe ▲": "größe ▲",
    "a\x1b[31mb\tc\r": "a?[31mb?c?",
    "a\x7fb\x9b2Jc": "a?b?2Jc",
    "a\u202eb\u200bc\xa0d": "a?b?c?d",
    "消費者": "???",
    "e\u0301te\u0301": "ete",
}


@pytest.mark.parametrize(("name", "drawn"), NAMES.items())
def test_drawn_name_takes_as_many_cells_as_its_counted_width(name: str, drawn: str) -> None:
    row = Row(20, PLAIN)
    end = row.put(1, name, PLAIN)
    row.put(end, "|", PLAIN)
    assert row.text == f" {drawn}|".ljust(20)
    assert cells(drawn) == drawn
    assert width_of((plain(name),)) == len(drawn)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_column_next_to_a_name_stays_aligned(name: str, width: int) -> None:
    for placed in (
        (plain(left(name, width)), plain("|")),
        (plain(right(name, width)), plain("|")),
        (*fit((plain(name),), width), plain("|")),
    ):
        row, x = Row(20, PLAIN), 0
        for span in placed:
            x = row.put(x, span.text, PLAIN)
        assert row.text.index("|") == width


def test_right_aligned_name_ends_at_its_column() -> None:
    row = Row(8, PLAIN)
    assert row.put_right(7, "e\u0301消", PLAIN) == 5
    assert row.text == "     e? "


def test_control_characters_are_stripped_from_painted_text() -> None:
    """Dialogs' labels are Textual's: it counts what is no character as no cell."""
    pen = Pen(ColorSystem.TRUECOLOR)
    pen.write([Segment("a\x1b[31mb\x9b2J\rc\td é…", PLAIN)])
    assert pen.text().endswith("a[31mb2Jcd é…\x1b[0m")


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("orders", 11, "orders"),
        ("topic-000412", 11, "topic-0…412"),
        ("topic-000423", 11, "topic-0…423"),
        ("identity.changelog", 13, "identity…elog"),
        ("orders", 3, "o…s"),
        ("orders", 1, "…"),
        ("orders", 0, ""),
    ],
)
def test_a_name_that_is_too_long_keeps_its_ends(name: str, width: int, expected: str) -> None:
    assert shorten(name, width) == expected
    assert len(expected) <= width
