"""What the driver remembers of the newest windows: the samples of minutes, and windows' sums.

Everything here can be made again from partials and window files; nothing is kept but here for
speed. Arrays have a row for each partition, in the order in which they were first seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.load import arrow as columns
from core.load.load import Float64
from core.pipeline import figures
from core.pipeline.rates import MEASURES
from core.pipeline.samples import Int64, keys

RATES = tuple(MEASURES)
Int8 = npt.NDArray[np.int8]


class Keys:
    """The partitions that are remembered, and the row of each."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._names: list[str] = []
        self._sorted: Int64 = np.zeros(0, np.int64)
        self._row_of: Int64 = np.zeros(0, np.int64)
        self._keys: Int64 = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def rows_of(self, table: Any) -> Int64:
        """Return the row of each of the table's (topic_id, partition), and remember new ones."""
        code, ids = columns.to_codes(table["topic_id"].dictionary_encode())
        known = [self._codes.setdefault(one, len(self._codes)) for one in ids]
        self._names += [""] * (len(self._codes) - len(self._names))
        if "topic" in table.column_names:
            name, names = columns.to_codes(table["topic"].dictionary_encode())
            some = np.zeros(len(ids), np.int64)
            some[code] = name
            for one, at in zip(known, some.tolist(), strict=True):
                self._names[one] = names[at]
        key = keys(np.array(known, np.int64)[code], columns.to_numpy(table["partition"]))
        rows = self._found(key)
        if (rows < 0).any():
            self._keys = np.append(self._keys, np.unique(key[rows < 0]))
            self._row_of = np.argsort(self._keys)
            self._sorted = self._keys[self._row_of]
            rows = self._found(key)
        return rows

    def find(self, table: Any) -> Int64:
        """Return the row of each of the table's (topic_id, partition), -1 where there is none."""
        code, ids = columns.to_codes(table["topic_id"].dictionary_encode())
        known = np.array([self._codes.get(one, -1) for one in ids], np.int64)
        return self._found(keys(known[code], columns.to_numpy(table["partition"])))

    def _found(self, key: Int64) -> Int64:
        if len(self._sorted) == 0:
            return np.full(len(key), -1, np.int64)
        at = np.minimum(np.searchsorted(self._sorted, key), len(self._sorted) - 1)
        out: Int64 = np.where(self._sorted[at] == key, self._row_of[at], -1)
        return out

    def columns(self, rows: Int64) -> dict[str, Any]:
        """Return topic id, partition and topic of some rows, as Arrow columns."""
        code = (self._keys[rows] >> 32).astype(np.int32)
        return {
            "topic_id": columns.dictionary_array(code, tuple(self._codes)).dictionary_decode(),
            "partition": columns.number_array(self._keys[rows] & 0xFFFFFFFF, pa.int32()),
            "topic": columns.dictionary_array(code, self._names).dictionary_decode(),
        }


@dataclass(frozen=True, eq=False)
class Samples:
    """At most one timed sample a row: when it was taken, over how long, and its amounts.

    Where there is none `at` is -1 and the rest NaN; `values` has a line for each measure.
    """

    at: Int64
    dt_ms: Float64
    values: Float64
    method: Int8


@dataclass(frozen=True, eq=False)
class Said:
    """What is said of each row: avg, p95 and max of each rate, and how well it is known."""

    rates: dict[tuple[str, str], Float64]
    quality: Int8
    method: Int8


