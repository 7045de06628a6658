"""A plan's moves as other programs want them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from core.terminal import printable

LISTS = ("before", "after", "adding", "removing")
RELIEF = ("broker", "measure", "before", "after")


def csv_text(moves: Sequence[Mapping[str, Any]]) -> str:
    """Return moves of `plan show --json` as CSV with a head; brokers are lists like 4,2,7.

    What is not known is empty.
    """
    out = io.StringIO()
    heads = (
        *("topic", "partition", *LISTS, "before_leader", "after_leader", "log_dirs", "bytes"),
        *("because", *(f"relieves_{name}" for name in RELIEF)),
    )
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for move in moves:
        lists = (",".join(map(str, move[name])) for name in LISTS)
        leader = move["preferred_leader"]
        row = (_plain(move["topic"]), move["partition"], *lists, leader["before"], leader["after"])
        log_dirs = printable(",".join(f"{one['broker']}:{one['path']}" for one in move["log_dirs"]))
        relief = move["relieves"] or {}
        effect = (relief.get(name) for name in RELIEF)
        writer.writerow((*row, log_dirs, move["bytes"], _plain(move["because"]), *effect))
    return out.getvalue()


def _plain(text: str | None) -> str | None:
    """Return a text of a plan file, which anybody may have written, as no formula of a sheet."""
    if text is None:
        return None
    shown = printable(text)
    return f"'{shown}" if shown.lstrip()[:1] in ("=", "+", "-", "@") else shown
