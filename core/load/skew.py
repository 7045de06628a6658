"""How unequal a snapshot is: its hottest partitions, its most skewed topics, its brokers; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from core.load.manifest import HotPartition, Skew
from core.load.snapshot import BrokerLoad, LoadSnapshot

HOTTEST = 200
SKEWED_TOPICS = 50


def hot_partitions(snapshot: LoadSnapshot, count: int = HOTTEST) -> tuple[HotPartition, ...]:
    """Return the partitions with the most traffic in and out over 5 minutes, hottest first."""
    inward = snapshot.rate("in_bytes_per_s")
    outward = snapshot.rate("out_bytes_per_s")
    traffic = np.nan_to_num(inward) + np.nan_to_num(outward)
    leader = snapshot.leader
    led: dict[int, float] = {}
    if leader is not None:
        for broker in np.unique(leader).tolist():
            led[broker] = float(traffic[leader == broker].sum())
    hottest = np.argsort(-traffic, kind="stable")[:count]
    rows = []
    for i in hottest[~np.isnan(inward[hottest])].tolist():
        by = int(leader[i]) if leader is not None and leader[i] >= 0 else None
        total = led.get(by, 0.0) if by is not None else 0.0
        rows.append(
            HotPartition(
                topic=snapshot.topics[int(snapshot.topic_of[i])],
                partition=int(snapshot.partition[i]),
                leader=by,
                in_bytes_per_s=float(inward[i]),
                out_bytes_per_s=_known(float(outward[i])),
                share=float(traffic[i]) / total if total > 0 else None,
            )
        )
    return tuple(rows)


def topic_skew(snapshot: LoadSnapshot, count: int = SKEWED_TOPICS) -> Mapping[str, float]:
    """Return hottest partition over mean partition by topic, the most skewed topics first."""
    inward = snapshot.rate("in_bytes_per_s")
    known = ~np.isnan(inward)
    size = len(snapshot.topics)
    partitions = np.bincount(snapshot.topic_of[known], minlength=size)
    total = np.bincount(snapshot.topic_of[known], weights=inward[known], minlength=size)
    hottest = np.zeros(size)
    np.maximum.at(hottest, snapshot.topic_of[known], inward[known])
    flowing = total > 0
    ratio = np.zeros(size)
    ratio[flowing] = hottest[flowing] * partitions[flowing] / total[flowing]
    order = [i for i in np.argsort(-ratio, kind="stable").tolist() if flowing[i]]
    return {snapshot.topics[i]: float(ratio[i]) for i in order[:count]}


def broker_skew(brokers: tuple[BrokerLoad, ...]) -> Mapping[str, Skew]:
    """Return how unequal the brokers are in traffic in, traffic out and size."""
    return {
        "in_bytes_per_s": skew_of(
            [_sum(b.leader_in_bytes_per_s, b.follower_in_bytes_per_s) for b in brokers]
        ),
        "out_bytes_per_s": skew_of([b.out_bytes_per_s for b in brokers]),
        "size_bytes": skew_of([b.size_bytes for b in brokers]),
    }


def skew_of(values: list[float | None] | list[int | None]) -> Skew:
    """Return the skew of the known values; all None where they are none or sum to nothing."""
    known = np.sort(np.array([value for value in values if value is not None], np.float64))
    total = float(known.sum())
    if len(known) == 0 or total <= 0:
        return Skew(None, None, None)
    mean = total / len(known)
    rank = np.arange(1, len(known) + 1)
    gini = float((2 * rank - len(known) - 1) @ known) / (len(known) * total)
    return Skew(float(known[-1]) / mean, float(known.std()) / mean, gini)


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
