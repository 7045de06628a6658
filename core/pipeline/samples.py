"""A batch's judged samples on the driver: which of them count, and who held what; pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.load import arrow as columns
from core.load.windows import LENGTH

Int64 = npt.NDArray[np.int64]
Poll = tuple[str, int]
LENGTH_MICROS = round(LENGTH.total_seconds() * 1e6)


@dataclass(frozen=True, eq=False)
class Fine:
    """The samples of a batch that may count: one row a replica and poll, duplicates among them."""

    table: Any
    polls: tuple[Poll, ...]
    poll_of: Int64
    """For each row its place in `polls`."""

    def accepted(self, seen: Collection[Poll]) -> Any:
        """Return the rows to count: without polls of earlier batches, each key once."""
        new = np.array([poll not in seen for poll in self.polls], bool)[self.poll_of]
        rows = np.flatnonzero(new)
        topic_of, _ = columns.to_codes(self.table["topic_id"].dictionary_encode())
        broker = columns.to_numpy(self.table["broker_id"])[rows]
        key = keys(topic_of, columns.to_numpy(self.table["partition"]))[rows]
        of = (self.poll_of[rows] << 32) | (broker.astype(np.int64) & 0xFFFFFFFF)
        # Stable: of what came twice, the first counts.
        order = np.lexsort((key, of))
        again = (np.diff(key[order]) == 0) & (np.diff(of[order]) == 0)
        once = np.delete(order, np.flatnonzero(again) + 1)
        if len(once) == len(self.table):
            return self.table
        return taken(self.table, rows[np.sort(once)])


def split(table: Any) -> tuple[Fine, dict[str, int]]:
    """Return the samples that may count, and how many may not by reason."""
    code, reasons = columns.to_codes(table["reason"].dictionary_encode())
    bad = np.bincount(code[code >= 0], minlength=len(reasons))
    quarantined = {reason: int(bad[i]) for i, reason in enumerate(reasons) if bad[i]}
    if quarantined:
        table = taken(table, np.flatnonzero(code < 0))
    collector_of, collectors = columns.to_codes(table["collector_id"].dictionary_encode())
    ids, number = np.unique(columns.to_numpy(table["poll_id"]), return_inverse=True)
    found, poll_of = np.unique(
        number.astype(np.int64) * max(1, len(collectors)) + collector_of, return_inverse=True
    )
    polls = tuple(
        (collectors[one % len(collectors)], int(ids[one // len(collectors)]))
        for one in found.tolist()
    )
    return Fine(table, polls, poll_of.astype(np.int64)), quarantined


def taken(table: Any, rows: Int64) -> Any:
    """Return some rows of a table."""
    return table.take(columns.number_array(rows, pa.int64()))


def keys(topic_of: Any, partition: Any) -> Int64:
    """Return one number a topic and partition."""
    out: Int64 = (topic_of.astype(np.int64) << 32) | partition
    return out


def window_starts(ts: Int64) -> Int64:
    """Return when the windows of these moments start; both in microseconds since the epoch."""
    return ts - ts % LENGTH_MICROS


def placement(rows: Any, at: int) -> Any:
    """Return who held what in the poll of a moment: leader, replicas and their sizes by broker.

    One row a partition, sorted by topic and partition. `at` is microseconds since the epoch.
    """
    here = taken(rows, np.flatnonzero(columns.to_numpy(rows["ts"]) == at))
    id_of, ids = columns.to_codes(here["topic_id"].dictionary_encode())
    name_of, names = columns.to_codes(here["topic"].dictionary_encode())
    partition = columns.to_numpy(here["partition"])
    broker = columns.to_numpy(here["broker_id"])
    place = np.argsort(np.argsort(np.array(names, object)))
    order = np.lexsort((broker, partition, id_of, place[name_of]))
    key, broker = keys(id_of, partition)[order], broker[order]
    # Two collectors may have looked at once.
    order = order[np.insert((np.diff(key) != 0) | (np.diff(broker) != 0), 0, len(key) > 0)]
    key, broker = keys(id_of, partition)[order], broker[order]
    first = np.flatnonzero(np.insert(np.diff(key) != 0, 0, len(key) > 0))
    leads = columns.to_numpy(here["is_leader"])[order]
    leader = np.maximum.reduceat(np.where(leads, broker, -1), first) if len(first) else broker
    start = columns.number_array(np.append(first, len(key)), pa.int32())
    size = columns.to_numpy(here["size_bytes"])[order]
    one = order[first]
    return pa.table(
        {
            "topic_id": columns.dictionary_array(id_of[one], ids).dictionary_decode(),
            "partition": columns.number_array(partition[one], pa.int32()),
            "at": columns.number_array(np.full(len(one), at), pa.int64()),
            "topic": columns.dictionary_array(name_of[one], names).dictionary_decode(),
            "leader": columns.number_array(leader, pa.int32()),
            "replicas": pa.ListArray.from_arrays(start, columns.number_array(broker, pa.int32())),
            "sizes": pa.ListArray.from_arrays(start, columns.number_array(size, pa.int64())),
        }
    )
