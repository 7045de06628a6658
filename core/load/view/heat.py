"""The heat map: topics by brokers, and one topic's partitions by brokers.

Pure NumPy over ClusterState and Load. A cell's value is what its broker carries of its row:
`in` what is produced to leaders there, `out` what consumers and followers fetch from leaders
there, `size`, `leaders`, `replicas`. NaN is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from core.cluster.state import Bool, ClusterState, Int64
from core.load.load import Float64, Load

Int8 = npt.NDArray[np.int8]

ABOVE = (1.2, 1.4, 1.6, 1.85)
"""Ratios to fair share from which a cell is warmer by one step; below the first it is quiet."""
BELOW = (0.8, 0.6, 0.4, 0.2)
SMALL = 0.02
"""A cell off by less than this part of a broker's whole fair share stays pale, however wild."""
PALE = 1
BLOCK_CELLS = 1 << 16
"""Cells judged at a time: few enough to stay in the processor's cache from step to step."""


class Metric(Enum):
    IN = "in"
    OUT = "out"
    SIZE = "size"
    LEADERS = "leaders"
    REPLICAS = "replicas"

    @property
    def of_leaders(self) -> bool:
        """Return whether only a partition's leader carries it."""
        return self in (Metric.IN, Metric.OUT, Metric.LEADERS)

    @property
    def unit(self) -> str:
        return {Metric.IN: "B/s", Metric.OUT: "B/s", Metric.SIZE: "B"}.get(self, "")


class Order(Enum):
    """How rows are sorted; ties go by name."""

    EXCESS = "excess"
    SKEW = "skew"
    TOTAL = "total"
    NAME = "name"


def alive_brokers(state: ClusterState) -> Bool:
    """Return which brokers may hold anything: those alive, shape [B]."""
    return np.array([broker.alive for broker in state.brokers], np.bool_)


def fair_parts(state: ClusterState, metric: Metric) -> Float64:
    """Return each broker's fair part of any total, shape [B], summing to 1.

    By capacity where it is known for all live brokers, else even.
    """
    alive = alive_brokers(state)
    if not alive.any():
        return np.zeros(len(alive))

    def disk(i: int) -> float | None:
        sizes = [d.total_bytes for d in state.brokers[i].log_dirs]
        return float(sum(s for s in sizes if s)) if sizes and all(sizes) else None

    read: Callable[[int], float | None] | None = {
        Metric.IN: lambda i: state.brokers[i].in_capacity_bytes_per_s,
        Metric.OUT: lambda i: state.brokers[i].out_capacity_bytes_per_s,
        Metric.SIZE: disk,
    }.get(metric)
    capacity = alive.astype(np.float64)
    if read is not None:
        known = [read(i) if alive[i] else 0.0 for i in range(len(alive))]
        if all(value is not None for value in known) and sum(v or 0.0 for v in known) > 0:
            capacity = np.array(known, np.float64)
    return np.asarray(capacity / capacity.sum())


def partition_values(state: ClusterState, load: Load, metric: Metric) -> Float64:
    """Return what one replica that counts carries of each partition, shape [P], NaN unknown."""
    match metric:
        case Metric.IN:
            return load.in_bytes_per_s
        case Metric.OUT:
            followers = np.diff(state.replica_start) - 1
            fetched = np.where(followers > 0, load.in_bytes_per_s * followers, 0.0)
            return np.asarray(load.out_bytes_per_s + fetched)
        case Metric.SIZE:
            size = state.partition_size_bytes
            return np.where(size < 0, np.nan, size.astype(np.float64))
        case _:
            return np.ones(state.partition_count)


def carried_values(state: ClusterState, load: Load, metric: Metric) -> tuple[Int64, Int64, Float64]:
    """Return (partition, broker column, value) of everything that is carried, one entry each."""
    values = partition_values(state, load, metric)
    if metric.of_leaders:
        partitions = np.arange(state.partition_count)
        columns = state.leader_column
    else:
        partitions = state.partition_of_replica
        columns = state.replica_column
        if metric is Metric.SIZE:
            own = state.size_bytes
            values = np.where(own < 0, np.nan, own.astype(np.float64))
        else:
            values = values[partitions]
    held = columns >= 0
    if held.all():
        return partitions, columns, values
    return partitions[held], columns[held], values[held]


