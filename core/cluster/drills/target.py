"""Finds out whether a cluster was made for drills; everywhere else there is no way to any."""

from __future__ import annotations

from pathlib import Path

from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.drills.drill import DrillGround
from core.cluster.drills.sandbox_target import SandboxGround
from core.cluster.drills.simulator_target import SimulatorGround
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.simulation.client import SimulatorClient


def ground_of(address: Address, cluster_id: str) -> DrillGround | None:
    """Return the ground that this cluster is, or None: for any but a sandbox or a simulator.

    No name decides: of a sandbox its own files on this machine do, which must hold both the
    addresses and the id; a simulator must say its id itself. Raises UnreachableError when that
    has gone.
    """
    if not address.simulated:
        sandbox = Sandbox.of(address.bootstrap, cluster_id)
        return None if sandbox is None else SandboxGround(sandbox)
    client = SimulatorClient(Path(address.bootstrap.removeprefix(SIMULATOR_PREFIX)))
    if client.describe().cluster_id != cluster_id:
        client.close()
        return None
    return SimulatorGround(client)
