"""What is said of rates, on arrays: one row a partition; the same as `rates` says of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from core.load.load import Float64
from core.load.snapshot.format import Quality
from core.load.windows import LENGTH
from core.pipeline.rates import PERCENTILE

LENGTH_MS = LENGTH.total_seconds() * 1000.0


def average(total: Float64, ms: Float64) -> Float64:
    """Return an amount over its time, per second; NaN over none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Float64 = np.where(ms > 0, total * 1000.0 / ms, np.nan)
    return out


def descending(values: Float64) -> Float64:
    """Return each row's values from the largest down, NaN last."""
    return -np.sort(-values, axis=1)


def percentile(largest: Float64, n: Any) -> Float64:
    """Return each row's exact 95th percentile of `n` values, interpolated; NaN of none.

    `largest` are as many of them as it takes, in descending order.
    """
    if largest.shape[1] == 0:
        return np.full(len(largest), np.nan)
    at = (n - 1) * PERCENTILE
    low = np.floor(at)
    index = np.maximum(n - 1 - low, 0).astype(np.intp)
    rows = np.arange(len(largest))
    below = largest[rows, index]
    above = np.where(index > 0, largest[rows, index - 1], below)
    out: Float64 = np.where(n > 0, below + (above - below) * (at - low), np.nan)
    return out


def quality(n: Any, covered_ms: Float64, inside_ms: Float64) -> npt.NDArray[np.int8]:
    """Return `core.load.snapshot.format.Quality` of one window's length for each row."""

    def at_least(share: float) -> npt.NDArray[np.bool_]:
        enough: npt.NDArray[np.bool_] = (inside_ms >= share * LENGTH_MS) & (
            inside_ms >= share * covered_ms
        )
        return enough

    return np.select(
        [n == 0, at_least(0.9), at_least(0.5), covered_ms >= 0.9 * LENGTH_MS],
        [Quality.NONE, Quality.FULL, Quality.HALF, Quality.ADJACENT],
        Quality.SINGLE,
    ).astype(np.int8)
