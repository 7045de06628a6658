"""What brokers can carry, which only their user knows: it is in every state of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.units import format_rate

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.settings import Settings


@dataclass(frozen=True, slots=True)
class Capacity:
    """What each broker of a cluster can take in and send out; None is unknown."""

    in_bytes_per_s: float | None = None
    out_bytes_per_s: float | None = None

    @property
    def text(self) -> str:
        """Return what brokers carry, like `in 125 MB/s, out unknown`."""
        taken, sent = (
            "unknown" if rate is None else format_rate(rate)
            for rate in (self.in_bytes_per_s, self.out_bytes_per_s)
        )
        return f"in {taken}, out {sent}"


UNKNOWN_CAPACITY = Capacity()


def configured_capacity(settings: Settings, name: str | None, bootstrap: str) -> Capacity:
    """Return what config.toml says of a cluster, known by its name or any of its brokers."""
    about = settings.about(name, bootstrap).values()
    taken = (
        cluster.in_capacity_bytes_per_s for cluster in about if cluster.in_capacity_bytes_per_s
    )
    sent = (
        cluster.out_capacity_bytes_per_s for cluster in about if cluster.out_capacity_bytes_per_s
    )
    return Capacity(next(taken, None), next(sent, None))


def with_broker_capacity(state: ClusterState, capacity: Capacity) -> ClusterState:
    """Return the same cluster with brokers that can carry this."""
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
