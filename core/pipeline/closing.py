"""The windows of one cluster: open in memory while samples come, compacted by Spark when closed.

A window on disk is what Spark has compacted, if it has been, and the partials of batches that it
does not name yet. Of an open window a file is there too, for charts: it names no batches, and is
written from memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core import files
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.snapshot.format import BrokerLoad
from core.load.windows import (
    LENGTH,
    SAMPLES,
    read_metadata,
    window_floor,
    write_brokers,
    write_rows,
)
from core.pipeline import figures, windows
from core.pipeline.memory import Batch as Arrays
from core.pipeline.memory import Keys, Recent, Sums
from core.pipeline.placement import Placements
from core.pipeline.quarantine import CLOSED_AFTER
from core.pipeline.rates import MEASURES
from core.pipeline.samples import Int64, taken, window_starts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.pipeline.ledger import Batch

ROOM = 1000
"""How many partitions more than twice those of its beginning are remembered before it forgets."""
BATCHES = "batches"
"""The note of a compacted window that names the batches in it."""


class Windows:
    """Owns partials and window files; `open` are the sums of windows not compacted."""

    def __init__(
        self, spark: SparkSession, root: Path, cluster_id: str, placements: Placements
    ) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._placements = placements
        self._forget()

    def _forget(self) -> None:
        self._began_with: int | None = None
        self.keys = Keys()
        self.recent = Recent()
        self.open: dict[datetime, Sums] = {}
        self._pending: dict[datetime, set[str]] = {}

    def bloated(self) -> bool:
        """Return whether most partitions that are remembered are long gone."""
        return self._began_with is not None and len(self.keys) > 2 * self._began_with + ROOM

    # -- partials ----------------------------------------------------------------------------------

    def partial_file(self, key: str) -> Path:
        return layout.partials(self._root, self._cluster_id) / f"b={key}.parquet"

    def partials(self) -> list[str]:
        """Return the keys of the batches whose partials are kept, sorted."""
        folder = layout.partials(self._root, self._cluster_id)
        return sorted(path.stem.removeprefix("b=") for path in folder.glob("b=*.parquet"))

    def write_partial(self, key: str, rows: Any) -> None:
        """Write a batch's leader samples that count; the same batch run again overwrites them."""
        led = np.flatnonzero(columns.to_numpy(rows["is_leader"]))
        table = taken(rows.select(windows.SAMPLE_COLUMNS), led)
        files.write_whole(self.partial_file(key), lambda aside: pq.write_table(table, aside))

    def drop_partial(self, key: str) -> None:
        """Delete the partial of a batch that no window lacks, or that was never complete."""
        self.partial_file(key).unlink(missing_ok=True)

    # -- what comes in -----------------------------------------------------------------------------

    def restore(self, batches: Iterable[Batch], newest: datetime | None) -> None:
        """Begin anew with what is on disk; `batches` are the complete ones that have partials."""
        self._forget()
        if newest is None:
            return
        for start in (window_floor(newest) - LENGTH, window_floor(newest)):
            if self._batches_in(start):
                self._recall(start)
        for batch in batches:
            self._take_in(batch, newest)
        self._compact(
            start for start in self._pending if closed(start, newest) or self._batches_in(start)
        )

    def merge(self, batch: Batch, newest: datetime) -> bool:
        """Take a batch into its windows, once; return whether it changed closed ones."""
        self._take_in(batch, newest)
        late = [
            start
            for start in batch.windows
            if start in self._pending and (closed(start, newest) or self._batches_in(start))
        ]
        self._compact(late)
        return bool(late)

    def settle(self, batch: Batch, newest: datetime) -> None:
        """Compact the windows that have closed, and write what is known of a batch's open ones."""
        self._compact(start for start in self._pending if closed(start, newest))
        for start in batch.windows:
            if start in self.open:
                self._write_open(start)
        if self._began_with is None:
            self._began_with = len(self.keys)
        cut = _ms(newest - LENGTH)
        self.recent.forget(min([cut, *map(_ms, self.open)]))

    def _take_in(self, batch: Batch, newest: datetime) -> None:
        due = [
            start
            for start in batch.windows
            if batch.key not in self._pending.get(start, ())
            and batch.key not in self._batches_in(start)
        ]
        if not due:
            if not any(batch.key in keys for keys in self._pending.values()):
                self.drop_partial(batch.key)
            return
        table = pq.ParquetFile(self.partial_file(batch.key)).read()
        rows = self.keys.rows_of(table)
        starts = window_starts(columns.to_numpy(table["ts"]))
        arrays = Arrays.of(table)
        for start in due:
            here = np.flatnonzero(starts == _ms(start) * 1000)
            some = arrays if len(here) == len(table) else arrays.taken(here)
            self._pending.setdefault(start, set()).add(batch.key)
            self.open.setdefault(start, Sums()).add(rows[here], some, len(self.keys))
            if start >= window_floor(newest) - LENGTH:
                self.recent.add(rows[here], some, len(self.keys))

    def _recall(self, start: datetime) -> None:
        """Remember the samples of a compacted window."""
        file = pq.ParquetFile(self._file(start))
        if SAMPLES not in file.schema_arrow.names:
            return
        table = file.read(columns=["topic_id", "partition", "method_worst", "samples"])
        samples = table[SAMPLES].combine_chunks()
        count = np.diff(samples.offsets.to_numpy())
        each = samples.flatten()
        unknown: Int64 = np.full(len(each), -1, np.int64)
        arrays = Arrays(
            at=columns.to_numpy(each.field("at")),
            dt_ms=columns.to_numpy(each.field("dt_ms")).astype(np.float64),
            values=np.stack([columns.to_numpy(each.field(rate)) for rate in MEASURES]),
            method=np.repeat(columns.to_numpy(table["method_worst"]), count),
            leader=unknown,
            size=unknown,
        )
        rows = np.repeat(self.keys.rows_of(table), count)
        self.recent.add(rows, arrays, len(self.keys))

    # -- what is written ---------------------------------------------------------------------------

    def _compact(self, starts: Iterable[datetime]) -> None:
        """Merge the partials of windows into their files, those of the same batches in one job."""
        together: dict[frozenset[str], list[datetime]] = {}
        for start in sorted(starts):
            together.setdefault(frozenset(self._pending[start]), []).append(start)
        for batches, some in together.items():
            self._compact_together(some, batches)
            for start in some:
                del self._pending[start]
                self.open.pop(start, None)
            for key in batches:
                if not any(key in keys for keys in self._pending.values()):
                    self.drop_partial(key)

    def _compact_together(self, starts: Collection[datetime], batches: Collection[str]) -> None:
        merged = {start: self._batches_in(start) for start in starts}
        read = self._spark.read
        samples = read.schema(windows.SAMPLE_SCHEMA).parquet(
            *(str(self.partial_file(key)) for key in sorted(batches))
        )
        rows = windows.partial(samples).where(F.col("window_start").isin(list(starts)))
        before = [str(self._file(start)) for start, keys in merged.items() if keys]
        if before:
            rows = windows.merge(rows.unionByName(read.schema(rows.schema).parquet(*before)))
        table = windows.finished(rows).toArrow()
        found = columns.to_numpy(table["window_start"])
        for start, keys in merged.items():
            part = taken(table, np.flatnonzero(found == _ms(start) * 1000))
            # Rows last: their notes say that the batch is in, and the brokers' totals are by then.
            write_brokers(self._root, self._cluster_id, start, self._brokers(start, part))
            notes = {BATCHES: ",".join(sorted({*keys, *batches}))}
            write_rows(self._root, self._cluster_id, start, part, notes)

    def _write_open(self, start: datetime) -> None:
        sums, count = self.open[start], len(self.keys)
        sums.grow(count)
        since = _ms(start)
        said = self.recent.between(since, since + _ms_of_window(), count, begins_ms=since)
        here = np.flatnonzero(sums.polls > 0)
        table = pa.table(_columns(self.keys.columns(here), start, sums, said, here))
        write_brokers(self._root, self._cluster_id, start, self._brokers(start, table))
        write_rows(self._root, self._cluster_id, start, table, {})

    def _file(self, start: datetime) -> Path:
        return layout.window_file(self._root, self._cluster_id, start)

    def _batches_in(self, start: datetime) -> frozenset[str]:
        """Return which batches have been compacted into a window; none: it is open or not there."""
        path = self._file(start)
        if not path.exists():
            return frozenset()
        return frozenset(read_metadata(path).get(BATCHES, "").split(",")) - {""}

    def _brokers(self, start: datetime, table: Any) -> tuple[BrokerLoad, ...]:
        """Return the brokers' totals in a window, with replicas where its last poll saw them."""
        placement = self._placements.of(start)
        if placement is None:
            return ()
        at = placement.rows_of(table)
        here = at >= 0
        return placement.brokers(
            *(
                placement.laid(columns.to_numpy(table[f"{rate}_avg"])[here], at[here])
                for rate in ("in_bytes_per_s", "out_bytes_per_s")
            )
        )


