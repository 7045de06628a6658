"""Which sides hold a run up: the others gain nothing by being faster. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from core.run.limits.inflow import Key

NEAR_SHARE = 0.8
"""A side that needs less than this of the longest time left ends early enough as it is."""


def holding_up(
    rates_bytes_per_s: Mapping[Key, int], left_bytes: Mapping[Key, float | None]
) -> frozenset[Key]:
    """Return the sides that need the longest time at their rates for what they have left.

    One of which that is not known may be among them, and is not left out.
    """
    seconds = {
        key: left / rate if rate > 0 else 0.0
        for key, rate in rates_bytes_per_s.items()
        if (left := left_bytes.get(key)) is not None
    }
    longest = max(seconds.values(), default=0.0)
    return frozenset(
        key
        for key in rates_bytes_per_s
        if key not in seconds or seconds[key] >= NEAR_SHARE * longest
    )
