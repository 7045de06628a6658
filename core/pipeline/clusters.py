"""What a batch means for each cluster: which of its polls count, which windows close; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from core.load.samples import (
    DAY_MICROS,
    HOUR_MICROS,
    WINDOW_MICROS,
    floor_micros,
    from_micros,
    latest_sample_time,
    to_micros,
)
from core.load.snapshot.format import Counts
from core.pipeline.ledger import Carried, ClusterState, poll_series

if TYPE_CHECKING:
    from pyspark.sql import Row

PollPart = tuple[str, str, int, int, str]
"""Cluster, collector, id of the poll, number of the part, and the unit that has it."""
RETIRED_AFTER = to_micros(timedelta(hours=25))
"""After how long without samples a cluster's windows are no longer kept for its return."""
FORGOTTEN_AFTER = 3 * DAY_MICROS
"""After how long without samples nothing is known of a cluster; samples are kept for less."""


@dataclass(slots=True)
class Cluster:
    """One cluster in a batch: what came of it, and what is known of it then."""

    known: ClusterState
    counts: Counts = field(default_factory=Counts)
    polls: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The polls that are counted, by `ledger.poll_series`."""
    starts: set[int] = field(default_factory=set)
    """When the windows of its samples start."""
    newest_at: int = 0
    whole_at: int = 0
    late: tuple[int, ...] = ()
    """Closed windows that samples came for."""
    closing: tuple[int, ...] = ()
    """Windows that close with this batch."""

    @property
    def fed(self) -> bool:
        """Return whether any of its samples count."""
        return bool(self.starts)

    @property
    def newest(self) -> datetime | None:
        """Return the newest sample of the cluster."""
        return None if self.known.newest_at is None else from_micros(self.known.newest_at)

    def open_and_close(self, latest_at: int) -> None:
        """Find which windows the batch came late for, which it opens, and which close with it."""
        known = self.known
        newest_at = max(self.newest_at, known.newest_at or 0)
        if newest_at > latest_at:
            # A clock was ahead and is put right: what it made is not the newest any more.
            newest_at = self.newest_at
            known = replace(
                known,
                open_at=min(known.open_at, floor_micros(newest_at, WINDOW_MICROS)),
                open=tuple(start for start in known.open if start <= newest_at),
                rolled_at=min(known.rolled_at, floor_micros(newest_at, HOUR_MICROS)),
                day_at=min(known.day_at, floor_micros(newest_at, HOUR_MICROS)),
            )
        self.late = tuple(sorted(start for start in self.starts if start < known.open_at))
        opened = {*known.open, *self.starts.difference(self.late)}
        stays_open = floor_micros(newest_at, WINDOW_MICROS)
        self.closing = tuple(sorted(start for start in opened if start < stays_open))
        hour = floor_micros(min(opened, default=known.open_at), HOUR_MICROS)
        self.known = replace(
            known,
            newest_at=newest_at,
            # Before any has come whole, who is known to hold something does.
            whole_at=min(newest_at, max(known.whole_at, self.whole_at) or newest_at),
            open_at=max(known.open_at, stays_open),
            open=tuple(sorted(opened.difference(self.closing))),
            rolled_at=known.rolled_at or hour,
            day_at=known.day_at or hour,
        )


def fresh_parts(poll_rows: Sequence[Row], carried: Carried) -> list[PollPart]:
    """Return the parts of polls that no earlier batch has counted, each with one unit of it."""
    units: dict[tuple[str, str, int, int], str] = {}
    for row in poll_rows:
        if row.reason is None:
            cluster_id, collector, poll, part, unit = part_of(row)
            key = (cluster_id, collector, poll, part)
            units[key] = min(unit, units.get(key, unit))
    known = carried.clusters
    return [
        (cluster_id, collector, poll, part, unit)
        for (cluster_id, collector, poll, part), unit in sorted(units.items())
        if cluster_id not in known or not known[cluster_id].has(collector, poll, part)
    ]


def clusters_of(
    poll_rows: Sequence[Row], fresh: Set[PollPart], carried: Carried, began_at: datetime
) -> dict[str, Cluster]:
    """Return each cluster in a batch: what became of its rows, and which windows are open then."""
    out: dict[str, Cluster] = {}
    for row in poll_rows:
        known = carried.clusters.get(row.cluster, ClusterState())
        of = out.setdefault(row.cluster, Cluster(known))
        counts = of.counts = replace(of.counts, read=of.counts.read + row.rows)
        if row.reason is not None:
            bad = counts.quarantined
            of.counts = replace(
                counts, quarantined={**bad, row.reason: bad.get(row.reason, 0) + row.rows}
            )
        elif part_of(row) not in fresh:
            of.counts = replace(counts, duplicate=counts.duplicate + row.rows)
        else:
            late = row.rows if row.start < known.open_at else 0
            of.counts = replace(
                counts, accepted=counts.accepted + row.rows, late=counts.late + late
            )
            of.starts.add(row.start)
            of.newest_at = max(of.newest_at, row.newest_at)
            of.whole_at = max(of.whole_at, row.whole_at or 0)
            of.polls[poll_series(row.collector_id, row.part)].add(row.poll_id)
    latest_at = to_micros(latest_sample_time(began_at))
    for of in out.values():
        if of.fed:
            of.open_and_close(latest_at)
            of.known = replace(of.known, fed_at=to_micros(began_at))
    return out


def part_of(row: Row) -> PollPart:
    return (row.cluster, row.collector_id, row.poll_id, row.part, row.unit)


def remembered(clusters: Mapping[str, ClusterState], now: datetime) -> dict[str, ClusterState]:
    """Return what is known of clusters, without those that have sent nothing for days."""
    since = to_micros(now) - FORGOTTEN_AFTER
    return {c: state for c, state in clusters.items() if state.fed_at > since}


def is_kept(state: ClusterState, now: datetime) -> bool:
    """Return whether a cluster's closed windows are kept, for what comes late."""
    return state.fed_at > to_micros(now) - RETIRED_AFTER


def without_retired(after: Carried, now: datetime) -> Carried:
    """Return what is carried without windows and hours that nobody asks for any more."""
    living = [state for state in after.clusters.values() if is_kept(state, now)]
    needed = min((min(state.rolled_at, state.open_at - HOUR_MICROS) for state in living), default=0)
    oldest = min((state.day_at - DAY_MICROS for state in living), default=0)
    return replace(
        after,
        windows=tuple(part for part in after.windows if part.last >= needed),
        hours=tuple(part for part in after.hours if part.last >= oldest),
    )
