"""Drills on real brokers of this machine: their processes, their disks, and the load on them."""

from __future__ import annotations

from dataclasses import replace

from core.cluster.drills import full_disk
from core.cluster.drills.drill import (
    Drill,
    DrillKind,
    Offer,
    broker_drill,
    disk_drill,
    group_drill,
    skew_drills,
)
from core.cluster.sandbox import load_overrides
from core.cluster.sandbox.load_overrides import Skew
from core.cluster.sandbox.nodes import Node, Role
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import group_ids, topic_names
from core.cluster.state import ClusterState
from core.errors import UsageError

NO_LOAD = "no load runs on it: trimtab sandbox load starts one"


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
        found = Sandbox.open(self._sandbox)
        if found.cluster_id != self._cluster_id:
            raise UsageError(f"{self.name} is another cluster by now.".capitalize())
        return found

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        sandbox = self._open()
        brokers = [one for one in sandbox.status() if one.node.role is Role.BROKER]
        up = [one.node for one in brokers if one.alive]
        down = [one.node for one in brokers if not one.alive]
        full = [node for node in sandbox.nodes if node in (*up, *down) and full_disk.is_full(node)]
        return (
            Offer(DrillKind.KILL, _brokers(DrillKind.KILL, up), "no broker is up"),
            Offer(DrillKind.STOP, _brokers(DrillKind.STOP, up), "no broker is up"),
            *_unless_empty(Offer(DrillKind.START, _brokers(DrillKind.START, down))),
            *_load_offers(sandbox, state),
            Offer(
                DrillKind.FILL,
                _disks(DrillKind.FILL, [node for node in up if node not in full])
                if full_disk.is_supported()
                else (),
                "no broker is up" if full_disk.is_supported() else full_disk.NO_DEV_FULL,
            ),
            *_unless_empty(Offer(DrillKind.EMPTY, _disks(DrillKind.EMPTY, full))),
        )

    def run(self, drill: Drill) -> bool:
        sandbox = self._open()
        match drill.kind:
            case DrillKind.KILL:
                return sandbox.kill(_id(drill))
            case DrillKind.STOP:
                return sandbox.stop(_id(drill))
            case DrillKind.START:
                return sandbox.start(_id(drill))
            case DrillKind.FILL:
                return full_disk.fill_and_wait(sandbox, sandbox.node(_id(drill)))
            case DrillKind.EMPTY:
                return full_disk.empty_and_restart(sandbox, sandbox.node(_id(drill)))
            case _:
                return _override_load(sandbox, drill)

    def close(self) -> None:
        """Nothing is held."""


def _id(drill: Drill) -> int:
    assert drill.broker is not None
    return drill.broker


def _unless_empty(offer: Offer) -> tuple[Offer, ...]:
    """Return an offer to undo something if there is something to undo."""
    return (offer,) if offer.drills else ()


def _brokers(kind: DrillKind, nodes: list[Node]) -> tuple[Drill, ...]:
    return tuple(broker_drill(kind, node.id) for node in nodes)


def _disks(kind: DrillKind, nodes: list[Node]) -> tuple[Drill, ...]:
    return tuple(disk_drill(kind, node.id, str(full_disk.log_dir_to_fill(node))) for node in nodes)


# -- the load --------------------------------------------------------------------------------------


def _load_offers(sandbox: Sandbox, state: ClusterState) -> tuple[Offer, ...]:
    if not sandbox.has_workload:
        return (Offer(DrillKind.JOIN, why_not=NO_LOAD), Offer(DrillKind.SKEW, why_not=NO_LOAD))
    now = load_overrides.read_overrides(sandbox.overrides_path)
    there = {topic.name for topic in state.topics}
    joined = tuple(group for group, more in sorted(now.more.items()) if more)
    even = () if now.skew is None else (Drill(DrillKind.EVEN, now.skew.of),)
    return (
        Offer(DrillKind.JOIN, tuple(group_drill(DrillKind.JOIN, id) for id in group_ids())),
        *_unless_empty(
            Offer(DrillKind.LEAVE, tuple(group_drill(DrillKind.LEAVE, id) for id in joined))
        ),
        Offer(DrillKind.SKEW, skew_drills(state, topic_names() & there), "its topics are gone"),
        *_unless_empty(Offer(DrillKind.EVEN, even)),
    )


def _override_load(sandbox: Sandbox, drill: Drill) -> bool:
    """Tell the workload; it looks ten times a second."""
    if not sandbox.has_workload:
        raise UsageError(
            f"No load runs on sandbox {sandbox.name!r}.",
            next=f"Start one: trimtab sandbox load --detach --name {sandbox.name}",
        )
    now = load_overrides.read_overrides(sandbox.overrides_path)
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
    load_overrides.write_overrides(sandbox.overrides_path, now)
    return True