def sum_by_cell(rows: Int64, columns: Int64, values: Float64, shape: tuple[int, int]) -> Float64:
    """Return the matrix of sums; a cell of which nothing is known is NaN."""
    return _sums_by_index(rows * shape[1] + columns, values, shape[0] * shape[1]).reshape(shape)


def _sums_by_index(at: Int64, values: Float64, size: int) -> Float64:
    """Return what of `values` comes together at each place; NaN where nothing of it is known."""
    known = ~np.isnan(values)
    if known.all():
        return np.asarray(np.bincount(at, values, size), np.float64)
    sums = np.asarray(np.bincount(at[known], values[known], size), np.float64)
    count = np.bincount(at, minlength=size)
    sums[(count > 0) & (np.bincount(at[known], minlength=size) == 0)] = np.nan
    return sums


def deviation_levels(values: Float64, fair: Float64, piece: Float64, enough: float = 0.0) -> Int8:
    """Return the deviation of each cell from its fair share, -4 … 4, 0 within the band.

    `piece` is the size of what can be moved on its own: a cell that is off by less than one piece
    cannot be better, and is quiet. Cells off by less than `enough` are at most pale.
    """
    off = values - fair
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(fair > 0, values / fair, 1.0)
        movable = np.abs(off) >= piece * 0.999
    up, down = np.zeros((2, *off.shape), np.int8)
    for bound in ABOVE:
        up += ratio >= bound
    for limit in BELOW:
        down += ratio <= limit
    level = np.where(off > 0, up, -down)
    level = np.where(np.abs(off) < enough, np.clip(level, -PALE, PALE), level)
    return np.where(movable & ~np.isnan(values), level, 0).astype(np.int8)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Topics by brokers, for one metric. Shapes: [T, B] for cells, [T] for rows."""

    metric: Metric
    topics: tuple[str, ...]
    partitions: Int64
    """Partitions of each topic."""
    values: Float64
    total: Float64
    fair: Float64
    skew: Float64
    """The fullest broker against its fair share (or one partition's worth, if that is more)."""
    excess: Float64
    """What is above fair share and could be moved away, summed."""
    level: Int8
    out_of_sync: Int64
    arriving: Int64
    leaving: Int64

    def order(self, order: Order) -> Int64:
        """Return row numbers in this order, worst or largest first, or by name."""
        names = np.arange(len(self.topics))
        key = {Order.EXCESS: self.excess, Order.SKEW: self.skew, Order.TOTAL: self.total}.get(order)
        if key is None:
            return names
        first = np.nan_to_num(key, nan=-1.0)
        # Rows without any excess go by what they carry, not by the alphabet.
        return np.lexsort((names, -np.nan_to_num(self.total, nan=-1.0), -first))

    @cached_property
    def largest(self) -> float:
        """Return the largest known cell, at least 0."""
        return float(np.nanmax(self.values, initial=0.0))

    @cached_property
    def known(self) -> bool:
        """Return whether anything is known of this metric."""
        return bool((~np.isnan(self.values) & (self.values > 0)).any())


def heat_map(state: ClusterState, load: Load, metric: Metric) -> HeatMap:
    """Return topics by brokers for one metric."""
    shape = (len(state.topics), len(state.brokers))
    partitions, columns, carried = carried_values(state, load, metric)
    rows = state.topic_of[partitions].astype(np.int64)
    values = sum_by_cell(rows, columns, carried, shape)
    total = _sums_by_index(rows, carried, shape[0])
    pieces = np.bincount(rows, minlength=shape[0])
    piece = (total / np.maximum(pieces, 1))[:, None]
    fair = total[:, None] * fair_parts(state, metric)[None, :]
    alive = alive_brokers(state)
    enough = SMALL * float(np.nansum(total)) / max(1, int(alive.sum()))
    level, skew, excess = np.empty(shape, np.int8), np.empty(shape[0]), np.empty(shape[0])
    step = max(1, BLOCK_CELLS // max(1, shape[1]))
    for first in range(0, shape[0], step):
        at = slice(first, first + step)
        level[at] = deviation_levels(values[at], fair[at], piece[at], enough)
        skew[at] = _skew(values[at], np.maximum(fair[at], piece[at]))
        off = values[at] - fair[at]
        movable = (off >= piece[at] * 0.999) & alive
        excess[at] = np.where(movable, off, 0.0).sum(axis=1)
    return HeatMap(
        metric=metric,
        topics=tuple(topic.name for topic in state.topics),
        partitions=np.bincount(state.topic_of, minlength=shape[0]),
        values=values,
        total=total,
        fair=fair,
        skew=skew,
        excess=excess,
        level=level,
        out_of_sync=_count_replicas(state, out_of_sync_replicas(state), shape),
        arriving=_count_replicas(state, state.adding, shape),
        leaving=_count_replicas(state, state.removing, shape),
    )


def _skew(values: Float64, share: Float64) -> Float64:
    """Return the largest ratio of each row; what is unknown does not count, NaN where all is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(share > 0, values / share, np.where(np.isnan(share), np.nan, 0.0))
    return np.asarray(np.fmax.reduce(ratio, axis=1, initial=np.nan))


def out_of_sync_replicas(state: ClusterState) -> Bool:
    """Return which replicas are not in sync, and not merely arriving, shape [R]."""
    return ~state.in_sync & ~state.adding


def _count_replicas(state: ClusterState, mask: Bool, shape: tuple[int, int]) -> Int64:
    columns = state.replica_column[mask]
    rows = state.topic_of[state.partition_of_replica[mask]].astype(np.int64)
    held = columns >= 0
    at = rows[held] * shape[1] + columns[held]
    return np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape)


class ReplicaRole(Enum):
    """What a broker is to a partition."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OUT_OF_SYNC = "out of sync"
    ARRIVING = "arriving"
    LEAVING = "leaving"


@dataclass(frozen=True, eq=False)
class PartitionMap:
    """The partitions of one topic, hottest first: `rows` index the ClusterState, shape [N]."""

    topic: str
    metric: Metric
    rows: Int64
    values: Float64
    """What each partition carries."""
    size_bytes: Float64
    fair: float
    """What a partition would carry if all carried the same; NaN when unknown."""


def partition_map(
    state: ClusterState, load: Load, topic: str, metric: Metric, order: Order
) -> PartitionMap:
    """Return a topic's partitions; by number for Order.NAME, else hottest first."""
    rows = np.array(state.partitions_of(topic), np.int64)
    values = partition_values(state, load, metric)[rows]
    if metric in (Metric.LEADERS, Metric.REPLICAS):
        # A partition has one leader: what tells partitions apart here is what they carry.
        values = load.in_bytes_per_s[rows]
    size = state.partition_size_bytes[rows].astype(np.float64)
    size[size < 0] = np.nan
    if order is not Order.NAME and len(rows):
        by = np.lexsort((rows, -np.nan_to_num(size, nan=-1.0), -np.nan_to_num(values, nan=-1.0)))
        rows, values, size = rows[by], values[by], size[by]
    known = values[~np.isnan(values)]
    fair = float(known.mean()) if len(known) else float("nan")
    return PartitionMap(topic, metric, rows, values, size, fair)


def replica_roles(state: ClusterState, row: int) -> dict[int, ReplicaRole]:
    """Return what each broker that holds a replica of a partition is to it."""
    at = state.replica_slice(row)
    roles: dict[int, ReplicaRole] = {}
    leader = int(state.leader[row])
    for broker, in_sync, adding, removing in zip(
        state.replica_broker[at].tolist(),
        state.in_sync[at].tolist(),
        state.adding[at].tolist(),
        state.removing[at].tolist(),
        strict=True,
    ):
        if adding:
            role = ReplicaRole.ARRIVING
        elif removing:
            role = ReplicaRole.LEAVING
        elif not in_sync:
            role = ReplicaRole.OUT_OF_SYNC
        else:
            role = ReplicaRole.LEADER if broker == leader else ReplicaRole.FOLLOWER
        roles[broker] = role
    return roles
