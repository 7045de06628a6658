"""The timeline for a ticket: what happened as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from core.text.tables import markdown_cell


def markdown(title: str, rows: Iterable[tuple[datetime, str]]) -> str:
    """Return rows of (when, what) under a title; times in UTC."""
    lines = [f"## {title}", "", "| when (UTC) | what |", "|---|---|"]
    for at, text in rows:
        here = at.astimezone(UTC)
        when = f"{here:%Y-%m-%d %H:%M:%S}.{here.microsecond // 100_000}"
        lines.append(f"| {when} | {markdown_cell(text)} |")
    return "\n".join(lines) + "\n"
