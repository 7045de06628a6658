"""Text for terminals, JSON and Markdown: what it must not do, and what it keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.json_text import MANY, compact, json_line, json_text
from core.text.tables import markdown_cell

SHOWN = st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" \n\t\x1b"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | SHOWN,
    lambda inner: st.lists(inner) | st.dictionaries(SHOWN, inner),
    max_leaves=20,
)


@given(VALUES)
def test_short_json_documents_are_indented_as_by_the_standard_library(value: Any) -> None:
    assert json_text(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def test_long_list_in_json_has_one_item_per_line() -> None:
    rows = [{"partition": n, "replicas": [1, 2]} for n in range(MANY + 1)]
    text = json_text({"rows": rows, "more": (1, 2)})
    assert json.loads(text) == {"rows": rows, "more": [1, 2]}
    assert '    {"partition": 7, "replicas": [1, 2]},\n' in text
    assert len(text.splitlines()) == len(rows) + 8


ANY = st.text(st.characters(categories=("L", "N", "P", "S", "Z", "C")))


@given(ANY)
def test_single_line_json_is_printable_and_reads_back_unchanged(text: str) -> None:
    for line in (json_line({text: [text]}), compact({text: [text]})):
        assert line.isprintable()
        assert json.loads(line.encode()) == {text: [text]}
    assert compact({"a": [1, 2]}) == '{"a":[1,2]}'


def test_control_characters_in_json_are_escaped_and_read_back_unchanged() -> None:
    name = "a\x9b31m\u202eb\u200b漢é\U000e0001"
    for document in ({name: name}, [name] * (MANY + 1)):
        text = json_text(document)
        assert all(part.isprintable() for part in text.split("\n"))
        assert "漢é" in text
        assert json.loads(text) == document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders-7  moves", "orders-7 moves"),
        ("a | b", "a / b"),
        ("two\nlines", "two lines"),
        ("[free](http://x)", "\\[free](http://x)"),
        ("\\[free](http://x)", "\\\\\\[free](http://x)"),
        ("`rm`", "'rm'"),
        ("<img src=x>", "&lt;img src=x>"),
    ],
)
def test_markdown_syntax_in_a_table_cell_is_neutralized(text: str, expected: str) -> None:
    assert markdown_cell(text) == expected
