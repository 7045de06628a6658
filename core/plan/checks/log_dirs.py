"""Checks of the log dirs that a plan names: whether brokers have them, and room on their disks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.snapshot.format import Load
from core.plan.checks.catalogue import Finding, finding
from core.plan.disk_space import Disk, disks_of, growth_bytes
from core.plan.plan import Move, log_dir_of
from core.units import format_bytes


def missing(state: ClusterState, move: Move) -> Iterator[tuple[int, str, str]]:
    """Yield the log dirs that a broker does not have, or that are offline: (broker, path, how)."""
    for broker, path in move.wanted_dirs.items():
        known = state.broker_by_id.get(broker)
        if known is None or not known.log_dirs:
            continue
        found = next((d for d in known.log_dirs if d.path == path), None)
        if found is None:
            yield broker, path, "no"
        elif found.error:
            yield broker, path, "an offline"


def untold(state: ClusterState, move: Move) -> Iterator[int]:
    """Yield the brokers of which a log dir is named and no log dirs are known."""
    for broker in move.wanted_dirs:
        known = state.broker_by_id[broker]
        if known.alive and not known.log_dirs:
            yield broker


def lies_elsewhere(state: ClusterState, move: Move) -> bool:
    """Return whether a replica lies neither where the plan found it nor where it is to go."""
    for broker, path in move.dir_moves.items():
        found = move.found_dirs.get(broker)
        now = log_dir_of(state, move.tp, broker)
        if found is not None and now is not None and now not in (found, path):
            return True
    return False


def copied_within(state: ClusterState, move: Move) -> bool:
    """Return whether a replica that leaves, or changes its log dir, is copied to one already."""
    touched = {*move.removing, *move.dir_moves}
    return any(copy.tp == move.tp and copy.broker in touched for copy in state.dir_copies)


def rooms(
    state: ClusterState, load: Load, moves: Iterable[Move], seconds: float
) -> Iterator[Finding]:
    """Compare the free space of each named log dir's disk with what is to arrive on it.

    What leaves it meanwhile does not count before it has left: both copies are there until then.
    """
    disk_at = {
        (broker.id, path): disk
        for broker in state.brokers
        for disk in disks_of(broker.log_dirs)
        for path in disk.paths
    }
    arriving: defaultdict[tuple[int, Disk], list[tuple[TopicPartition, str, int]]]
    arriving = defaultdict(list)
    for move in moves:
        index = state.find(move.tp)
        if index is None:
            continue
        size = max(0, int(state.partition_size_bytes[index]))
        size += growth_bytes(state, load, index, seconds)
        for id, path in move.wanted_dirs.items():
            disk = disk_at.get((id, path))
            removed = id in state.row(index).removing
            if disk is not None and (removed or log_dir_of(state, move.tp, id) != path):
                arriving[id, disk].append((move.tp, path, size))
    for (id, disk), copies in sorted(
        arriving.items(), key=lambda one: (one[0][0], one[0][1].paths)
    ):
        incoming = sum(size for _, _, size in copies)
        if disk.usable_bytes is None or incoming <= disk.usable_bytes:
            continue
        free = format_bytes(disk.usable_bytes)
        paths = sorted({path for _, path, _ in copies})
        if len(paths) == 1:
            has = f"Log dir {paths[0]} of broker {id} has {free} free"
        else:
            listed = f"{', '.join(paths[:-1])} and {paths[-1]}"
            has = f"Log dirs {listed} of broker {id} have {free} free, on one disk"
        yield finding(
            "disk",
            f"{has}; the plan brings {format_bytes(incoming)}, growth meanwhile included.",
            [tp for tp, _, _ in copies],
            id,
        )
