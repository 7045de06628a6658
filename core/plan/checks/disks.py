"""Checks of what a whole plan does to brokers: their disks, their share of load and leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.snapshot.format import Float64, Load
from core.plan.checks.catalogue import Finding, broker_words, finding
from core.plan.disk_space import (
    disks_of,
    free_bytes,
    growth_bytes,
    retention_unknown,
    still_coming,
    whole_bytes,
)
from core.plan.effect import effect_of
from core.plan.plan import Move
from core.plan.planner.model.problem import BAND
from core.units import format_bytes, format_rate

FULL = 0.85
"""The share of a disk above which a plan that fills it so far is unwise."""


class Arrival(NamedTuple):
    """A replica that comes to a broker: its bytes, and by how much more it has grown by then."""

    tp: TopicPartition
    bytes: int
    growth_bytes: int

    @property
    def grown_bytes(self) -> int:
        return self.bytes + self.growth_bytes


Arrivals = dict[int, list[Arrival]]
"""What comes to each broker."""


def disks(
    state: ClusterState, load: Load, moves: Sequence[Move], seconds: float
) -> Iterator[Finding]:
    """Compare free disk with what arrives, by moves in flight too.

    Nothing that leaves counts before it has left.
    """
    rows = (state.find(move.tp) for move in moves)
    in_flight = still_coming(state, beside={row for row in rows if row is not None})
    for broker, sizes in sorted(arrivals(state, load, moves, seconds).items()):
        yield from filled(state, broker, sizes, in_flight.get(broker, 0))


def not_compared(state: ClusterState, moves: Sequence[Move]) -> Mapping[str, tuple[int, ...]]:
    """Return which checks of brokers could not be made, by id, and of which brokers.

    Of brokers that receive something: what is free on their disks is not known, or what they can
    take in and send was never configured.
    """
    known = state.broker_by_id
    to = sorted({broker for move in moves for broker in move.adding if broker in known})
    led = sorted({move.after[0] for move in moves if move.after and move.after[0] in known})
    capacities = ((b, known[b]) for b in sorted({*to, *led}))
    found = {
        "disk": tuple(b for b in to if free_bytes(disks_of(known[b].log_dirs)) is None),
        "capacity": tuple(
            id
            for id, one in capacities
            if None in (one.in_capacity_bytes_per_s, one.out_capacity_bytes_per_s)
        ),
    }
    return {id: brokers for id, brokers in found.items() if brokers}


def not_compared_words(state: ClusterState, blind: Mapping[str, Sequence[int]]) -> list[str]:
    """Say what was not compared; capacities only where some broker has one."""
    said = []
    if "disk" in blind:
        said.append(f"What is free on the disks of {broker_words(blind['disk'])} is not known")
    if "capacity" in blind and any(b.in_capacity_bytes_per_s for b in state.brokers):
        said.append(f"What {broker_words(blind['capacity'])} can carry is not configured")
    return [f"{one}: not compared." for one in said]


def arrivals(state: ClusterState, load: Load, moves: Iterable[Move], seconds: float) -> Arrivals:
    """Return what these moves bring to brokers, grown as it will be after so many seconds."""
    arriving: defaultdict[int, list[Arrival]] = defaultdict(list)
    for move in moves:
        index = state.find(move.tp)
        if index is None:
            continue
        size = max(0, int(state.partition_size_bytes[index]))
        arrival = Arrival(move.tp, size, growth_bytes(state, load, index, seconds))
        for broker in move.adding:
            arriving[broker].append(arrival)
    return dict(arriving)


def filled(
    state: ClusterState, id: int, coming: Sequence[Arrival], others: int
) -> Iterator[Finding]:
    """Say whether a broker's disks have room for what arrives, and for `others` in flight."""
    there = disks_of(state.broker_by_id[id].log_dirs) if id in state.broker_by_id else ()
    free = free_bytes(there)
    if free is None or not coming:
        return
    largest = max(disk.usable_bytes or 0 for disk in there)
    tps = [one.tp for one in coming]
    incoming = sum(one.grown_bytes for one in coming)
    biggest = max(coming, key=lambda one: one.grown_bytes)
    if incoming + others > free:
        beside = f", and {format_bytes(others)} are still coming by moves in flight"
        yield finding(
            "disk",
            f"Broker {id} has {format_bytes(free)} free{beside if others else ''}; "
            f"the plan brings {format_bytes(incoming)}, {growth_words(state, coming)}.",
            tps,
            id,
        )
    elif biggest.grown_bytes > largest:
        yield finding(
            "disk",
            f"No log dir of broker {id} has room for {biggest.tp} "
            f"({format_bytes(biggest.grown_bytes)}; the emptiest has {format_bytes(largest)}).",
            [biggest.tp],
            id,
        )
    elif capacity := whole_bytes(there):
        share = 1 - (free - incoming - others) / capacity
        if share > FULL:
            yield finding(
                "disk-fuller",
                f"The disks of broker {id} get {share:.0%} full before anything leaves them, "
                f"{growth_words(state, coming)}.",
                tps,
                id,
            )


