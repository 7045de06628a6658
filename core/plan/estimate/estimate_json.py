"""The document of `trimtab estimate --json`; a run's journal keeps what it says of the time."""

from __future__ import annotations

from typing import Any

from core.plan.estimate.estimate import Estimate
from core.plan.estimate.plan_over_time import PeakUsage, PlanTimeline


def format_estimate(estimate: Estimate) -> dict[str, Any]:
    """Return what `trimtab estimate --json` says of the time."""
    limit = estimate.limit
    return {
        "seconds": _round_seconds(estimate.seconds),
        "range_seconds": _range(estimate.range_seconds),
        "never": estimate.never,
        "note": estimate.note or None,
        "rate_bytes_per_s": estimate.rate_bytes_per_s,
        "recommended_bytes_per_s": estimate.recommended_bytes_per_s,
        "total_bytes": estimate.total_bytes,
        "calibration": format_calibration(estimate),
        "limit": None if limit is None else {"broker": limit.broker, "side": limit.side.value},
        "rows": [
            {
                "broker": row.broker,
                "side": row.side.value,
                "bytes": None if row.sizes_unknown else row.bytes,
                "background_bytes_per_s": None if row.rates_unknown else row.background_bytes_per_s,
                "required_bytes_per_s": None
                if row.sizes_unknown or row.rates_unknown
                else row.required_bytes_per_s,
                "limit_bytes_per_s": estimate.limit_of(row.broker, row.side),
                "seconds": _round_seconds(row.seconds),
            }
            for row in estimate.rows
        ],
    }


def format_peak_usage(usage: PeakUsage) -> dict[str, Any]:
    """Return what brokers bear meanwhile: who comes near its capacity, and extra disk."""
    near = usage.near_capacity
    return {
        "near_capacity": None
        if near is None
        else {
            "broker": near.broker,
            "side": near.side.value,
            "fraction": round(near.fraction, 4),
        },
        "peak_extra": [
            {"broker": disk.broker, "bytes": disk.bytes, "seconds": _round_seconds(disk.at_seconds)}
            for disk in usage.extra
        ],
    }


def format_timeline(timeline: PlanTimeline | None) -> dict[str, Any] | None:
    """Return brokers' sides and disks over time, worst first; None where it was not simulated."""
    if timeline is None:
        return None
    return {
        "batches_seconds": [round(at, 1) for at in timeline.batches],
        "lanes": [
            {
                "broker": lane.broker,
                "side": lane.side.value,
                "ends_seconds": round(lane.ends, 1),
                "besides_bytes_per_s": lane.besides_bytes_per_s,
                "capacity_bytes_per_s": lane.capacity_bytes_per_s,
                "most_fraction": None if lane.max_fraction is None else round(lane.max_fraction, 4),
                "steps": [
                    {
                        "from_seconds": round(step.start, 3),
                        "to_seconds": round(step.end, 3),
                        "bytes_per_s": round(step.bytes_per_s, 1),
                        "near_capacity": lane.is_near(step.bytes_per_s),
                    }
                    for step in lane.steps
                ],
            }
            for lane in timeline.lanes
        ],
        "disks": [
            {
                "broker": disk.broker,
                "used_bytes": disk.used_bytes,
                "whole_bytes": disk.whole_bytes,
                "most_fraction": None if disk.max_fraction is None else round(disk.max_fraction, 4),
                "points": [
                    {"seconds": round(held.at_seconds, 3), "more_bytes": held.bytes}
                    for held in disk.course
                ],
            }
            for disk in timeline.disks
        ],
    }


def format_calibration(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return what earlier runs did to an estimate; None where they did nothing."""
    calibrated = estimate.calibration if estimate is not None else None
    if calibrated is None:
        return None
    return {
        "runs": calibrated.runs,
        "factor": None if calibrated.factor is None else round(calibrated.factor, 4),
        "uncalibrated_seconds": _round_seconds(calibrated.seconds),
        "uncalibrated_range_seconds": _range(calibrated.range_seconds),
    }


def _range(seconds: tuple[float, float] | None) -> list[float | None] | None:
    return None if seconds is None else [_round_seconds(second) for second in seconds]


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
