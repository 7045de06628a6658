"""Load: the rates of each partition, laid upon one state of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN
from core.cluster.state import ClusterState, Int32, Int64

Float64 = npt.NDArray[np.float64]
_S = TypeVar("_S", bound=np.generic)


class Source(Enum):
    """Who made a snapshot; `live` is the collector's own last interval, before Spark's first."""

    SPARK = "spark"
    SIMULATED = "simulated"
    LIVE = "live"
    DOCUMENT = "document"


@dataclass(frozen=True, eq=False)
class Load:
    """Rates laid upon one ClusterState: float64[P], NaN unknown; what plans and screens read."""

    in_bytes_per_s: Float64
    out_bytes_per_s: Float64
    messages_per_s: Float64
    source: Source | None
    as_of: datetime | None
    in_error_bytes_per_s: Float64 | None = None
    """The standard error of `in_bytes_per_s` where it is the mean of few intervals, else None."""

    @classmethod
    def unknown(cls, state: ClusterState) -> Load:
        nothing = np.full(state.partition_count, np.nan)
        return cls(nothing, nothing, nothing, None, None)


def align_rows(
    topics: Sequence[str], topic_of: Int32, partition: Int32, state: ClusterState
) -> Int64:
    """Return for each partition of `state` its row in columns that are keyed so, -1 for none."""
    number = {name: i for i, name in enumerate(topics)}
    index = np.array([number.get(topic.name, -2) for topic in state.topics], np.int64)
    target = (index[state.topic_of] << 32) | state.partition
    known = (topic_of.astype(np.int64) << 32) | partition
    if not len(known):
        return np.full(len(target), UNKNOWN, np.int64)
    order = np.argsort(known, kind="stable")
    rows = order[np.minimum(np.searchsorted(known, target, sorter=order), len(order) - 1)]
    return np.where(known[rows] == target, rows, UNKNOWN)


def take_rows(column: npt.NDArray[_S], rows: Int64, unknown: float = np.nan) -> npt.NDArray[_S]:
    """Return `column[rows]`, `unknown` where a row is -1."""
    out: npt.NDArray[_S] = np.full(len(rows), unknown, column.dtype)
    has_row = rows >= 0
    out[has_row] = column[rows[has_row]]
    return out


def realign_load(load: Load, old: ClusterState, new: ClusterState) -> Load:
    """Return `load` of `old` laid upon `new`; partitions that `old` lacked are unknown."""
    if has_same_partitions(old, new):
        return load
    rows = align_rows([topic.name for topic in old.topics], old.topic_of, old.partition, new)
    return Load(
        take_rows(load.in_bytes_per_s, rows),
        take_rows(load.out_bytes_per_s, rows),
        take_rows(load.messages_per_s, rows),
        load.source,
        load.as_of,
    )


def has_same_partitions(state: ClusterState, other: ClusterState) -> bool:
    """Return whether two states list the same partitions, so that columns can be shared."""
    return state is other or (
        state.partition_count == other.partition_count
        and len(state.topics) == len(other.topics)
        and all(a.name == b.name for a, b in zip(state.topics, other.topics, strict=True))
        and np.array_equal(state.topic_of, other.topic_of)
        and np.array_equal(state.partition, other.partition)
    )
