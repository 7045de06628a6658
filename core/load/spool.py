"""Segments of samples: written into `incoming`, validated by the gate, then spooled.

What the gate refuses goes to quarantine with its reason beside it. Import this module late: it
imports pyarrow.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from core import files, paths
from core.daemons.lease import lease_file
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.samples import COLUMNS, FORMAT
from core.load.sources.metrics import BadRecords
from core.units import format_time

log = logging.getLogger(__name__)

QUARANTINE_SECONDS = 14 * 86400
SPOOL_SECONDS = 48 * 3600
"""For both what no pipeline has taken and what one is done with."""
MAX_WRITE_SECONDS = 3600
"""A file that has been written for so long is what a process left that died."""

_TYPES = {
    "string": pa.string(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "timestamp[us, UTC]": pa.timestamp("us", "UTC"),
}

SCHEMA = pa.schema(
    [
        pa.field(
            column.name,
            _TYPES[column.type],
            nullable=column.nullable,
            metadata={"unit": column.unit} if column.unit else None,
        )
        for column in COLUMNS
    ]
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the gate refused a segment: a short reason that names a folder, and what was seen."""

    reason: str
    detail: str


def write_segment(
    root: Path, cluster_id: str, name: str, rows: Mapping[str, Any], at: datetime
) -> Path | None:
    """Write one segment of samples and pass it through the gate.

    `rows` maps every column of the sample's schema to an Arrow array. Returns where it was
    spooled, or None when the gate refused it.
    """
    layout.mark(root)
    columns_as_written = (rows[column.name] for column in COLUMNS)
    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in columns_as_written
    ]
    head = {"format": FORMAT, "cluster_id": cluster_id, "at": format_time(at)}
    head["rows"] = str(len(arrays[0]))
    table = pa.Table.from_arrays(arrays, schema=SCHEMA.with_metadata(head))
    path = layout.incoming(root) / f"{paths.cluster_folder(cluster_id)}-{name}.parquet"
    with _incoming_lock(root, cluster_id):
        files.write_whole(path, lambda aside: pq.write_table(table, aside, compression="zstd"))
        return _spool_or_quarantine(root, cluster_id, path)


def _incoming_lock(root: Path, cluster_id: str) -> AbstractContextManager[None]:
    """Return the lock of who moves incoming segments: a collector, or a pipeline that starts."""
    return files.locked(lease_file(root, cluster_id, "gate"))


def _spool_or_quarantine(root: Path, cluster_id: str, path: Path) -> Path | None:
    """Move an incoming segment to the spool, or to quarantine; return where it was spooled."""
    refusal = check_segment(path, cluster_id)
    if refusal is not None:
        quarantine(root, cluster_id, path, refusal)
        return None
    at = sample_time(path)
    name = path.name.removeprefix(f"{paths.cluster_folder(cluster_id)}-")
    folder = layout.spool(root, cluster_id) / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"
    if not folder.exists():
        # A new hour: the time to look for old ones, also where no pipeline ever does.
        paths.make_folder(folder)
        delete_expired(root, cluster_id)
    place = folder / name
    path.replace(place)
    files.sync(folder)
    return place


def sample_time(path: Path) -> datetime:
    """Return when the samples of a segment were taken, by its footer."""
    return _parse_sample_time(columns.schema_metadata(pq.ParquetFile(path).schema_arrow))


def admit_segments(root: Path, cluster_id: str) -> int:
    """Pass every whole incoming segment of a cluster through the gate; return how many."""
    with _incoming_lock(root, cluster_id):
        folder = layout.incoming(root)
        segments = sorted(folder.glob(f"{paths.cluster_folder(cluster_id)}-*.parquet"))
        for path in segments:
            _spool_or_quarantine(root, cluster_id, path)
    return len(segments)


def check_segment(path: Path, cluster_id: str) -> Refusal | None:
    """Return why a segment cannot be used: its footer, format, schema, cluster or row count."""
    try:
        file = pq.ParquetFile(path)
    except columns.DAMAGED as error:
        return Refusal("truncated", _first_line(error))
    head = columns.schema_metadata(file.schema_arrow)
    if head.get("format") != FORMAT:
        return Refusal("format", f"{head.get('format')!r} is not {FORMAT}")
    if not file.schema_arrow.equals(SCHEMA, check_metadata=False):
        return Refusal("schema", file.schema_arrow.to_string(show_schema_metadata=False))
    if head.get("cluster_id") != cluster_id:
        return Refusal("cluster", f"samples of {head.get('cluster_id')!r}")
    if head.get("rows") != str(file.metadata.num_rows):
        return Refusal("rows", f"{file.metadata.num_rows} rows, {head.get('rows')} were written")
    try:
        _parse_sample_time(head)
    except (KeyError, ValueError, OverflowError) as error:
        return Refusal("time", f"when its samples were taken: {_first_line(error)}")
    try:
        for group in range(file.num_row_groups):
            file.read_row_group(group)
    except columns.DAMAGED as error:
        return Refusal("damaged", _first_line(error))
    return None


