"""Ratios and bars for cells: few characters, and nothing for what is not known."""

from __future__ import annotations

import math


def ratio(value: float, times: str = "×") -> str:
    """Return a skew: `2.1×`; nothing for unknown or none at all."""
    if math.isnan(value) or value <= 0:
        return ""
    return f"{value:.1f}{times}" if value < 99.95 else f"99{times}"


def bar(length: float, eighths: str) -> str:
    """Return a bar of `length` columns in steps of an eighth."""
    whole = int(length)
    part = eighths[round((length - whole) * 8)] if length > whole else ""
    return eighths[8] * whole + part.strip()
