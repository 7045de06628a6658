"""Checks of what a whole plan does to brokers: their disks, their share of load and leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from core.cluster.state import ClusterState, TopicPartition
from core.load.snapshot import Load
from core.plan.findings import Finding, finding
from core.plan.impact import impact
from core.plan.plan import Move, Plan
from core.units import format_bytes, format_rate

BAND = 0.10
"""How far above its fair share a broker may be before a plan that puts it there is unwise."""
FULL = 0.85
"""The share of a disk above which a plan that fills it so far is unwise."""


def disks(
    state: ClusterState, load: Load, moves: Iterable[Move], seconds: float
) -> Iterator[Finding]:
    """Compare free disk with what arrives; nothing that leaves counts before it has left."""
    arriving: defaultdict[int, list[tuple[TopicPartition, int]]] = defaultdict(list)
    grown = np.nan_to_num(load.in_bytes_per_s) * seconds
    for move in moves:
        index = state.find(move.tp)
        if index is None:
            continue
        size = max(0, int(state.partition_size_bytes[index]))
        for broker in move.adding:
            arriving[broker].append((move.tp, round(size + float(grown[index]))))
    for id, sizes in sorted(arriving.items()):
        log_dirs = state.broker_by_id[id].log_dirs if id in state.broker_by_id else ()
        usable = [log_dir.usable_bytes for log_dir in log_dirs]
        total = [log_dir.total_bytes for log_dir in log_dirs]
        if not usable or None in usable:
            continue
        free = sum(u for u in usable if u is not None)
        largest = max(u for u in usable if u is not None)
        tps = [tp for tp, _ in sizes]
        incoming = sum(size for _, size in sizes)
        biggest, bytes_of_it = max(sizes, key=lambda item: item[1])
        if incoming > free:
            yield finding(
                "disk",
                f"Broker {id} has {format_bytes(free)} free; the plan brings "
                f"{format_bytes(incoming)}, growth meanwhile included.",
                tps,
            )
        elif bytes_of_it > largest:
            yield finding(
                "disk",
                f"No log dir of broker {id} has room for {biggest} "
                f"({format_bytes(bytes_of_it)}; the emptiest has {format_bytes(largest)}).",
                [biggest],
            )
        elif all(total):
            capacity = sum(t for t in total if t is not None)
            share = 1 - (free - incoming) / capacity
            if share > FULL:
                yield finding("disk-fuller", f"The disks of broker {id} get {share:.0%} full.", tps)


def hotter(
    state: ClusterState, load: Load, moves: Iterable[Move], only: int | None = None
) -> Iterator[Finding]:
    """Say which broker the plan lifts furthest above the mean of those that are alive.

    By what is produced to leaders there, which is what `in` means on the screen.
    """
    told = ~np.isnan(load.in_bytes_per_s)
    known = [move for move in moves if (row := state.find(move.tp)) is not None and told[row]]
    effect = impact(state, load, Plan.of(known))
    before, after = effect.before.in_bytes_per_s, effect.after.in_bytes_per_s
    if np.isnan(after).all():
        return
    alive = np.array([broker.alive for broker in state.brokers])
    fair = float(after[alive].mean()) if alive.any() else 0.0
    if fair <= 0:
        return
    raised = (after > before) & (after > fair * (1 + BAND))
    if only is not None:
        raised &= state.broker_ids == only
    if not raised.any():
        return
    worst = int(np.argmax(np.where(raised, after, -1.0)))
    yield finding(
        "hotter-broker",
        f"Broker {state.broker_ids[worst]} ends at {format_rate(after[worst])} in, "
        f"{after[worst] / fair - 1:.0%} above its fair share of {format_rate(fair)}.",
    )


def leader_skew(state: ClusterState, moves: Sequence[Move]) -> Iterator[Finding]:
    """Compare how many partitions prefer each broker as leader, before and after."""
    changed = [move for move in moves if move.before[:1] != move.after[:1]]
    if not changed:
        return
    first = state.replica_start[:-1][np.diff(state.replica_start) > 0]
    position = np.searchsorted(state.broker_ids, state.replica_broker[first])
    before = np.bincount(position, minlength=len(state.brokers))
    after = before.copy()
    at = {int(id): i for i, id in enumerate(state.broker_ids)}
    for move in changed:
        after[at[move.after[0]]] += 1
        if move.before[0] in at:
            after[at[move.before[0]]] -= 1
    alive = np.array([broker.alive for broker in state.brokers])
    fair = after[alive].mean() if alive.any() else 0.0
    worst = int(np.argmax(after))
    if after[worst] > before.max() and after[worst] > fair * (1 + BAND):
        yield finding(
            "leader-skew",
            f"Broker {state.broker_ids[worst]} becomes preferred leader of {after[worst]} "
            f"partitions (now {before[worst]}, fair share {fair:.1f}).",
        )