def growth_words(state: ClusterState, coming: Iterable[Arrival]) -> str:
    """Say that growth counts, and where it cannot be known what retention takes off it."""
    unknown = sorted(
        {
            one.tp.topic
            for one in coming
            if one.growth_bytes
            and (topic := state.topic(one.tp.topic)) is not None
            and retention_unknown(topic)
        }
    )
    if not unknown:
        return "growth meanwhile included"
    of = unknown[0] if len(unknown) == 1 else f"{len(unknown)} topics"
    return f"growth meanwhile included (the retention of {of} is not known: as if none)"


def hotter(state: ClusterState, load: Load, moves: Iterable[Move]) -> Iterator[Finding]:
    """Say which broker the plan lifts furthest above the mean of those that are alive.

    By what is produced to leaders there, which is what `in` means on the screen.
    """
    effect = effect_of(state, load, with_rates(state, load, moves))
    yield from raised(state, effect.before.in_bytes_per_s, effect.after.in_bytes_per_s)


def with_rates(state: ClusterState, load: Load, moves: Iterable[Move]) -> list[Move]:
    """Return the moves of partitions of which what is produced to them is known."""
    rows = ((move, state.find(move.tp)) for move in moves)
    return [m for m, row in rows if row is not None and not np.isnan(load.in_bytes_per_s[row])]


def raised(
    state: ClusterState, before: Float64, after: Float64, only: int | None = None
) -> Iterator[Finding]:
    """Say which broker, or whether `only` this, ends above the fair share by more than before."""
    if np.isnan(after).all():
        return
    alive = np.array([broker.alive for broker in state.brokers])
    fair = float(after[alive].mean()) if alive.any() else 0.0
    if fair <= 0:
        return
    lifted = (after > before) & (after > fair * (1 + BAND))
    if only is not None:
        lifted &= state.broker_ids == only
    if not lifted.any():
        return
    worst = int(np.argmax(np.where(lifted, after, -1.0)))
    yield finding(
        "hotter-broker",
        f"Broker {state.broker_ids[worst]} ends at {format_rate(after[worst])} in, "
        f"{after[worst] / fair - 1:.0%} above its fair share of {format_rate(fair)}.",
        broker=int(state.broker_ids[worst]),
    )


def leader_skew(state: ClusterState, moves: Sequence[Move]) -> Iterator[Finding]:
    """Compare how many partitions prefer each broker as leader, now and after.

    What is done already, or on its way, is so now.
    """
    changed = [
        (held[0], move.after[0])
        for move in moves
        if (row := state.find(move.tp)) is not None
        and (held := state.replicas(row))
        and held[0] != move.after[0]
    ]
    if not changed:
        return
    first = state.replica_start[:-1][np.diff(state.replica_start) > 0]
    position = np.searchsorted(state.broker_ids, state.replica_broker[first])
    before = np.bincount(position, minlength=len(state.brokers))
    after = before.copy()
    at = {int(id): i for i, id in enumerate(state.broker_ids)}
    for was, becomes in changed:
        after[at[becomes]] += 1
        if was in at:
            after[at[was]] -= 1
    alive = np.array([broker.alive for broker in state.brokers])
    fair = after[alive].mean() if alive.any() else 0.0
    worst = int(np.argmax(after))
    if after[worst] > before.max() and after[worst] > fair * (1 + BAND):
        yield finding(
            "leader-skew",
            f"Broker {state.broker_ids[worst]} becomes preferred leader of {after[worst]} "
            f"partitions (now {before[worst]}, fair share {fair:.1f}).",
            broker=int(state.broker_ids[worst]),
        )
