"""Tables as plain text: columns as wide as they need, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

from core.terminal import printable


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> str:
    """Return lines of padded columns; the i-th character `>` of `right` aligns column i right."""
    everything = [tuple(header), *(tuple(map(printable, row)) for row in rows)]
    widths = [max(len(row[i]) for row in everything) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if right[i : i + 1] == ">" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip() + "\n"

    return "".join(line(row) for row in everything)
