"""A host's clock was ahead and is put right: what the pipeline says is of now again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from core.load.windows import window_floor
from core.pipeline.closing import Windows
from core.pipeline.horizons import Horizons
from core.pipeline.hours import Hours
from core.pipeline.memory import Batch, Sums
from core.pipeline.placement import Placements
from core.pipeline.rates import MEASURES

NOW = datetime(2026, 3, 1, 12, 2, tzinfo=UTC)
AHEAD = NOW + timedelta(hours=2)


def polled(leader: int) -> Any:
    """Return who holds the one partition."""
    return pa.table(
        {
            "topic_id": ["t"],
            "partition": pa.array([0], pa.int32()),
            "topic": ["orders"],
            "leader": pa.array([leader], pa.int32()),
        }
    )


def leader(found: Any) -> int:
    return int(found.table["leader"][0].as_py())


def test_the_newest_placement_is_the_one_of_now(tmp_path: Path) -> None:
    placements = Placements(tmp_path, "c")
    assert placements.newest(NOW) is None
    placements.put(window_floor(AHEAD), AHEAD, polled(1))
    assert leader(placements.newest(AHEAD)) == 1
    assert placements.newest(NOW) is None
    placements.put(window_floor(NOW), NOW, polled(2))
    for known in (placements, Placements(tmp_path, "c")):
        assert leader(known.newest(NOW)) == 2
        assert leader(known.newest(AHEAD)) == 1
        assert leader(known.of(window_floor(NOW))) == 2
        assert leader(known.of(window_floor(AHEAD))) == 1
    earlier = window_floor(NOW) - timedelta(hours=1)
    placements.put(earlier, earlier, polled(3))
    assert leader(placements.newest(NOW)) == 2
    placements.retire(window_floor(NOW))
    assert leader(placements.newest(NOW)) == 2
    assert placements.newest(earlier + timedelta(minutes=1)) is None


def test_an_hour_and_a_day_leave_out_the_windows_of_a_clock_that_was_ahead(tmp_path: Path) -> None:
    windows = Windows(None, tmp_path, "c", Placements(tmp_path, "c"))
    rows = windows.keys.rows_of(polled(1))
    for at, amount in ((NOW, 10_000.0), (AHEAD, 990_000.0)):
        sample = Batch(
            at=np.array([round(at.timestamp() * 1000)]),
            dt_ms=np.array([10_000.0]),
            values=np.full((len(MEASURES), 1), amount),
            method=np.array([2], np.int8),
            leader=np.array([1]),
            size=np.array([1]),
        )
        windows.open.setdefault(window_floor(at), Sums()).add(rows, sample, 1)
        windows.recent.add(rows, sample, 1)
    hours = Hours(None, tmp_path, "c")
    horizons = Horizons(None, tmp_path, "c", hours, windows)
    said = horizons.statistics(NOW)
    for horizon in ("5m", "1h", "24h"):
        assert said[horizon].rates["in_bytes_per_s", "avg"] == pytest.approx([1000.0]), horizon
