"""Scale: one unit for the numbers of a whole table, so that they can be compared at a glance."""

from __future__ import annotations

import math
from dataclasses import dataclass

PREFIXES = ("", "k", "M", "G", "T", "P")
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Scale:
    """What numbers are divided by, and the prefix that says so."""

    divisor: float
    prefix: str
    decimals: int = 0

    def text(self, value: float, nothing: str = "·") -> str:
        """Return a number in this scale; too small to show is `nothing`, unknown is `?`."""
        if math.isnan(value):
            return UNKNOWN
        scaled = value / self.divisor
        if round(scaled, self.decimals) == 0:
            return nothing
        return f"{scaled:.{self.decimals}f}"


def scale_of(largest: float, *, counted: bool = False) -> Scale:
    """Return the scale in which the largest value has two or three digits; counts have none."""
    if counted or math.isnan(largest) or largest <= 0:
        return Scale(1.0, "")
    step = 0
    # A little below the next thousand: 999.6 would be written as 1000.
    while largest / 1000**step >= 999.5 and step < len(PREFIXES) - 1:
        step += 1
    scaled = largest / 1000**step
    return Scale(1000.0**step, PREFIXES[step], 1 if scaled < 9.95 and step else 0)
