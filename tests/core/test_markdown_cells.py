"""Tables in Markdown say what names and notes hold, and nothing else."""

from __future__ import annotations

import pytest

from core.text.tables import markdown_cell


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_a_cell_means_nothing_to_markdown(text: str, said: str) -> None:
    assert markdown_cell(text) == said
