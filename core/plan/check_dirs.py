"""Checks of the log dirs that a plan names: whether brokers have them, and room in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from core.cluster.state import ClusterState, TopicPartition
from core.load.snapshot import Load
from core.plan.findings import Finding, finding
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
    """Compare the free space of each named log dir with what is to arrive in it.

    What leaves it meanwhile does not count before it has left: both copies are there until then.
    """
    arriving: defaultdict[tuple[int, str], list[tuple[TopicPartition, int]]] = defaultdict(list)
    grown = np.nan_to_num(load.in_bytes_per_s) * seconds
    for move in moves:
        index = state.find(move.tp)
        if index is None:
            continue
        size = max(0, int(state.partition_size_bytes[index])) + round(float(grown[index]))
        for place in move.wanted_dirs.items():
            if log_dir_of(state, move.tp, place[0]) != place[1]:
                arriving[place].append((move.tp, size))
    for (id, path), sizes in sorted(arriving.items()):
        broker = state.broker_by_id.get(id)
        there = [d for d in broker.log_dirs if d.path == path] if broker else []
        usable = there[0].usable_bytes if there else None
        incoming = sum(size for _, size in sizes)
        if usable is not None and incoming > usable:
            yield finding(
                "disk",
                f"Log dir {path} of broker {id} has {format_bytes(usable)} free; the plan brings "
                f"{format_bytes(incoming)}, growth meanwhile included.",
                [tp for tp, _ in sizes],
            )
