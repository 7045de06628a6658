"""What brokers can carry, which only their user knows: laid onto every picture of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from core.cluster.client import ClusterClient
    from core.cluster.state import ClusterState


@dataclass(frozen=True, slots=True)
class Capacity:
    """What each broker of a cluster can take in and send out; None is unknown."""

    in_bytes_per_s: float | None = None
    out_bytes_per_s: float | None = None


UNKNOWN_CAPACITY = Capacity()


def with_capacity(client: ClusterClient, capacity: Capacity) -> ClusterClient:
    """Return `client` with brokers that know their capacity; all else is passed on as it is."""
    if capacity == UNKNOWN_CAPACITY:
        return client
    return cast("ClusterClient", _Told(client, capacity))


class _Told:
    def __init__(self, client: ClusterClient, capacity: Capacity) -> None:
        self._client, self._capacity = client, capacity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe(self) -> ClusterState:
        state, capacity = self._client.describe(), self._capacity
        return state.with_brokers(
            [
                replace(
                    broker,
                    in_capacity_bytes_per_s=capacity.in_bytes_per_s,
                    out_capacity_bytes_per_s=capacity.out_bytes_per_s,
                )
                for broker in state.brokers
            ]
        )
