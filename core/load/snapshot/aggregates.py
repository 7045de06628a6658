"""What a manifest adds up: broker totals, hottest partitions and skew; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from core.cluster.state import ClusterState, Int32, Int64
from core.load.load import Float64
from core.load.snapshot.format import BrokerLoad, LoadSnapshot
from core.load.snapshot.manifest import HotPartition, Skew


def broker_loads(
    *,
    leader: Int32,
    replica_start: Int64,
    replica_broker: Int32,
    replica_size: Int64,
    in_bytes_per_s: Float64,
    out_bytes_per_s: Float64,
    brokers: Iterable[int] = (),
) -> tuple[BrokerLoad, ...]:
    """Return each broker's load, ascending by id; `brokers` adds ones that hold nothing.

    Followers fetch what leaders receive: follower_in is the sum of in over hosted followers, and
    out is what consumers read plus in for every other replica. A total in which nothing is known
    is None; unknown parts of a known one count as nothing.
    """
    partition = np.repeat(np.arange(len(leader)), np.diff(replica_start))
    ids = np.union1d(np.union1d(replica_broker, leader[leader >= 0]), np.array([*brokers], int))
    follows = replica_broker != leader[partition]
    followers = np.bincount(partition[follows], minlength=len(leader))
    leader_index = np.searchsorted(ids, leader[leader >= 0])
    held_at = np.searchsorted(ids, replica_broker)
    inward, outward = in_bytes_per_s[leader >= 0], out_bytes_per_s[leader >= 0]
    leader_in = _group_sums(leader_index, inward, len(ids))
    consumed = _group_sums(leader_index, outward, len(ids))
    fed = _group_sums(leader_index, inward * followers[leader >= 0], len(ids))
    follower_in = _group_sums(held_at[follows], in_bytes_per_s[partition[follows]], len(ids))
    size = _group_sums(held_at, np.where(replica_size < 0, np.nan, replica_size), len(ids))
    leaders = np.bincount(leader_index, minlength=len(ids))
    held = np.bincount(held_at, minlength=len(ids))
    return tuple(
        BrokerLoad(
            broker=broker,
            leader_in_bytes_per_s=leader_in[i],
            follower_in_bytes_per_s=follower_in[i],
            out_bytes_per_s=_sum_known(consumed[i], fed[i]),
            size_bytes=None if (stored := size[i]) is None else round(stored),
            leaders=int(leaders[i]),
            replicas=int(held[i]),
        )
        for i, broker in enumerate(ids.tolist())
    )


def state_broker_loads(
    state: ClusterState, in_bytes_per_s: Float64, out_bytes_per_s: Float64
) -> tuple[BrokerLoad, ...]:
    """Return every broker's load of this state, given each partition's rates, [P]."""
    return broker_loads(
        leader=state.leader,
        replica_start=state.replica_start,
        replica_broker=state.replica_broker,
        replica_size=state.size_bytes,
        in_bytes_per_s=in_bytes_per_s,
        out_bytes_per_s=out_bytes_per_s,
        brokers=[broker.id for broker in state.brokers],
    )


def _group_sums(at: Int64, values: Float64, count: int) -> list[float | None]:
    """Return the sum of the known values of each group; None where there are only unknown ones."""
    known = ~np.isnan(values)
    total = np.bincount(at[known], weights=values[known], minlength=count)
    some_known = np.bincount(at[known], minlength=count) > 0
    some = np.bincount(at, minlength=count) > 0
    return [None if some[i] and not some_known[i] else float(total[i]) for i in range(count)]


HOTTEST = 200
SKEWED_TOPICS = 50


def hot_partitions(snapshot: LoadSnapshot) -> tuple[HotPartition, ...]:
    """Return the partitions with the most traffic in and out over 5 minutes, hottest first."""
    inward = snapshot.rate("in_bytes_per_s")
    outward = snapshot.rate("out_bytes_per_s")
    traffic = np.nan_to_num(inward) + np.nan_to_num(outward)
    leader = snapshot.leader
    led: dict[int, float] = {}
    if leader is not None:
        for broker in np.unique(leader).tolist():
            led[broker] = float(traffic[leader == broker].sum())
    hottest = np.argsort(-traffic, kind="stable")[:HOTTEST]
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
                out_bytes_per_s=_none_if_nan(float(outward[i])),
                share=float(traffic[i]) / total if total > 0 else None,
            )
        )
    return tuple(rows)


def topic_skew(snapshot: LoadSnapshot) -> Mapping[str, float]:
    """Return hottest partition over mean partition by topic, the most skewed topics first."""
    inward = snapshot.rate("in_bytes_per_s")
    known = ~np.isnan(inward)
    size = len(snapshot.topics)
    partitions = np.bincount(snapshot.topic_of[known], minlength=size)
    total = np.bincount(snapshot.topic_of[known], weights=inward[known], minlength=size)
    hottest = np.zeros(size)
    np.maximum.at(hottest, snapshot.topic_of[known], inward[known])
    has_traffic = total > 0
    ratio = np.zeros(size)
    ratio[has_traffic] = hottest[has_traffic] * partitions[has_traffic] / total[has_traffic]
    order = [i for i in np.argsort(-ratio, kind="stable").tolist() if has_traffic[i]]
    return {snapshot.topics[i]: float(ratio[i]) for i in order[:SKEWED_TOPICS]}


def broker_skew(brokers: tuple[BrokerLoad, ...]) -> Mapping[str, Skew]:
    """Return how unequal the brokers are in traffic in, traffic out and size."""
    return {
        "in_bytes_per_s": resource_skew(
            [_sum_known(b.leader_in_bytes_per_s, b.follower_in_bytes_per_s) for b in brokers]
        ),
        "out_bytes_per_s": resource_skew([b.out_bytes_per_s for b in brokers]),
        "size_bytes": resource_skew([b.size_bytes for b in brokers]),
    }


def resource_skew(values: list[float | None] | list[int | None]) -> Skew:
    """Return the skew of the known values; all None where they are none or sum to nothing."""
    known = np.sort(np.array([value for value in values if value is not None], np.float64))
    total = float(known.sum())
    if len(known) == 0 or total <= 0:
        return Skew(None, None, None)
    mean = total / len(known)
    rank = np.arange(1, len(known) + 1)
    gini = float((2 * rank - len(known) - 1) @ known) / (len(known) * total)
    return Skew(float(known[-1]) / mean, float(known.std()) / mean, gini)


def _sum_known(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
