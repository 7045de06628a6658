"""What a plan makes brokers copy: from leaders to new replicas, and between their own log dirs.

Copies between log dirs have one quota a broker (`replica.alter.log.dirs.io.max.bytes.per.second`),
in which nothing else counts: unlike replication they start without credit (seen on Kafka 4.3.1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
)
from core.cluster.metadata import TopicPartition
from core.cluster.quota import BACKOFF_SECONDS
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.plan import Plan, log_dir_of, moves_with_rows

PARTITION_FETCH_BYTES = 1 << 20
"""replica.fetch.max.bytes."""
PARTITIONS_A_FETCH = 10
"""replica.fetch.response.max.bytes (10 MiB) over the former."""
FETCH_WAIT_SECONDS = 0.5
"""replica.fetch.wait.max.ms: how long a leader holds a fetch for which it has nothing."""
BUSY_BATCH_BYTES = 15_000.0
"""How much is taken to arrive at once on a followed partition; that ends a leader's wait."""


class Side(Enum):
    """A broker's quotas: what it sends as leader, receives as follower, copies between log dirs."""

    LEADER = "leader"
    FOLLOWER = "follower"
    LOG_DIRS = "log-dirs"

    @property
    def does(self) -> str:
        """Return what a broker does on this side, in words."""
        words = {Side.LEADER: "sends", Side.FOLLOWER: "receives"}
        return words.get(self, "copies between log dirs")

    @property
    def list_config(self) -> str:
        """Return the topic list of a side that has one: log dirs are limited as a whole."""
        return LEADER_LIST if self is Side.LEADER else FOLLOWER_LIST

    @property
    def rate_config(self) -> str:
        rates = {Side.LEADER: LEADER_RATE, Side.FOLLOWER: FOLLOWER_RATE}
        return rates.get(self, LOG_DIRS_RATE)


class BrokerSide(NamedTuple):
    broker: int
    side: Side


PerSideRates = Mapping[BrokerSide, int]
"""Lower rates, in bytes/s, of sides that need less than all others."""
NO_PER_SIDE_RATES: PerSideRates = MappingProxyType({})


class Flow(NamedTuple):
    """One fetcher thread: Kafka's followers have one a leader (num.replica.fetchers = 1)."""

    leader: int
    destination: int

    @property
    def sides(self) -> tuple[BrokerSide, BrokerSide]:
        return BrokerSide(self.leader, Side.LEADER), BrokerSide(self.destination, Side.FOLLOWER)


@dataclass(frozen=True, slots=True)
class Copy:
    """One new replica of one partition.

    `in_bytes_per_s` is produced meanwhile and must be fetched, too; `followers` in-sync replicas
    of the partition fetch it from the same leader, and count in its quota.
    """

    tp: TopicPartition
    leader: int
    destination: int
    size_bytes: float
    in_bytes_per_s: float
    followers: int

    @property
    def flow(self) -> Flow:
        return Flow(self.leader, self.destination)


@dataclass(slots=True)
class SideLoad:
    """One broker and side: bytes to copy, and bytes/s that its quota carries besides.

    `background` is what in-sync followers of the moving partitions fetch (leader side), and what
    is produced meanwhile, once for each new replica.
    """

    bytes: float = 0.0
    background: float = 0.0
    sizes_unknown: bool = False
    """Whether `bytes` are without something of unknown size."""
    rates_unknown: bool = False
    """Whether `background` is without something of which nobody knows what is produced to it."""

    def required_bytes_per_s(self, seconds: float) -> float:
        """Return the rate that this broker and side needs to end in `seconds` (closed form).

        Leader: Σ over added (bytes + w·T)/T + Σ w·in-sync followers; follower: the first sum.
        """
        return self.bytes / seconds + self.background


@dataclass(frozen=True)
class PlanCopies:
    """Everything that a plan makes brokers copy between them; `blocked` says why some cannot be.

    `idle_seconds` says how long a fetcher is away once it may fetch nothing that is throttled.
    """

    copies: tuple[Copy, ...]
    idle_seconds: Mapping[Flow, float]
    sizes_unknown: tuple[TopicPartition, ...] = ()
    loads_unknown: tuple[TopicPartition, ...] = ()
    blocked: str | None = None

    @property
    def total_bytes(self) -> int:
        return round(sum(copy.size_bytes for copy in self.copies))

    @cached_property
    def side_loads(self) -> Mapping[BrokerSide, SideLoad]:
        """Return what each broker and side has to carry, by broker."""
        sent: defaultdict[int, SideLoad] = defaultdict(SideLoad)
        received: defaultdict[int, SideLoad] = defaultdict(SideLoad)
        counted: set[TopicPartition] = set()
        unsized, unrated = set(self.sizes_unknown), set(self.loads_unknown)
        for copy in self.copies:
            for load in (sent[copy.leader], received[copy.destination]):
                load.bytes += copy.size_bytes
                load.background += copy.in_bytes_per_s
                load.sizes_unknown |= copy.tp in unsized
                load.rates_unknown |= copy.tp in unrated
            if copy.tp not in counted:
                counted.add(copy.tp)
                sent[copy.leader].background += copy.in_bytes_per_s * copy.followers
        loads = {BrokerSide(broker, Side.LEADER): load for broker, load in sent.items()}
        loads |= {BrokerSide(broker, Side.FOLLOWER): load for broker, load in received.items()}
        return dict(sorted(loads.items(), key=lambda item: (item[0].broker, item[0].side.value)))


