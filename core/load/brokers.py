"""The brokers' totals of a load: what leads, what follows, what goes out, what is stored; pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from core.cluster.state import ClusterState, Int32, Int64
from core.load.snapshot import BrokerLoad, Float64


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
    led_at = np.searchsorted(ids, leader[leader >= 0])
    held_at = np.searchsorted(ids, replica_broker)
    inward, outward = in_bytes_per_s[leader >= 0], out_bytes_per_s[leader >= 0]
    leader_in = _totals(led_at, inward, len(ids))
    consumed = _totals(led_at, outward, len(ids))
    fed = _totals(led_at, inward * followers[leader >= 0], len(ids))
    follower_in = _totals(held_at[follows], in_bytes_per_s[partition[follows]], len(ids))
    size = _totals(held_at, np.where(replica_size < 0, np.nan, replica_size), len(ids))
    leaders = np.bincount(led_at, minlength=len(ids))
    held = np.bincount(held_at, minlength=len(ids))
    return tuple(
        BrokerLoad(
            broker=broker,
            leader_in_bytes_per_s=leader_in[i],
            follower_in_bytes_per_s=follower_in[i],
            out_bytes_per_s=_sum(consumed[i], fed[i]),
            size_bytes=None if (stored := size[i]) is None else round(stored),
            leaders=int(leaders[i]),
            replicas=int(held[i]),
        )
        for i, broker in enumerate(ids.tolist())
    )


def state_loads(
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


def _totals(at: Int64, values: Float64, count: int) -> list[float | None]:
    """Return the sum of the known values of each group; None where there are only unknown ones."""
    known = ~np.isnan(values)
    total = np.bincount(at[known], weights=values[known], minlength=count)
    some_known = np.bincount(at[known], minlength=count) > 0
    some = np.bincount(at, minlength=count) > 0
    return [None if some[i] and not some_known[i] else float(total[i]) for i in range(count)]


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None and b is None else (a or 0.0) + (b or 0.0)
