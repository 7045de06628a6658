"""Load: the rates of each partition, laid upon one state of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState

Float64 = npt.NDArray[np.float64]


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

    @classmethod
    def of(
        cls,
        state: ClusterState,
        *,
        keys: list[TopicPartition],
        in_bytes_per_s: Float64,
        out_bytes_per_s: Float64,
        messages_per_s: Float64,
        source: Source | None,
        as_of: datetime | None,
    ) -> Load:
        """Return columns of length P from columns keyed by `keys`; unknown keys are dropped."""
        at = np.fromiter(
            (-1 if (i := state.find(key)) is None else i for key in keys), np.int64, len(keys)
        )
        found = at >= 0

        def align(column: Float64) -> Float64:
            out = np.full(state.partition_count, np.nan)
            out[at[found]] = column[found]
            out.setflags(write=False)
            return out

        return cls(
            align(in_bytes_per_s), align(out_bytes_per_s), align(messages_per_s), source, as_of
        )


def realign_load(load: Load, old: ClusterState, new: ClusterState) -> Load:
    """Return `load` of `old` laid upon `new`; partitions that `old` lacked are unknown."""
    if has_same_partitions(old, new):
        return load
    index = np.array([old.topic_index.get(topic.name, -1) for topic in new.topics], np.int64)
    wanted = (index[new.topic_of] << 32) | new.partition
    known = (old.topic_of.astype(np.int64) << 32) | old.partition
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = 0
    found = known[at] == wanted if len(known) else np.zeros(len(wanted), np.bool_)

    def align(column: Float64) -> Float64:
        out = np.full(len(wanted), np.nan)
        out[found] = column[at[found]]
        return out

    return Load(
        align(load.in_bytes_per_s),
        align(load.out_bytes_per_s),
        align(load.messages_per_s),
        load.source,
        load.as_of,
    )


def has_same_partitions(one: ClusterState, other: ClusterState) -> bool:
    """Return whether two states list the same partitions, so that columns can be shared."""
    return one is other or (
        one.partition_count == other.partition_count
        and len(one.topics) == len(other.topics)
        and all(a.name == b.name for a, b in zip(one.topics, other.topics, strict=True))
        and np.array_equal(one.topic_of, other.topic_of)
        and np.array_equal(one.partition, other.partition)
    )
