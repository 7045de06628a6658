"""Tables in Markdown, for tickets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

_MEANT = str.maketrans({"\\": "\\\\", "|": "/", "<": "&lt;", "[": "\\[", "`": "'"})
"""What would end a cell, or make a tag, a link or code: names and notes may hold it."""


def markdown_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], right: str = ""
) -> Iterator[str]:
    """Yield the lines; the i-th character `>` of `right` aligns column i right."""
    rules = ("---:" if right[i : i + 1] == ">" else "---" for i in range(len(titles)))
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join(rules)}|"
    for row in rows:
        yield f"| {' | '.join(map(markdown_cell, row))} |"


def markdown_cell(text: str) -> str:
    """Return text that stays in its cell, and means nothing to Markdown."""
    return " ".join(text.split()).translate(_MEANT)
