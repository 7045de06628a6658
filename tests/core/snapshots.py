"""A small snapshot with everything in it that one can hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from core.load.load import Source
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, BrokerLoad, Counts, LoadSnapshot

AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def make_snapshot(snapshot_id: str = "0001-00000001", **changes: object) -> LoadSnapshot:
    n = 4
    rates = {
        (horizon, rate, statistic): np.arange(n, dtype=np.float64) * 10 + i
        for i, (horizon, rate, statistic) in enumerate(
            (h, r, s) for h in HORIZONS for r in RATES for s in STATISTICS
        )
    }
    rates["5m", "out_bytes_per_s", "avg"] = np.array([1.0, np.nan, 3.0, 4.0])
    snapshot = LoadSnapshot(
        cluster_id="abc-DEF_1",
        snapshot_id=snapshot_id,
        source=Source.SPARK,
        published_at=AT + timedelta(seconds=2),
        window_end=AT,
        topics=("clicks", "örders"),
        topic_of=np.array([0, 0, 1, 1], np.int32),
        partition=np.array([0, 1, 0, 1], np.int32),
        rates=rates,
        size_bytes=np.array([10, -1, 30, 40], np.int64),
        growth_bytes_per_s=np.array([0.5, np.nan, -1.0, 2.0]),
        quality=np.array([0, 1, 3, 4], np.int8),
        method=np.array([2, 2, 3, 0], np.int8),
        brokers=(
            BrokerLoad(1, 30.0, 10.0, 5.0, 80, 3, 4),
            BrokerLoad(2, 10.0, None, 0.0, None, 1, 4),
        ),
        counts=Counts(10, 7, 1, 2, {"negative": 2}),
        metadata_hash="feed",
        leader=np.array([1, 1, 1, 2], np.int32),
    )
    return replace(snapshot, **changes)  # type: ignore[arg-type]