@dataclass(eq=False)
class Sums:
    """One window's sums by row; what no sample told is 0, NaN or -1."""

    polls: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    n: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    covered_ms: Float64 = field(default_factory=lambda: np.zeros(0))
    total: Float64 = field(default_factory=lambda: np.zeros((len(RATES), 0)))
    ms: Float64 = field(default_factory=lambda: np.zeros((len(RATES), 0)))
    largest: Float64 = field(default_factory=lambda: np.zeros((len(RATES), 0)))
    method: Int8 = field(default_factory=lambda: np.zeros(0, np.int8))
    last_at: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    leader: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    size: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def grow(self, count: int) -> None:
        """Make room for `count` rows."""
        unknown = {"largest": np.nan, "last_at": -1, "leader": -1, "size": -1}
        for name, values in vars(self).items():
            setattr(self, name, _grown(values, count, unknown.get(name, 0)))

    def add(self, rows: Int64, batch: Batch, count: int) -> None:
        """Add samples to their rows."""
        self.grow(count)
        self.polls += np.bincount(rows, minlength=count)
        timed = batch.dt_ms > 0
        self.n += np.bincount(rows[timed], minlength=count)
        self.covered_ms += np.bincount(rows[timed], batch.dt_ms[timed], minlength=count)
        for i, values in enumerate(batch.values):
            known = timed & ~np.isnan(values)
            at, dt = rows[known], batch.dt_ms[known]
            self.total[i] += np.bincount(at, values[known], minlength=count)
            self.ms[i] += np.bincount(at, dt, minlength=count)
            np.fmax.at(self.largest[i], at, values[known] * 1000.0 / dt)
        np.maximum.at(self.method, rows, batch.method)
        order = np.lexsort((batch.at, rows))
        newest = order[np.append(np.diff(rows[order]) != 0, True)] if len(order) else order
        newer = newest[batch.at[newest] >= self.last_at[rows[newest]]]
        at = rows[newer]
        self.last_at[at], self.leader[at] = batch.at[newer], batch.leader[newer]
        self.size[at] = batch.size[newer]


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch's leader samples as arrays; times in ms since the epoch, -1 and NaN are unknown."""

    at: Int64
    dt_ms: Float64
    values: Float64
    method: Int8
    leader: Int64
    size: Int64

    @classmethod
    def of(cls, table: Any) -> Batch:
        """Return a partial's rows."""
        return cls(
            at=columns.to_numpy(table["ts"]) // 1000,
            dt_ms=columns.to_numpy(table["dt_ms"]).astype(np.float64),
            values=np.stack([columns.to_numpy(table[c]) for c in MEASURES.values()]),
            method=columns.to_numpy(table["in_method"]),
            leader=columns.to_numpy(table["broker_id"]).astype(np.int64),
            size=columns.to_numpy(table["size_bytes"]),
        )

    def taken(self, rows: Any) -> Batch:
        """Return some of the samples."""
        return Batch(
            self.at[rows],
            self.dt_ms[rows],
            self.values[:, rows],
            self.method[rows],
            self.leader[rows],
            self.size[rows],
        )


class Recent:
    """The timed samples of the last minutes, a layer for each that a partition has."""

    def __init__(self) -> None:
        self._layers: list[Samples] = []

    def add(self, rows: Int64, batch: Batch, count: int) -> None:
        """Add samples; those of one row in several layers."""
        timed = np.flatnonzero(batch.dt_ms > 0)
        rows, batch = rows[timed], batch.taken(timed)
        order = np.argsort(rows, kind="stable")
        first = np.flatnonzero(np.append(True, np.diff(rows[order]) != 0)) if len(order) else order
        rank = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        for n in range(int(rank.max()) + 1 if len(rank) else 0):
            here = order[rank == n]
            layer = Samples(
                np.full(count, -1, np.int64),
                np.full(count, np.nan),
                np.full((len(RATES), count), np.nan),
                np.zeros(count, np.int8),
            )
            at, some = rows[here], batch.taken(here)
            layer.at[at], layer.dt_ms[at], layer.method[at] = some.at, some.dt_ms, some.method
            layer.values[:, at] = some.values
            self._layers.append(layer)

    def forget(self, until_ms: int) -> None:
        """Forget what was taken before a moment."""
        self._layers = [layer for layer in self._layers if int(layer.at.max()) >= until_ms]

    def between(self, since_ms: int, until_ms: int, count: int, *, begins_ms: int) -> Said:
        """Return what the samples in [since, until) say of each row, of time from `begins_ms`."""
        layers = [
            layer
            for layer in self._layers
            if int(layer.at.max()) >= since_ms
            and int(layer.at.min(where=layer.at >= 0, initial=until_ms)) < until_ms
        ]
        n, covered, inside = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
        method = np.zeros(count, np.int8)
        total, ms = np.zeros((2, len(RATES), count))
        each = np.full((len(RATES), count, len(layers)), np.nan)
        for k, layer in enumerate(layers):
            at, size = layer.at, len(layer.at)
            here = (at >= since_ms) & (at < until_ms)
            dt = np.where(here, layer.dt_ms, 0.0)
            n[:size] += here
            covered[:size] += dt
            inside[:size] += np.where(here, np.minimum(dt, at - begins_ms), 0.0)
            np.maximum(method[:size], np.where(here, layer.method, 0), out=method[:size])
            for i, values in enumerate(layer.values):
                known = here & ~np.isnan(values)
                total[i, :size] += np.where(known, values, 0.0)
                ms[i, :size] += np.where(known, dt, 0.0)
                each[i, :size, k] = np.where(known, values, np.nan) * 1000.0 / layer.dt_ms
        rates: dict[tuple[str, str], Float64] = {}
        for i, rate in enumerate(RATES):
            ordered = figures.descending(each[i])
            known_n = np.count_nonzero(~np.isnan(ordered), axis=1)
            rates[rate, "avg"] = figures.average(total[i], ms[i])
            rates[rate, "p95"] = figures.percentile(ordered, known_n)
            rates[rate, "max"] = ordered[:, 0] if layers else np.full(count, np.nan)
        return Said(rates, figures.quality(n, covered, inside), method)


def _grown(values: Any, count: int, unknown: float) -> Any:
    more = count - values.shape[-1]
    if more <= 0:
        return values
    width = [(0, 0)] * (values.ndim - 1) + [(0, more)]
    return np.pad(values, width, constant_values=unknown)
