"""Warnings of what works in a command's own process, said as commands say things."""

from __future__ import annotations

import logging

from core.cli.context import say


def say_warnings() -> None:
    """Have them said where nobody else takes them; Python prints them as they came."""
    logging.lastResort = _Said(logging.WARNING)


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(f"trimtab: {record.getMessage()}")
        except Exception:  # noqa: BLE001 - as logging has it: what warns goes on
            self.handleError(record)