def build_copies(state: ClusterState, load: Load, plan: Plan) -> PlanCopies:
    """Return what `plan` makes brokers copy in `state`, one Copy a new replica.

    Partitions that `state` does not have are left out: checks refuse them. What a new replica
    holds already, as one in flight does, is not copied again; one that is being removed holds
    nothing: it is deleted before the plan's own move of its partition begins.
    """
    copies: list[Copy] = []
    sizes_unknown: list[TopicPartition] = []
    loads_unknown: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    moves_and_rows = list(moves_with_rows(state, plan))
    rows = np.array([row for _, row in moves_and_rows], np.int64)
    facts = zip(
        moves_and_rows,
        state.leader[rows].tolist(),
        state.partition_size_bytes[rows].tolist(),
        load.in_bytes_per_s[rows].tolist(),
        strict=True,
    )
    for (move, row), leader, size, rate in facts:
        adding = move.adding
        if not adding:
            continue
        if leader < 0:
            leaderless.append(move.tp)
        if size < 0:
            sizes_unknown.append(move.tp)
        known = not math.isnan(rate)
        if not known:
            loads_unknown.append(move.tp)
        at = state.replica_slice(row)
        stays = ~state.removing[at]
        brokers = state.replica_broker[at][stays].tolist()
        held = dict(zip(brokers, state.size_bytes[at][stays].tolist(), strict=True))
        in_sync = list(compress(brokers, state.in_sync[at][stays].tolist()))
        copies.extend(
            Copy(
                tp=move.tp,
                leader=leader,
                destination=destination,
                size_bytes=float(max(0, size - max(0, held.get(destination, 0)))),
                in_bytes_per_s=rate if known else 0.0,
                followers=sum(b not in (leader, destination) for b in in_sync),
            )
            for destination in adding
            if destination not in in_sync
        )
    return PlanCopies(
        copies=tuple(copies),
        idle_seconds=_idle_seconds(state, load, plan, {copy.flow for copy in copies}),
        sizes_unknown=tuple(sizes_unknown),
        loads_unknown=tuple(loads_unknown),
        blocked=_blocked(state, copies, leaderless),
    )


def min_seconds(what: PlanCopies, rate_bytes_per_s: float) -> float | None:
    """Return how long copying takes at least when brokers and sides are limited to a rate.

    The closed form, for all at once; None when some side never catches up with what is produced.
    """
    seconds = 0.0
    for load in what.side_loads.values():
        if load.bytes > 0:
            if rate_bytes_per_s <= load.background:
                return None
            seconds = max(seconds, load.bytes / (rate_bytes_per_s - load.background))
    return seconds


def _blocked(
    state: ClusterState, copies: Iterable[Copy], leaderless: list[TopicPartition]
) -> str | None:
    if leaderless:
        more = f" and {len(leaderless) - 1} more" if len(leaderless) > 1 else ""
        return f"{leaderless[0]}{more} has no leader to copy from."
    known, alive = state.broker_by_id, state.alive_ids
    down = {c.destination for c in copies if c.destination in known}.difference(alive)
    if down:
        return f"Broker {min(down)} is down: what should go there waits until it is back."
    return None


def _idle_seconds(
    state: ClusterState, load: Load, plan: Plan, flows: Iterable[Flow]
) -> dict[Flow, float]:
    """Return for each flow how long its fetcher waits when the quota leaves it nothing.

    A follower with nothing else to fetch from that leader sleeps; one that follows quiet
    partitions waits at the leader; busy ones bring it back at once.
    """
    ordered = sorted(set(flows))
    if not ordered:
        return {}
    moving = np.zeros(state.partition_count, np.bool_)
    moving[[row for _, row in moves_with_rows(state, plan)]] = True
    of = state.partition_of_replica
    followers = np.flatnonzero(
        np.isin(state.replica_broker, [flow.destination for flow in ordered])
        & ~(state.is_leader | state.adding | moving[of])
    )
    leaders = state.leader[of[followers]].astype(np.int64)
    keys = leaders << 32 | state.replica_broker[followers]
    slots = np.array([flow.leader << 32 | flow.destination for flow in ordered])
    at = np.minimum(np.searchsorted(slots, keys), len(slots) - 1)
    has_flow = slots[at] == keys
    count = np.bincount(at[has_flow], minlength=len(slots))
    rates = np.nan_to_num(load.in_bytes_per_s)[of[followers[has_flow]]]
    total = np.bincount(at[has_flow], rates, len(slots))
    return {
        flow: wait_seconds(rate) if followed else BACKOFF_SECONDS
        for flow, rate, followed in zip(ordered, total.tolist(), count.tolist(), strict=True)
    }


