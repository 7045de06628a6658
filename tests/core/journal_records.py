"""Journals of runs made up by hand: what was asked, and what samples saw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

from clusters import NOON
from run_help import MB

from core.run.journal.records import Kind, Record, Sample

LIMIT = 5 * MB
SIZE = 1000 * MB
FOLLOWER = 9
"""Holds every partition before and after."""


def records(
    leaders: Sequence[int],
    to: Sequence[int],
    *,
    sizes: Sequence[int] = (),
    batches: Sequence[int] = (),
    produced: Sequence[float] = (),
    submitted: Collection[int] | None = None,
    limit: int | None = LIMIT,
    rate: int = LIMIT,
    seconds: float | None = None,
) -> list[Record]:
    """Return a run whose moves go from these leaders to these brokers.

    All sides are limited to `limit`, those `submitted` are in flight (without: all), and it was
    estimated to take so many `seconds`. A run without a limit has been given this `rate`.
    """
    count = len(leaders)
    estimate = None if seconds is None else {"seconds": seconds}
    if estimate is not None and limit is not None:
        estimate["rate_bytes_per_s"] = limit
    flying = sorted(range(count) if submitted is None else submitted)
    created = {
        "run": "0101-120000",
        "cluster_id": "c",
        "cluster_name": "prod-eu",
        "address": {"bootstrap": "b:9092", "command_config": None},
        "moves": [
            {
                "topic": "t",
                "partition": p,
                "before": [leader, FOLLOWER],
                "after": [broker, FOLLOWER],
                "topic_id": None,
                "batch": batches[p] if batches else 0,
                "produced": produced[p] if produced else 0.0,
            }
            for p, (leader, broker) in enumerate(zip(leaders, to, strict=True))
        ],
        "options": {
            "rate_bytes_per_s": rate if limit is None else limit,
            "allow": [],
            "override_rates": False,
            "batch_size": 200,
        },
        "estimate": estimate,
        "who": "ann",
        "host": "here",
    }
    preflight = {
        "sizes": list(sizes) or [SIZE] * count,
        "leaders": list(leaders),
        "min_insync": {},
        "said": [],
    }
    rates = [_rate(b, "leader", limit) for b in sorted({*leaders})]
    rates += [_rate(b, "follower", limit) for b in sorted({*to})]
    batch = {"batch": 0, "lists": [], "rates": rates, "foreign": []}
    kinds: list[tuple[Kind, dict[str, Any]]] = [
        (Kind.CREATED, created),
        (Kind.PREFLIGHT, preflight),
    ]
    if limit is not None:
        kinds += [(Kind.THROTTLE_INTENT, batch), (Kind.THROTTLE_SET, {"batch": 0})]
    if flying:
        asked = {"batch": 0, "moves": flying}
        kinds += [(Kind.SUBMITTING, asked), (Kind.SUBMITTED, asked)]
    return [Record(seq, NOON, kind, payload) for seq, (kind, payload) in enumerate(kinds, 1)]


def _rate(broker: int, side: str, limit: int | None) -> dict[str, Any]:
    config = {"prior": None, "source": "DEFAULT", "rate_bytes_per_s": limit}
    return {"broker": broker, "side": side, **config}


Course = Callable[[int], int]
"""Bytes that have come by a second."""


def samples(
    leaders: Sequence[int], *courses: Course, seconds: int = 60, down: tuple[int, ...] = ()
) -> list[Sample]:
    """Return a sample a second of moves that come like this, and have SIZE to come."""
    since = [0.0] * len(courses)
    series = []
    for second in range(seconds + 1):
        at = NOON + timedelta(seconds=second)
        entries = []
        for index, (leader, course) in enumerate(zip(leaders, courses, strict=True)):
            came = course(second)
            if second == 0 or came != course(second - 1):
                since[index] = at.timestamp()
            entries.append([index, SIZE, leader, [came], since[index]])
        series.append(Sample(at, {"moves": entries, "down": list(down)}))
    return series
