"""Opens a cluster by its address: real brokers, or a simulator's socket (`sim:PATH`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.clock import Clock, SystemClock
from core.cluster.capacity import UNKNOWN_CAPACITY, Capacity, with_capacity

if TYPE_CHECKING:
    from core.cluster.client import ClusterClient

SIMULATOR_PREFIX = "sim:"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is, and what its brokers can carry: enough to open it again elsewhere."""

    bootstrap: str
    command_config: Path | None = None
    capacity: Capacity = UNKNOWN_CAPACITY

    @property
    def simulated(self) -> bool:
        return self.bootstrap.startswith(SIMULATOR_PREFIX)


def short_name(cluster_id: str) -> str:
    """Return what a cluster without a name of its own is called, and confirmed by."""
    return cluster_id[:8]


@dataclass(frozen=True, slots=True)
class Connection:
    """An open client with the clock that its cluster lives by."""

    client: ClusterClient
    clock: Clock
    address: Address


def connect(address: Address) -> Connection:
    """Return an open connection; imports only the libraries that this address needs.

    Raises UnreachableError when nothing answers, DocumentError for a bad properties file.
    """
    if address.simulated:
        from core.cluster.simulation.client import SimulatorClient

        simulator = SimulatorClient(Path(address.bootstrap.removeprefix(SIMULATOR_PREFIX)))
        return Connection(with_capacity(simulator, address.capacity), simulator.clock, address)
    from core.cluster.kafka.client import KafkaClient
    from core.cluster.kafka.connection import ConnectionSettings

    settings = ConnectionSettings.load(address.bootstrap, address.command_config)
    client = with_capacity(KafkaClient(settings), address.capacity)
    return Connection(client, SystemClock(), address)


def ignored_properties(address: Address) -> tuple[str, ...]:
    """Return which of an address's client properties mean nothing here; raises DocumentError."""
    from core.cluster.kafka.connection import ConnectionSettings

    return ConnectionSettings.load(address.bootstrap, address.command_config).ignored
