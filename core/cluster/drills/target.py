"""Finds out whether a cluster was made for drills, and drills a simulated one.

For a sandbox see `sandbox_target`; everywhere else there is no way to any drill.
"""

from __future__ import annotations

from pathlib import Path

from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.drills.drill import (
    Drill,
    DrillKind,
    DrillTarget,
    Offer,
    broker_drill,
    disk_drill,
    group_drill,
    skew_drills,
)
from core.cluster.drills.sandbox_target import SandboxTarget
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.simulation.client import SimulatorClient
from core.cluster.simulation.spec import SimulatedFaults
from core.cluster.state import ClusterState


def find_drill_target(address: Address, cluster_id: str) -> DrillTarget | None:
    """Return what a cluster is drilled by, None for any but a sandbox or a simulator.

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


class SimulatorTarget:
    """The simulated cluster at the other end of a socket. Its brokers are only ever killed."""

    name = "the simulated cluster"
    timeline_id = None

    def __init__(self, client: SimulatorClient) -> None:
        self._client = client

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        faults: SimulatedFaults = self._client.fetch_faults()
        up = [broker for broker in state.brokers if broker.alive]
        down = tuple(b.id for b in state.brokers if not b.alive and b.id not in faults.full)
        joined = (group for group, more in sorted(faults.more.items()) if more)
        empty = (disk_drill(DrillKind.EMPTY, b, full[-1]) for b, full in faults.full.items())
        fill = (
            disk_drill(DrillKind.FILL, broker.id, broker.log_dirs[-1].path)
            for broker in up
            if broker.id not in faults.full and broker.log_dirs
        )
        of = faults.skewed
        offers = (
            Offer(DrillKind.KILL, tuple(broker_drill(DrillKind.KILL, b.id) for b in up)),
            Offer(DrillKind.START, tuple(broker_drill(DrillKind.START, b) for b in down)),
            Offer(DrillKind.JOIN, tuple(group_drill(DrillKind.JOIN, g) for g in faults.more)),
            Offer(DrillKind.LEAVE, tuple(group_drill(DrillKind.LEAVE, g) for g in joined)),
            Offer(DrillKind.SKEW, skew_drills(state, {topic.name for topic in state.topics})),
            Offer(DrillKind.EVEN, () if of is None else (Drill(DrillKind.EVEN, of),)),
            Offer(DrillKind.FILL, tuple(fill)),
            Offer(DrillKind.EMPTY, tuple(empty)),
        )
        return tuple(offer for offer in offers if offer.drills)

    def run(self, drill: Drill) -> bool:
        client = self._client
        match drill.kind:
            case DrillKind.KILL | DrillKind.STOP:
                client.stop_broker(_id(drill))
            case DrillKind.START:
                client.start_broker(_id(drill))
            case DrillKind.JOIN:
                client.change_members(drill.group or "", 1)
            case DrillKind.LEAVE:
                client.change_members(drill.group or "", -1)
            case DrillKind.SKEW:
                client.skew(drill.on, drill.times, drill.partitions)
            case DrillKind.EVEN:
                client.clear_skew()
            case DrillKind.FILL:
                client.fill_disk(_id(drill), self._last_log_dir(_id(drill)))
            case DrillKind.EMPTY:
                client.free_disk(_id(drill))
                client.stop_broker(_id(drill))
                client.start_broker(_id(drill))
        return True

    def close(self) -> None:
        self._client.close()

    def _last_log_dir(self, broker: int) -> str:
        (logs,) = self._client.describe_log_dirs([broker])
        path: str = logs.log_dirs[-1].path
        return path


def _id(drill: Drill) -> int:
    assert drill.broker is not None
    return drill.broker
