"""Numbers for cells: one unit for a whole map, few characters, unknown is not zero."""

from __future__ import annotations

import math
from dataclasses import dataclass

PREFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True, slots=True)
class Scale:
    """What numbers are divided by, and the prefix that says so."""

    divisor: float
    prefix: str
    decimals: int = 0

    def text(self, value: float, nothing: str = "·") -> str:
        """Return a number of at most four characters; too small to show is `nothing`."""
        if math.isnan(value):
            return "?"
        scaled = value / self.divisor
        if round(scaled, self.decimals) == 0:
            return nothing
        return f"{scaled:.{self.decimals}f}"


def scale_of(largest: float, *, counted: bool = False) -> Scale:
    """Return the scale in which the largest value has up to three digits."""
    if counted or math.isnan(largest) or largest <= 0:
        return Scale(1.0, "")
    step = 0
    # A little below the next thousand: 999.6 would be written as 1000.
    while largest / 1000**step >= 999.5 and step < len(PREFIXES) - 1:
        step += 1
    scaled = largest / 1000**step
    return Scale(1000.0**step, PREFIXES[step], 1 if scaled < 9.95 and step else 0)


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
