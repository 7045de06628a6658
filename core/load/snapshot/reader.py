"""Reads published snapshots: the manifest first, then the files that it names, mapped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from core.errors import DocumentError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Source
from core.load.snapshot.format import (
    HORIZONS,
    PARTITIONS,
    RATES,
    STATISTICS,
    BrokerLoad,
    LoadSnapshot,
    rate_column,
)
from core.load.snapshot.manifest import (
    FORMAT,
    from_known_fields,
    read_manifest,
)
from core.units import parse_time


def read_snapshot(root: Path, cluster_id: str) -> LoadSnapshot | None:
    """Return the newest snapshot of a cluster; None when there is none.

    Raises DocumentError when it is damaged or of a higher major version.
    """
    for last_try in (False, True):
        manifest = read_manifest(root, cluster_id)
        if manifest is None:
            return None
        path = layout.snapshots(root, cluster_id) / manifest.snapshot_id / PARTITIONS
        try:
            snapshot = read_columns(path)
        except FileNotFoundError as error:
            # Between manifest and files, a newer snapshot may have replaced this one.
            if last_try:
                raise DocumentError(
                    f"{path.name} is named by its manifest but missing.",
                    detail=str(path),
                    next=layout.REPAIR,
                ) from error
            continue
        return replace(snapshot, counts=manifest.counts)
    return None


def read_live(root: Path, cluster_id: str) -> LoadSnapshot | None:
    """Return the collector's last interval; None when there is none."""
    try:
        return read_columns(layout.live(root, cluster_id))
    except FileNotFoundError:
        return None


def read_table(path: Path) -> Any:
    """Return the table in a snapshot's Arrow file, mapped rather than read.

    Raises FileNotFoundError, and DocumentError for a damaged file or a higher major version.
    """
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        raise
    except columns.DAMAGED as error:
        raise _damaged(path, "is not a whole Arrow file") from error
    layout.check_format(_head(table).get("format", ""), FORMAT, path)
    return table


def _head(table: Any) -> dict[str, str]:
    return columns.schema_metadata(table.schema)


def _damaged(path: Path, what: str) -> DocumentError:
    return DocumentError(f"{path.name} {what}.", detail=str(path), next=layout.REPAIR)


def read_columns(path: Path) -> LoadSnapshot:
    """Return the snapshot in an Arrow file; unknown columns are ignored.

    Raises as `read_table` does.
    """
    table = read_table(path)
    head = _head(table)
    try:
        topic_of, topics = columns.to_codes(table["topic"])
        names = set(table.column_names)
        return LoadSnapshot(
            cluster_id=head["cluster_id"],
            snapshot_id=head["snapshot_id"],
            source=Source(head["source"]),
            published_at=parse_time(head["published_at"]),
            window_end=parse_time(head["window_end"]),
            topics=topics,
            topic_of=topic_of,
            partition=columns.to_numpy(table["partition"]),
            rates={
                (horizon, rate, statistic): columns.to_numpy(table[name])
                for horizon in HORIZONS
                for rate in RATES
                for statistic in STATISTICS
                if (name := rate_column(rate, horizon, statistic)) in names
            },
            size_bytes=columns.to_numpy(table["size_bytes"]),
            growth_bytes_per_s=columns.to_numpy(table["growth_bytes_per_s"]),
            quality=columns.to_numpy(table["quality"]),
            method=columns.to_numpy(table["method"]),
            brokers=tuple(
                from_known_fields(BrokerLoad, row) for row in json.loads(head["brokers"])
            ),
            metadata_hash=head["metadata_hash"] or None,
            leader=columns.to_numpy(table["leader"]) if "leader" in names else None,
        )
    except KeyError as error:
        raise _damaged(path, f"lacks {error}") from error
    except columns.DAMAGED as error:
        raise _damaged(path, "is damaged") from error
