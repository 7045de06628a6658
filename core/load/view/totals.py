"""Broker totals beside their fair share: the lines under the map.

Pure NumPy, by the same rules as the map's cells (core.load.view.heat).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32
from core.load.load import Float64, Load
from core.load.view.heat import (
    Int8,
    Metric,
    alive_brokers,
    carried_values,
    deviation_levels,
    fair_parts,
    sum_by_cell,
)


@dataclass(frozen=True, eq=False)
class BrokerTotals:
    """What each broker carries in all, shape [B], with fair shares; NaN unknown."""

    brokers: Int32
    alive: Bool
    values: dict[Metric, Float64]
    fair: dict[Metric, Float64]
    disk_used: Float64
    """Used part of all log dirs, 0 … 1."""

    def level(self, metric: Metric) -> Int8:
        values, fair = self.values[metric], self.fair[metric]
        return np.where(
            self.alive, deviation_levels(values, fair, np.zeros(len(values))), 0
        ).astype(np.int8)

    def skew(self, metric: Metric) -> float:
        """Return the fullest broker's ratio to its fair share; NaN when unknown."""
        return max_ratio(self.values[metric], self.fair[metric])[1]

    @property
    def disk_level(self) -> Int8:
        return deviation_levels(self.disk_used, self.disk_fair, np.zeros(len(self.brokers)))

    @property
    def disk_fair(self) -> Float64:
        known = self.disk_used[~np.isnan(self.disk_used)]
        return np.full(len(self.brokers), known.mean() if len(known) else np.nan)


def broker_totals(state: ClusterState, load: Load) -> BrokerTotals:
    """Return what each broker carries, by every metric."""
    values: dict[Metric, Float64] = {}
    fair: dict[Metric, Float64] = {}
    for metric in Metric:
        values[metric] = broker_values(state, load, metric)
        fair[metric] = fair_shares(values[metric], fair_parts(state, metric))
    return BrokerTotals(state.broker_ids, alive_brokers(state), values, fair, disk_usage(state))


def broker_values(state: ClusterState, load: Load, metric: Metric) -> Float64:
    """Return what each broker carries of all topics, shape [B]; all NaN when nothing is known.

    Bytes and replicas of topics that are hidden count; what they carry otherwise nobody knows.
    """
    _, columns, values = carried_values(state, load, metric)
    if np.isnan(values).all():
        return np.full(len(state.brokers), np.nan)
    (whole,) = sum_by_cell(np.zeros_like(columns), columns, values, (1, len(state.brokers)))
    if metric is Metric.SIZE:
        return np.asarray(whole + state.hidden_bytes)
    return np.asarray(whole + state.hidden_replicas if metric is Metric.REPLICAS else whole)


def fair_shares(values: Float64, parts: Float64) -> Float64:
    """Return fair shares of what is known of `values`; all NaN when nothing is."""
    if np.isnan(values).all():
        return np.full(len(values), np.nan)
    return np.asarray(float(np.nansum(values)) * parts)


def disk_bytes(state: ClusterState) -> tuple[Float64, Float64]:
    """Return used and whole bytes of each broker's log dirs, shape [B]; NaN where one is unknown.

    A broker none of whose log dirs is known, or only some of them, is unknown as a whole.
    """
    used, whole = np.full((2, len(state.brokers)), np.nan)
    for i, broker in enumerate(state.brokers):
        total = [d.total_bytes for d in broker.log_dirs]
        usable = [d.usable_bytes for d in broker.log_dirs]
        if total and None not in total and None not in usable:
            whole[i] = sum(t or 0 for t in total)
            used[i] = whole[i] - sum(u or 0 for u in usable)
    return used, whole


def disk_usage(state: ClusterState) -> Float64:
    """Return the used part of each broker's log dirs, NaN where a size is unknown."""
    used, whole = disk_bytes(state)
    return np.asarray(used / np.where(whole > 0, whole, np.nan))


def max_ratio(values: Float64, fair: Float64) -> tuple[int, float]:
    """Return (column, ratio) of the fullest broker; (-1, NaN) when nothing is known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(fair > 0, values / fair, np.nan)
    if not len(ratio) or np.isnan(ratio).all():
        return -1, float("nan")
    column = int(np.nanargmax(ratio))
    return column, float(ratio[column])
