"""The report of a run on a screen: the Markdown of its ticket, with headings, tables and lists."""

from __future__ import annotations

from collections.abc import Sequence

from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    columns,
    dim,
    left,
    plain,
    rule,
)

GAP = 2
MIN_CELL = 8
_TONES = {"done": Tone.FINE, "failed": Tone.ACT, "stuck": Tone.LOOK, "cancelled": Tone.LOOK}


def report_lines(text: str, skipped: int, width: int, height: int) -> Lines:
    """Return the report from line `skipped` on; its title stays."""
    title, *rest = all_report_lines(text, width)
    body = rest[min(skipped, max(len(rest) - (height - 1), 0)) :]
    return (title, *body[: height - 1])


def all_report_lines(text: str, width: int) -> Lines:
    """Return all lines of a report."""
    lines: list[Line] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            if not line.startswith("|---"):
                table.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if table:
            lines += _table(table, width)
            table = []
        if line.startswith("# "):
            lines.append((plain(" "), bright(line[2:])))
        elif line.startswith("## "):
            lines.append(rule(line[3:], width))
        elif line.startswith("- "):
            lines.append((plain(f"  {line[2:]}"),))
        else:
            lines.append((plain(f"  {line}"),) if line else BLANK)
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def _table(rows: Sequence[Sequence[str]], width: int) -> Lines:
    """Return rows in columns; the last column takes what is left of the width."""
    count = max(len(row) for row in rows)
    needed = [
        max((columns(row[i]) for row in rows if i < len(row)), default=0) for i in range(count)
    ]
    sizes = needed[:-1]
    room = max(width - 2 - GAP * count - 12, MIN_CELL * count)
    while sum(sizes) > room and max(sizes) > MIN_CELL:
        sizes[sizes.index(max(sizes))] -= 1
    return tuple(_row(row, sizes, head=y == 0) for y, row in enumerate(rows))


def _row(cells: Sequence[str], sizes: Sequence[int], *, head: bool) -> Line:
    *first, last = cells
    spans = [plain("  ")]
    for cell, size in zip(first, sizes, strict=False):
        text = left(cell, size) + " " * GAP
        spans.append(dim(text) if head else plain(text))
    tone = _TONES.get(last.split(":")[0], Tone.PLAIN)
    spans.append(dim(last) if head else Span(last, tone))
    return tuple(spans)
