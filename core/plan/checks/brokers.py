"""Checks of a whole plan's effect on brokers: disks, load and leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import alive_brokers
from core.plan.checks.catalogue import Finding, finding
from core.plan.disk_space import (
    Disk,
    disks_of,
    free_bytes,
    growth_bytes,
    incoming_bytes,
    retention_unknown,
    whole_bytes,
)
from core.plan.effect import BAND, BrokerUsage
from core.plan.plan import Move, log_dir_of, moves_with_rows
from core.units import format_bytes, format_rate, name_list

NOTICED_BYTES_PER_S = 1.0
"""What a sum of many rates may be off by."""


def has_capacities(state: ClusterState) -> bool:
    """Return whether any broker says what it can take in or send."""
    return any(
        broker.in_capacity_bytes_per_s is not None or broker.out_capacity_bytes_per_s is not None
        for broker in state.brokers
    )


def find_over_capacity(
    state: ClusterState, before: BrokerUsage, after: BrokerUsage, only: int | None = None
) -> Iterator[Finding]:
    """Say which brokers, or whether `only` this, get more than they can take in or send.

    Those that are over it already, and get no more, are none of the plan's doing.
    """
    if not has_capacities(state):
        return
    can_take = np.array([broker.in_capacity_bytes_per_s for broker in state.brokers], np.float64)
    can_send = np.array([broker.out_capacity_bytes_per_s for broker in state.brokers], np.float64)
    taken = before.received_bytes_per_s, after.received_bytes_per_s, can_take
    sent = before.out_bytes_per_s, after.out_bytes_per_s, can_send
    excesses = [
        (id, f"Broker {id} ends at {format_rate(then[i])} {words} {format_rate(limit[i])}.")
        for (was, then, limit), words in ((taken, "in; it can take in"), (sent, "out; it can send"))
        for i, id in enumerate(state.broker_ids.tolist())
        if then[i] > limit[i] and then[i] > was[i] + NOTICED_BYTES_PER_S and only in (None, id)
    ]
    for id, sentence in sorted(excesses, key=lambda excess: excess[0]):
        yield finding("capacity", sentence, broker=id)


def moves_with_rates(state: ClusterState, load: Load, moves: Iterable[Move]) -> list[Move]:
    """Return the moves of partitions of which what is produced to them is known."""
    moves_and_rows = moves_with_rows(state, moves)
    return [move for move, row in moves_and_rows if not np.isnan(load.in_bytes_per_s[row])]


def find_above_fair_share(
    state: ClusterState, before: BrokerUsage, after: BrokerUsage, only: int | None = None
) -> Iterator[Finding]:
    """Say which broker, or whether `only` this, is lifted furthest above its fair share.

    By what is produced to leaders there, which is what `in` means on the screen.
    """
    was, now = before.in_bytes_per_s, after.in_bytes_per_s
    if np.isnan(now).all():
        return
    alive = alive_brokers(state)
    fair = float(now[alive].mean()) if alive.any() else 0.0
    if fair <= 0:
        return
    lifted = (now > was) & (now > fair * (1 + BAND))
    if only is not None:
        lifted &= state.broker_ids == only
    if not lifted.any():
        return
    worst = int(np.argmax(np.where(lifted, now, -1.0)))
    yield finding(
        "hotter-broker",
        f"Broker {state.broker_ids[worst]} ends at {format_rate(now[worst])} in, "
        f"{now[worst] / fair - 1:.0%} above its fair share of {format_rate(fair)}.",
        broker=int(state.broker_ids[worst]),
    )


def check_leader_skew(state: ClusterState, moves: Sequence[Move]) -> Iterator[Finding]:
    """Compare how many partitions prefer each broker as leader, now and after."""
    changed = [
        (held[0], move.after[0])
        for move, row in moves_with_rows(state, moves)
        if (held := state.replicas(row)) and held[0] != move.after[0]
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
    alive = alive_brokers(state)
    fair = after[alive].mean() if alive.any() else 0.0
    worst = int(np.argmax(after))
    if after[worst] > before.max() and after[worst] > fair * (1 + BAND):
        yield finding(
            "leader-skew",
            f"Broker {state.broker_ids[worst]} becomes preferred leader of {after[worst]} "
            f"partitions (now {before[worst]}, fair share {fair:.1f}).",
            broker=int(state.broker_ids[worst]),
        )


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


def check_disks(
    state: ClusterState, load: Load, moves: Sequence[Move], seconds: float
) -> Iterator[Finding]:
    """Compare free disk with all that arrives; nothing that leaves counts before it has left."""
    rows = {row for _, row in moves_with_rows(state, moves)}
    in_flight = incoming_bytes(state, excluded_rows=rows)
    for broker, sizes in sorted(arrivals(state, load, moves, seconds).items()):
        yield from check_broker_disks(state, broker, sizes, in_flight.get(broker, 0))


def find_skipped(state: ClusterState, moves: Sequence[Move]) -> Mapping[str, tuple[int, ...]]:
    """Return by check the receiving brokers of which free disk, or capacity, is not known."""
    known = state.broker_by_id
    to = sorted({broker for move in moves for broker in move.adding if broker in known})
    leaders = sorted({move.after[0] for move in moves if move.after and move.after[0] in known})
    capacities = ((b, known[b]) for b in sorted({*to, *leaders}))
    brokers_by_check = {
        "disk": tuple(b for b in to if free_bytes(disks_of(known[b].log_dirs)) is None),
        "capacity": tuple(
            id
            for id, receiver in capacities
            if None in (receiver.in_capacity_bytes_per_s, receiver.out_capacity_bytes_per_s)
        ),
    }
    return {id: brokers for id, brokers in brokers_by_check.items() if brokers}


def skipped_sentences(state: ClusterState, blind: Mapping[str, Sequence[int]]) -> list[str]:
    """Say what was not compared; capacities only where some broker has one."""
    sentences = []
    if "disk" in blind:
        on = f"the disks of {_brokers(blind['disk'])}"
        sentences.append(f"What is free on {on} is not known: not compared.")
    if "capacity" in blind and any(b.in_capacity_bytes_per_s for b in state.brokers):
        brokers = _brokers(blind["capacity"])
        sentences.append(f"What {brokers} can carry is not configured: not compared.")
    return sentences


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {name_list(ids)}"


def arrivals(state: ClusterState, load: Load, moves: Iterable[Move], seconds: float) -> Arrivals:
    """Return what these moves bring to brokers, grown as it will be after so many seconds."""
    arriving: defaultdict[int, list[Arrival]] = defaultdict(list)
    for move, index in moves_with_rows(state, moves):
        size = max(0, int(state.partition_size_bytes[index]))
        arrival = Arrival(move.tp, size, growth_bytes(state, load, index, seconds))
        for broker in move.adding:
            arriving[broker].append(arrival)
    return dict(arriving)


def check_broker_disks(
    state: ClusterState, id: int, coming: Sequence[Arrival], in_flight_bytes: int
) -> Iterator[Finding]:
    """Say whether a broker's disks have room for what arrives, and for what is in flight."""
    there = disks_of(state.broker_by_id[id].log_dirs) if id in state.broker_by_id else ()
    free = free_bytes(there)
    if free is None or not coming:
        return
    largest = max(disk.usable_bytes or 0 for disk in there)
    tps = [arrival.tp for arrival in coming]
    incoming = sum(arrival.grown_bytes for arrival in coming)
    biggest = max(coming, key=lambda arrival: arrival.grown_bytes)
    if incoming + in_flight_bytes > free:
        in_flight = f", and {format_bytes(in_flight_bytes)} are still coming by moves in flight"
        yield finding(
            "disk",
            f"Broker {id} has {format_bytes(free)} free{in_flight if in_flight_bytes else ''}; "
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
        share = 1 - (free - incoming - in_flight_bytes) / capacity
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
    topics = (
        state.topic(name)
        for name in {arrival.tp.topic for arrival in coming if arrival.growth_bytes}
    )
    unknown = [topic.name for topic in topics if topic is not None and retention_unknown(topic)]
    if not unknown:
        return "growth meanwhile included"
    of = unknown[0] if len(unknown) == 1 else f"{len(unknown)} topics"
    return f"growth meanwhile included (the retention of {of} is not known: as if none)"


def check_log_dir_space(
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
    for move, index in moves_with_rows(state, moves):
        size = max(0, int(state.partition_size_bytes[index]))
        size += growth_bytes(state, load, index, seconds)
        for id, path in move.target_log_dirs.items():
            disk = disk_at.get((id, path))
            removed = id in state.row(index).removing
            if disk is not None and (removed or log_dir_of(state, move.tp, id) != path):
                arriving[id, disk].append((move.tp, path, size))
    by_disk = sorted(arriving.items(), key=lambda item: (item[0][0], item[0][1].paths))
    for (id, disk), copies in by_disk:
        incoming = sum(size for _, _, size in copies)
        if disk.usable_bytes is None or incoming <= disk.usable_bytes:
            continue
        free = format_bytes(disk.usable_bytes)
        paths = sorted({path for _, path, _ in copies})
        has = f"Log dir {paths[0]} of broker {id} has {free} free"
        if len(paths) > 1:
            has = f"Log dirs {name_list(paths, None)} of broker {id} have {free} free, on one disk"
        yield finding(
            "disk",
            f"{has}; the plan brings {format_bytes(incoming)}, growth meanwhile included.",
            [tp for tp, _, _ in copies],
            id,
        )
