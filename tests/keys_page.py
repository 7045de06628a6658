"""docs/reference/keys.md: every key of every place, made from the table of actions."""

from __future__ import annotations

import sys

from tui.actions.action import PLACES
from tui.actions.table import actions_of, written


def key_table() -> str:
    lines = ["# Keys", "", "Made from the table of actions by `make docs`."]
    for place, title in PLACES.items():
        lines += ["", f"## {title}", "", "| key | action | what it does |", "|---|---|---|"]
        for action in actions_of(place):
            keys = " ".join(f"`{written(key)}`" for key in action.keys)
            write = " Needs `--write`." if action.needs_write else ""
            lines.append(f"| {keys} | {action.name} | {action.help}{write} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(key_table())
