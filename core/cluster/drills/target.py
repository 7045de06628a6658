"""What a cluster is drilled by: a sandbox's processes, disks and load, or a simulator's socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from core.cluster.connect import SIMULATOR_PREFIX, Address
from core.cluster.drills import full_disk
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
from core.cluster.sandbox.nodes import Node, Role
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import (
    Skew,
    group_ids,
    read_overrides,
    topic_names,
    write_overrides,
)
from core.cluster.simulation.client import SimulatorClient
from core.cluster.simulation.spec import SimulatedFaults
from core.cluster.state import ClusterState
from core.errors import UsageError

NO_LOAD = "no load runs on it: trimtab sandbox load starts one"


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


class SandboxTarget:
    """One sandbox, found anew for each drill: others may start and stop its brokers too."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._cluster_id = sandbox.name, sandbox.cluster_id

    @property
    def name(self) -> str:
        return f"sandbox {self._sandbox}"

    @property
    def timeline_id(self) -> str:
        return self._cluster_id

    def _open(self) -> Sandbox:
        sandbox = Sandbox.open(self._sandbox)
        if sandbox.cluster_id != self._cluster_id:
            raise UsageError(f"{self.name} is another cluster by now.".capitalize())
        return sandbox

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        def brokers(kind: DrillKind, nodes: list[Node], why_not: str = "") -> Offer:
            return Offer(kind, tuple(broker_drill(kind, node.id) for node in nodes), why_not)

        sandbox = self._open()
        every = [node for node in sandbox.nodes if node.role is Role.BROKER]
        up = [node for node in every if sandbox.process(node.id) is not None]
        down = [node for node in every if node not in up]
        full = [node for node in every if full_disk.is_full(node)]
        offers = (
            brokers(DrillKind.KILL, up, "no broker is up"),
            brokers(DrillKind.STOP, up, "no broker is up"),
            brokers(DrillKind.START, down),
            *_workload_offers(sandbox, state),
            Offer(
                DrillKind.FILL,
                _disk_drills(DrillKind.FILL, [node for node in up if node not in full])
                if full_disk.is_supported()
                else (),
                "no broker is up" if full_disk.is_supported() else full_disk.NO_DEV_FULL,
            ),
            Offer(DrillKind.EMPTY, _disk_drills(DrillKind.EMPTY, full)),
        )
        # Without a reason to say, what nothing was done to is not offered to be undone.
        return tuple(offer for offer in offers if offer.drills or offer.why_not)

    def run(self, drill: Drill) -> bool:
        sandbox = self._open()
        match drill.kind:
            case DrillKind.KILL:
                return sandbox.kill(drill.node)
            case DrillKind.STOP:
                return sandbox.stop(drill.node)
            case DrillKind.START:
                return sandbox.start(drill.node)
            case DrillKind.FILL:
                return full_disk.fill_and_wait(sandbox, sandbox.node(drill.node))
            case DrillKind.EMPTY:
                return full_disk.empty_and_restart(sandbox, sandbox.node(drill.node))
            case _:
                return _override_load(sandbox, drill)

    def close(self) -> None:
        """Nothing is held."""


def _disk_drills(kind: DrillKind, nodes: list[Node]) -> tuple[Drill, ...]:
    return tuple(disk_drill(kind, node.id, str(full_disk.log_dir_to_fill(node))) for node in nodes)


# -- the load --------------------------------------------------------------------------------------


def _workload_offers(sandbox: Sandbox, state: ClusterState) -> tuple[Offer, ...]:
    if not sandbox.has_workload:
        return (Offer(DrillKind.JOIN, why_not=NO_LOAD), Offer(DrillKind.SKEW, why_not=NO_LOAD))
    now = read_overrides(sandbox.overrides_path)
    there = {topic.name for topic in state.topics}
    joined = tuple(group for group, more in sorted(now.more.items()) if more)
    even = () if now.skew is None else (Drill(DrillKind.EVEN, now.skew.of),)
    return (
        Offer(DrillKind.JOIN, tuple(group_drill(DrillKind.JOIN, id) for id in group_ids())),
        Offer(DrillKind.LEAVE, tuple(group_drill(DrillKind.LEAVE, id) for id in joined)),
        Offer(DrillKind.SKEW, skew_drills(state, topic_names() & there), "its topics are gone"),
        Offer(DrillKind.EVEN, even),
    )


def _override_load(sandbox: Sandbox, drill: Drill) -> bool:
    """Tell the workload; it looks ten times a second."""
    if not sandbox.has_workload:
        raise UsageError(
            f"No load runs on sandbox {sandbox.name!r}.",
            next=f"Start one: trimtab sandbox load --detach --name {sandbox.name}",
        )
    now = read_overrides(sandbox.overrides_path)
    if drill.kind is DrillKind.SKEW:
        if not drill.partitions:
            raise UsageError(f"Nothing is sent to {drill.on}.", next="Choose another one.")
        now = replace(now, skew=Skew(drill.on, drill.times, drill.partitions))
    elif drill.kind is DrillKind.EVEN:
        if now.skew is None:
            return False
        now = replace(now, skew=None)
    else:
        assert drill.group is not None
        if drill.group not in group_ids():
            known = ", ".join(group_ids())
            raise UsageError(f"The load has no {drill.on}.", next=f"It has {known}.")
        more = now.more.get(drill.group, 0) + (1 if drill.kind is DrillKind.JOIN else -1)
        if more < 0:
            raise UsageError(f"No consumer was added to {drill.on}.")
        now = replace(now, more={**now.more, drill.group: more})
    write_overrides(sandbox.overrides_path, now)
    return True


# -- a simulated cluster --------------------------------------------------------------------------


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
                client.stop_broker(drill.node)
            case DrillKind.START:
                client.start_broker(drill.node)
            case DrillKind.JOIN:
                client.change_members(drill.group or "", 1)
            case DrillKind.LEAVE:
                client.change_members(drill.group or "", -1)
            case DrillKind.SKEW:
                client.skew(drill.on, drill.times, drill.partitions)
            case DrillKind.EVEN:
                client.clear_skew()
            case DrillKind.FILL:
                (logs,) = client.describe_log_dirs([drill.node])
                client.fill_disk(drill.node, logs.log_dirs[-1].path)
            case DrillKind.EMPTY:
                client.free_disk(drill.node)
                client.stop_broker(drill.node)
                client.start_broker(drill.node)
        return True

    def close(self) -> None:
        self._client.close()
