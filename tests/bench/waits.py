"""Waits of one kind, summed up."""

from __future__ import annotations

import math
from statistics import median


def p95(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def measured(seconds: list[float]) -> dict[str, float]:
    return {
        "changes": len(seconds),
        "median": round(median(seconds), 2),
        "p95": round(p95(seconds), 2),
        "worst": round(max(seconds), 2),
    }