def closed(start: datetime, newest: datetime) -> bool:
    """Return whether what comes now for a window is late."""
    return start + LENGTH + CLOSED_AFTER <= newest


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _ms_of_window() -> int:
    return round(LENGTH.total_seconds() * 1000)


def _columns(
    columns_of: dict[str, Any], start: datetime, sums: Sums, said: Any, here: Int64
) -> dict[str, Any]:
    """Return the columns that readers of windows want, of rows `here`."""
    whole, real = pa.int64(), pa.float64()
    out = {
        **columns_of,
        "window_start": columns.number_array(
            np.full(len(here), _ms(start) * 1000), pa.timestamp("us", "UTC")
        ),
        "polls": columns.number_array(sums.polls[here], whole),
        "n": columns.number_array(sums.n[here], whole),
        "covered_ms": columns.number_array(sums.covered_ms[here], whole),
        "method_worst": columns.number_array(sums.method[here], pa.int8()),
        "leader_last": columns.number_array(sums.leader[here], pa.int32()),
        "size_last": columns.number_array(sums.size[here], whole),
        "quality": columns.number_array(said.quality[here], pa.int8()),
    }
    for i, rate in enumerate(MEASURES):
        total, ms = sums.total[i][here], sums.ms[i][here]
        known = ms > 0
        out[f"{rate}_sum"] = columns.number_array(total, real, known)
        out[f"{rate}_ms"] = columns.number_array(ms, whole, known)
        figures_of = {
            "max": sums.largest[i][here],
            "avg": figures.average(total, ms),
            "p95": said.rates[rate, "p95"][here],
        }
        for what, values in figures_of.items():
            out[f"{rate}_{what}"] = columns.number_array(values, real, ~np.isnan(values))
    return out
