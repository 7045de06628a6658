"""Who held what: the newest poll's placement of each window that may still change.

A window's broker totals are counted with the placement that its own last poll saw, however late
it is merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core import files
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Float64
from core.load.snapshot.format import BrokerLoad
from core.load.snapshot.manifest import broker_loads

_NAME = "placement-%Y%m%dT%H%M.parquet"


@dataclass(frozen=True, eq=False)
class Placement:
    """One poll's replicas and their sizes by partition, as `core.pipeline.windows.placement`."""

    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def rows_of(self, table: Any) -> Any:
        """Return for each row of `table` its row here, -1 for what nobody holds."""
        ids = pc.unique(self.table["topic_id"])
        mine = _keys(self.table, ids)
        order = np.argsort(mine, kind="stable")
        wanted = _keys(table, ids)
        if len(order) == 0:
            return np.full(len(wanted), -1, np.int64)
        found = np.minimum(np.searchsorted(mine[order], wanted), len(order) - 1)
        rows = order[found]
        return np.where(mine[rows] == wanted, rows, -1)

    def laid(self, column: Float64, at: Any) -> Float64:
        """Return `column` in the order of rows here, NaN where `at` names none."""
        out = np.full(len(self), np.nan)
        out[at] = column
        return out

    def brokers(self, inward: Float64, outward: Float64) -> tuple[BrokerLoad, ...]:
        """Return the brokers' totals, given each partition's rates in the order of rows here."""
        start, sizes = columns.to_lists(self.table["sizes"])
        _, replicas = columns.to_lists(self.table["replicas"])
        return broker_loads(
            leader=columns.to_numpy(self.table["leader"]),
            replica_start=start,
            replica_broker=replicas,
            replica_size=sizes,
            in_bytes_per_s=inward,
            out_bytes_per_s=outward,
        )


class Placements:
    """The placements of one cluster on disk, one a window."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._folder = layout.partials(root, cluster_id)
        self._last: tuple[Path, Placement] | None = None
        """What was put or looked up last: the newest, nearly always."""

    def put(self, start: datetime, at: datetime, table: Any) -> None:
        """Keep what was seen at `at` in the window of `start`, unless a later poll is kept."""
        path = self._path(start)
        if path.exists() and _seen_at(path) > at:
            return
        marked = table.replace_schema_metadata({"at": at.isoformat()})
        files.write_whole(path, lambda aside: pq.write_table(marked, aside))
        self._last = path, Placement(marked)

    def newest(self, until: datetime) -> Placement | None:
        """Return the placement of the newest window that began by then; None before the first."""
        kept = [path for path in self._kept() if path.name <= self._path(until).name]
        return self._read(kept[-1]) if kept else None

    def of(self, start: datetime) -> Placement | None:
        """Return the placement of a window; the newest for one that is no longer kept."""
        path = self._path(start)
        if not path.exists():
            kept = self._kept()
            return self._read(kept[-1]) if kept else None
        return self._read(path)

    def retire(self, oldest: datetime) -> None:
        """Delete those of windows before `oldest`, but for the newest."""
        for path in self._kept()[:-1]:
            if path.name < self._path(oldest).name:
                path.unlink(missing_ok=True)

    def _read(self, path: Path) -> Placement:
        if self._last is None or self._last[0] != path:
            self._last = path, Placement(pq.ParquetFile(path).read())
        return self._last[1]

    def _path(self, start: datetime) -> Path:
        return self._folder / start.astimezone(UTC).strftime(_NAME)

    def _kept(self) -> list[Path]:
        return sorted(self._folder.glob("placement-*.parquet"))


def _seen_at(path: Path) -> datetime:
    return datetime.fromisoformat(pq.ParquetFile(path).schema_arrow.metadata[b"at"].decode())


def _keys(table: Any, ids: Any) -> Any:
    topic = columns.to_numpy(pc.index_in(table["topic_id"], value_set=ids)).astype(np.int64)
    return np.where(topic < 0, -1, (topic << 32) | columns.to_numpy(table["partition"]))
