"""One batch's way in: samples are judged, those that count become partials, the bad ones are kept.

What is written here is written anew when the batch is run again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from core import files
from core.load import columns, layout
from core.pipeline import judging, windows
from core.pipeline.ledger import Batch, Ledger
from core.pipeline.publish import Publisher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Intake:
    """Takes in the batches of one cluster."""

    def __init__(self, root: Path, cluster_id: str, ledger: Ledger, publisher: Publisher) -> None:
        self._root = root
        self._cluster_id = cluster_id
        self._ledger = ledger
        self._publisher = publisher

    def take(self, rows: DataFrame, batch: Batch) -> Batch:
        """Write partials, placement and quarantine of a batch; return what was in it."""
        judged = judging.judged(
            rows,
            cluster_id=self._cluster_id,
            now=batch.began_at,
            newest=self._ledger.newest_before(batch.key),
        )
        needed = judged.select(*judging.NEEDED).persist()
        try:
            return self._take(judged, needed, batch)
        finally:
            needed.unpersist()

    def _take(self, judged: DataFrame, needed: DataFrame, batch: Batch) -> Batch:
        # `needed` are the columns of `judged` that are read more than once.
        lines = judging.tally(needed).collect()
        fine = [line for line in lines if line.reason is None]
        polls = {(line.collector_id, line.poll_id) for line in fine}
        seen = self._ledger.seen(batch.key, polls)
        counted = [line for line in fine if (line.collector_id, line.poll_id) not in seen]
        quarantined: dict[str, int] = {}
        for line in lines:
            if line.reason is not None:
                quarantined[line.reason] = quarantined.get(line.reason, 0) + line.rows
        rows = judging.accepted(needed, sorted(seen)).persist()
        try:
            self._publisher.write_partial(batch.key, rows)
            accepted = rows.count()
            newest = max((_moment(line.newest) for line in counted), default=None)
            self._place(rows, counted)
        finally:
            rows.unpersist()
        self._quarantine(judged, batch.key, quarantined)
        fine_rows = sum(line.rows for line in fine)
        return replace(
            batch,
            complete=True,
            read=sum(line.rows for line in lines),
            accepted=accepted,
            duplicate=fine_rows - accepted,
            late=sum(line.late for line in counted),
            quarantined=quarantined,
            newest=newest,
            windows=tuple(sorted({_moment(line.window_start) for line in counted})),
            polls=tuple(sorted(polls - seen)),
            files=tuple(sorted({line.file for line in lines})),
        )

    def _place(self, rows: DataFrame, counted: list[Any]) -> None:
        """Remember who held what in the newest poll of each window of a batch."""
        seen: dict[int, int] = {}
        for line in counted:
            seen[line.window_start] = max(seen.get(line.window_start, 0), line.newest)
        if not seen:
            return
        table = windows.placement(rows, sorted(seen.values())).toArrow()
        at = columns.to_numpy(table["at"])
        for start, newest in sorted(seen.items()):
            mine = columns.numbers(np.flatnonzero(at == newest), pa.int64())
            self._publisher.place(_moment(start), _moment(newest), table.take(mine))

    def _quarantine(self, judged: DataFrame, key: str, reasons: dict[str, int]) -> None:
        folder = layout.quarantine(self._root, self._cluster_id) / "rows" / f"b={key}"
        if not reasons:
            return
        bad = judged.where("reason IS NOT NULL").drop("window_start", "late")
        bad.coalesce(1).write.mode("overwrite").parquet(str(folder))
        note = {"reason": "rows", "rows": reasons}
        files.write_text(folder / "_rows.reason.json", json.dumps(note) + "\n")


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
