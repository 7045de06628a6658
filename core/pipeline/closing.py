"""Windows in a batch: those it comes late for, those that close with it, and what they complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import DAY_MICROS, HOUR_MICROS, WINDOW_MICROS, floor_micros, to_micros
from core.pipeline import samples, tables, windows
from core.pipeline.clusters import Cluster, without_retired
from core.pipeline.ledger import Carried, Part
from core.pipeline.publish import check, write_windows
from core.pipeline.rates import KEY
from core.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNCHANGING_AFTER = to_micros(samples.TOO_LATE_AFTER) + WINDOW_MICROS
"""After how long no sample comes for a window that starts then."""


class Closing:
    """Counts late samples, and closes and rolls up windows, in the tables of one job.

    Their files, for charts, go below `root`; `alone` is as in `core.pipeline.publish.check`.
    """

    def __init__(self, root: Path, parts: Tables, *, alone: bool) -> None:
        self._root = root
        self._tables = parts
        self._alone = alone

    def count_late(
        self, of_batch: DataFrame, key: str, clusters: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Count samples in windows that had closed, and write those windows anew."""
        pairs = [(c, start) for c, of in clusters.items() for start in of.late]
        changed = self._tables.of_windows(pairs)
        first, last = min(s for _, s in pairs), max(s for _, s in pairs)
        name = f"{key}-late"
        late = windows.late_samples(of_batch, changed)
        self._tables.write(tables.WINDOWS, name, windows.as_windows(late))
        part = Part(name, first, last, late=True)
        parts = [p.name for p in (*after.windows, part) if p.last >= first and p.first <= last]
        whole = windows.whole_windows(
            self._tables.read(tables.WINDOWS, parts, windows.WINDOW), changed
        )
        check(write_windows(whole, self._root), alone=self._alone)
        return replace(after, windows=(*after.windows, part))

    def close(
        self, key: str, began_at: datetime, clusters: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Write the windows that close, and roll up what they complete."""
        pairs = [(c, start) for c, of in clusters.items() for start in of.closing]
        closed = windows.closed_windows(self._tables.state(after), self._tables.of_windows(pairs))
        self._tables.write(tables.WINDOWS, key, closed)
        rows = self._tables.read(tables.WINDOWS, [key], windows.WINDOW)
        check(write_windows(rows, self._root), alone=self._alone)
        part = Part(key, min(s for _, s in pairs), max(s for _, s in pairs))
        after = replace(after, windows=(*after.windows, part))
        closing = {c: of for c, of in clusters.items() if of.closing}
        before = after.clusters
        after, day = self._roll_up_day(key, closing, after)
        until = [after.clusters[c].open_at for c in closing]
        hour = windows.hour_figures(
            self._windows(after.windows, closing, [at - HOUR_MICROS for at in until], until)
        )
        has_day = [int(after.clusters[c].day_at > before[c].day_at) for c in closing]
        of_closing = F.broadcast(self._tables.of_clusters(closing, has_day=has_day))
        partitions = self._tables.state(after).select(*KEY).join(of_closing, "cluster")
        rolled = windows.horizons(partitions, hour, day)
        self._tables.write(tables.HORIZONS, key, rolled)
        return without_retired(replace(after, horizons=key), began_at)

    def _roll_up_day(
        self, key: str, closing: Iterable[str], after: Carried
    ) -> tuple[Carried, DataFrame | None]:
        """Return the figures of a day of clusters that an hour is over of, and roll up hours."""
        due = {
            c: state
            for c in closing
            if floor_micros((state := after.clusters[c]).open_at, HOUR_MICROS) > state.day_at
        }
        if not due:
            return after, None
        until = [floor_micros(state.open_at, HOUR_MICROS) for state in due.values()]
        # What is this old does not change any more.
        settled = [
            max(
                state.rolled_at,
                floor_micros((state.newest_at or 0) - UNCHANGING_AFTER, HOUR_MICROS),
            )
            for state in due.values()
        ]
        rolled = [
            max(state.rolled_at, at - DAY_MICROS)
            for state, at in zip(due.values(), until, strict=True)
        ]
        hours = windows.hours_of(self._windows(after.windows, due, rolled, until))
        before = [part for part in after.hours if part.last >= min(until) - DAY_MICROS]
        older = self._tables.read(tables.HOURS, [p.name for p in before], windows.HOUR).join(
            F.broadcast(
                self._tables.of_clusters(
                    due, from_at=[at - DAY_MICROS for at in until], until_at=rolled
                )
            ),
            "cluster",
        )
        within = (F.col("hour") >= F.col("from_at")) & (F.col("hour") < F.col("until_at"))
        older = older.where(within).drop("from_at", "until_at")
        if settled != rolled:
            new = hours.join(
                F.broadcast(self._tables.of_clusters(due, until_at=settled)), "cluster"
            )
            new = new.where(F.col("hour") < F.col("until_at")).drop("until_at")
            self._tables.write(tables.HOURS, key, new)
            part = Part(key, min(rolled), max(settled) - HOUR_MICROS)
            after = replace(after, hours=(*after.hours, part))
        states = {
            c: replace(state, rolled_at=rolled_at, day_at=day_at)
            for (c, state), rolled_at, day_at in zip(due.items(), settled, until, strict=True)
        }
        after = replace(after, clusters={**after.clusters, **states})
        return after, windows.day_figures(older.unionByName(hours))

    def _windows(
        self,
        parts: Sequence[Part],
        clusters: Iterable[str],
        since: Sequence[int],
        until: Sequence[int],
    ) -> DataFrame:
        """Return the closed windows of some clusters that start in [since, until) of each."""
        parts_in_range = [
            part for part in parts if part.last >= min(since) and part.first < max(until)
        ]
        rows = self._tables.read(
            tables.WINDOWS, [part.name for part in parts_in_range], windows.WINDOW
        )
        bounds = self._tables.of_clusters(clusters, from_at=since, until_at=until)
        here = rows.join(F.broadcast(bounds), "cluster").where(
            (F.col("start") >= F.col("from_at")) & (F.col("start") < F.col("until_at"))
        )
        return windows.one_a_window(here) if any(part.late for part in parts_in_range) else here
