"""Tables: as padded columns for a terminal, and as Markdown for tickets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from core.text.terminal import printable


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: str = "",
    limit: int | None = None,
) -> str:
    """Return lines of padded columns; the i-th character `>` of `right` aligns column i right.

    Rows beyond `limit` are counted in a last line.
    """
    everything = [tuple(header), *(tuple(map(printable, row)) for row in rows[:limit])]
    widths = [max(len(row[i]) for row in everything) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if right[i : i + 1] == ">" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip() + "\n"

    more = len(rows) + 1 - len(everything)
    end = f"… and {more:,} more; --json has them all.\n" if more else ""
    return "".join(map(line, everything)) + end


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
