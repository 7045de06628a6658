"""Tables as plain text: columns as wide as they need, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

from core.plan.plan import ANY
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


def brokers(ids: Sequence[int]) -> str:
    """Return broker ids as Kafka's tools write replicas: 1,2,3."""
    return ",".join(map(str, ids))


def with_dirs(ids: Sequence[int], log_dirs: Sequence[str | None]) -> str:
    """Return broker ids as 1,2:/disk-2,3, with the log dirs that are named or known."""
    if len(log_dirs) != len(ids):
        return brokers(ids)
    pairs = zip(ids, log_dirs, strict=True)
    return ",".join(f"{b}:{path}" if path not in (None, ANY) else str(b) for b, path in pairs)