def _parse_sample_time(head: Mapping[str, str]) -> datetime:
    return datetime.fromisoformat(head["at"]).astimezone(UTC)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def quarantine(root: Path, cluster_id: str, path: Path, refusal: Refusal) -> Path:
    """Move a segment to quarantine, its reason beside it."""
    folder = layout.quarantine(root, cluster_id) / refusal.reason
    place = folder / path.name
    _note(place, refusal)
    path.replace(place)
    files.sync(folder)
    return place


def quarantine_records(root: Path, cluster_id: str, name: str, bad: BadRecords) -> Path:
    """Write records that a source could not use, each with its reason and where it lies."""
    place = layout.quarantine(root, cluster_id) / "records" / f"{name}.parquet"
    counts = (f"{count:,} {reason}" for reason, count in sorted(bad.counts.items()))
    _note(place, Refusal("records", ", ".join(counts)))
    table = pa.table(
        {
            "partition": pa.array([record.partition for record in bad.first], pa.int32()),
            "offset": pa.array([record.offset for record in bad.first], pa.int64()),
            "reason": pa.array([record.reason for record in bad.first], pa.string()),
            "value": pa.array([record.value for record in bad.first], pa.binary()),
        }
    )
    files.write_whole(place, lambda aside: pq.write_table(table, aside, compression="zstd"))
    return place


def _note(place: Path, refusal: Refusal) -> None:
    """Write beside a place in quarantine why something lies there."""
    paths.make_folder(place.parent)
    note = {"reason": refusal.reason, "detail": refusal.detail, "file": place.name}
    note["at"] = format_time(datetime.now(UTC))
    files.write_text(place.with_name(f"{place.name}.reason.json"), json.dumps(note) + "\n")


def quarantine_damaged(root: Path, cluster_id: str) -> int:
    """Look at every spooled segment again and quarantine what has gone bad; return how many."""
    bad = 0
    for path in sorted(layout.spool(root, cluster_id).glob("date=*/hour=*/*.parquet")):
        refusal = check_segment(path, cluster_id)
        if refusal is not None:
            quarantine(root, cluster_id, path, refusal)
            bad += 1
    return bad


def archive_segment(root: Path, cluster_id: str, path: Path) -> None:
    """Take a segment that is done with out of the spool, so that listing it stays quick."""
    place = layout.archive(root, cluster_id) / path.relative_to(layout.spool(root, cluster_id))
    paths.make_folder(place.parent)
    if path.exists():
        path.replace(place)


def list_segments(root: Path, cluster_id: str) -> dict[Path, Path]:
    """Return every segment that is kept, used or not, by its place below spool or archive."""
    return {
        path.relative_to(folder): path
        for folder in (layout.archive(root, cluster_id), layout.spool(root, cluster_id))
        for path in folder.glob("date=*/hour=*/*.parquet")
    }


def delete_expired(root: Path, cluster_id: str, now: float | None = None) -> None:
    """Delete segments after 48 hours, taken by a pipeline or not, and quarantine after 14 days."""
    now = time.time() if now is None else now
    for folder in (layout.spool(root, cluster_id), layout.archive(root, cluster_id)):
        # By the hour, each last changed as a segment came or went: thousands are not looked at.
        for hour in sorted(folder.glob("date=*/hour=*")):
            if files.age_seconds(hour, now) > SPOOL_SECONDS:
                if folder == layout.spool(root, cluster_id) and any(hour.iterdir()):
                    log.warning("no pipeline took %s within 48 h: dropped", hour)
                _remove(hour)
                files.remove_empty(hour.parent)
    for path in sorted(layout.quarantine(root, cluster_id).glob("*/*")):
        if files.age_seconds(path, now) > QUARANTINE_SECONDS:
            _remove(path)
    for path in sorted(layout.incoming(root).glob(f"{files.TEMPORARY}*")):
        if files.age_seconds(path, now) > MAX_WRITE_SECONDS:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def quarantined_segments(root: Path, cluster_id: str) -> Mapping[str, int]:
    """Return how many segments lie in quarantine by reason."""
    return {
        folder.name: len(list(folder.glob("*.reason.json")))
        for folder in sorted(layout.quarantine(root, cluster_id).glob("*"))
        if any(folder.glob("*.reason.json"))
    }
