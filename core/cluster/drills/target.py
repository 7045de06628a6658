"""Finds out whether a cluster was made for drills; everywhere else there is no way to any."""

from __future__ import annotations

from pathlib import Path

from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.drills.drill import DrillTarget
from core.cluster.drills.sandbox_target import SandboxTarget
from core.cluster.drills.simulator_target import SimulatorTarget
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.simulation.client import SimulatorClient


def find_drill_target(address: Address, cluster_id: str) -> DrillTarget | None:
    """Return the ground that this cluster is, or None: for any but a sandbox or a simulator.

    No name decides: of a sandbox its own files on this machine do, which must hold both the
    addresses and the id; a simulator must say its id itself. Raises UnreachableError when that
    has gone.
    """
    if not address.is_simulated:
        sandbox = Sandbox.find(address.bootstrap, cluster_id)
        return None if sandbox is None else SandboxTarget(sandbox)
    client = SimulatorClient(Path(address.bootstrap.removeprefix(SIMULATOR_PREFIX)))
    if client.describe_cluster().cluster_id != cluster_id:
        client.close()
        return None
    return SimulatorTarget(client)
