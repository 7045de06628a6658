"""One batch's way in: samples are judged, those that count become a partial, the bad ones are kept.

Spark reads and judges; what counts comes to the driver in one go. What is written here is written
anew when the batch is run again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from core import files
from core.load import arrow as columns
from core.load import load_paths as layout
from core.pipeline import quarantine, samples
from core.pipeline.ledger import Batch, Ledger
from core.pipeline.publish import Publisher
from core.pipeline.quarantine import CLOSED_AFTER
from core.pipeline.rates import MEASURES
from core.pipeline.source import read_samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Intake:
    """Takes in the batches of one cluster."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        cluster_id: str,
        ledger: Ledger,
        publisher: Publisher,
    ) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._ledger = ledger
        self._publisher = publisher

    def take(self, segments: Sequence[Path], batch: Batch) -> Batch:
        """Write partial, placement and quarantine of a batch; return what was in it."""
        newest = self._ledger.newest_before(batch.key, batch.began_at)
        judged = quarantine.judged(
            read_samples(self._spark, segments),
            cluster_id=self._cluster_id,
            now=batch.began_at,
            newest=newest,
        )
        measures = (F.col(c).cast("double").alias(c) for c in MEASURES.values())
        fine, quarantined = samples.split(judged.select(*quarantine.NEEDED, *measures).toArrow())
        seen = self._ledger.seen(batch.key, fine.polls)
        rows = fine.accepted(seen)
        ts = columns.to_numpy(rows["ts"])
        starts = samples.window_starts(ts)
        self._publisher.write_partial(batch.key, rows)
        found = np.unique(starts)
        for start in found.tolist():
            at = int(ts[starts == start].max())
            self._publisher.place(_moment(start), _moment(at), samples.placement(rows, at))
        self._quarantine(judged, batch.key, quarantined)
        late = 0
        if newest is not None:
            closed = newest - CLOSED_AFTER
            late = int(np.count_nonzero(starts + samples.LENGTH_MICROS < (closed - EPOCH) // MICRO))
        return replace(
            batch,
            complete=True,
            read=len(fine.table) + sum(quarantined.values()),
            accepted=len(rows),
            duplicate=len(fine.table) - len(rows),
            late=late,
            quarantined=quarantined,
            newest=_moment(int(ts.max())) if len(rows) else None,
            windows=tuple(_moment(start) for start in found.tolist()),
            polls=tuple(sorted(set(fine.polls) - seen)),
            files=tuple(sorted(path.as_uri() for path in segments)),
        )

    def _quarantine(self, judged: DataFrame, key: str, reasons: dict[str, int]) -> None:
        folder = layout.quarantine(self._root, self._cluster_id) / "rows" / f"b={key}"
        if not reasons:
            return
        bad = judged.where("reason IS NOT NULL")
        bad.coalesce(1).write.mode("overwrite").parquet(str(folder))
        note = {"reason": "rows", "rows": reasons}
        files.write_text(folder / "_rows.reason.json", json.dumps(note) + "\n")


MICRO = timedelta(microseconds=1)


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