def wait_seconds(in_bytes_per_s: float) -> float:
    """Return how long a fetch of partitions produced at this rate waits at the leader."""
    if in_bytes_per_s <= 0:
        return FETCH_WAIT_SECONDS
    return min(FETCH_WAIT_SECONDS, BUSY_BATCH_BYTES / in_bytes_per_s)


# -- between log dirs ----------------------------------------------------------------------------


SWAP_SECONDS = 1.0
"""A copy that has caught up takes the replica's place when its fetcher next wakes: its back-off."""
SLOW_FACTOR, SLOW_SECONDS = 1.1, 2.0
"""What the slow end of the range allows besides: a fetch too many, and a second back-off."""


@dataclass(frozen=True)
class LogDirCopies:
    """What a plan makes each broker copy between its log dirs; `down` is a broker that is down."""

    sides: Mapping[BrokerSide, SideLoad] = field(default_factory=dict)
    unknown: tuple[TopicPartition, ...] = ()
    loads_unknown: tuple[TopicPartition, ...] = ()
    down: int | None = None

    def __bool__(self) -> bool:
        return bool(self.sides or self.unknown)

    @cached_property
    def total_bytes(self) -> int:
        return round(sum(load.bytes for load in self.sides.values()))

    def seconds(
        self, rate_bytes_per_s: float, per_side_rates: PerSideRates = NO_PER_SIDE_RATES
    ) -> dict[BrokerSide, float]:
        """Return how long each broker copies at a rate, or at its own; infinite is never."""
        seconds_by_side = {}
        for side, load in self.sides.items():
            own = min(rate_bytes_per_s, per_side_rates.get(side, rate_bytes_per_s))
            free = own - load.background
            seconds_by_side[side] = load.bytes / free + SWAP_SECONDS if free > 0 else float("inf")
        return seconds_by_side

    def needs(self, seconds: float) -> dict[BrokerSide, float] | None:
        """Return the rate at which each broker surely ends in time; None when none does."""
        left = (seconds - SLOW_SECONDS) / SLOW_FACTOR - SWAP_SECONDS
        if left <= 0:
            return None
        return {side: load.required_bytes_per_s(left) for side, load in self.sides.items()}


def slow_seconds(seconds: float) -> float:
    """Return the slow end of a time's range."""
    return seconds * SLOW_FACTOR + SLOW_SECONDS


def build_log_dir_copies(state: ClusterState, load: Load, plan: Plan) -> LogDirCopies:
    """Return what `plan` makes brokers copy between their log dirs in `state`.

    What is produced meanwhile is copied, too. A replica that lies where it is to lie is left out.
    """
    sides: defaultdict[BrokerSide, SideLoad] = defaultdict(SideLoad)
    unknown: list[TopicPartition] = []
    loads_unknown: list[TopicPartition] = []
    down: int | None = None
    for move, row in moves_with_rows(state, (move for move in plan if move.log_dirs is not None)):
        sizes = state.size_bytes[state.replica_slice(row)].tolist()
        held = dict(zip(state.replicas(row), sizes, strict=True))
        for broker, path in move.dir_moves.items():
            if log_dir_of(state, move.tp, broker) == path:
                continue
            size = held.get(broker, -1)
            size = int(state.partition_size_bytes[row]) if size < 0 else size
            side_load = sides[BrokerSide(broker, Side.LOG_DIRS)]
            if size < 0:
                unknown.append(move.tp)
                side_load.sizes_unknown = True
            if np.isnan(load.in_bytes_per_s[row]):
                loads_unknown.append(move.tp)
                side_load.rates_unknown = True
            side_load.bytes += max(size, 0)
            side_load.background += float(np.nan_to_num(load.in_bytes_per_s[row]))
            known = state.broker_by_id.get(broker)
            if known is not None and not known.alive:
                down = broker if down is None else down
    return LogDirCopies(
        dict(sides), tuple(dict.fromkeys(unknown)), tuple(dict.fromkeys(loads_unknown)), down
    )
