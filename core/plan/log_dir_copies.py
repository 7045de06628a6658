"""Copies between a broker's own log dirs: how many bytes, and how long they take at a rate. Pure.

A broker has one quota for all of them (`replica.alter.log.dirs.io.max.bytes.per.second`), and
nothing else counts in it: unlike replication it starts without credit (seen on Kafka 4.3.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import NO_PER_SIDE_RATES, BrokerSide, PerSideRates, Side, SideLoad
from core.plan.plan import Plan, log_dir_of

SWAP_SECONDS = 1.0
"""A copy that has caught up takes the replica's place when its fetcher next wakes: its back-off."""
SLOW_FACTOR, SLOW_SECONDS = 1.1, 2.0
"""What the slow end of the range allows besides: a fetch too many, and a second back-off."""


@dataclass(frozen=True)
class LogDirCopies:
    """What a plan makes each broker copy between its log dirs.

    `unknown` are partitions of which the size is not known, `loads_unknown` those of which what is
    produced is not; `down` a broker that is down.
    """

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
        found = {}
        for side, load in self.sides.items():
            free = (
                min(rate_bytes_per_s, per_side_rates.get(side, rate_bytes_per_s)) - load.background
            )
            found[side] = load.bytes / free + SWAP_SECONDS if free > 0 else float("inf")
        return found

    def min_rate(self, seconds: float) -> float | None:
        """Return the least rate at which all of it surely ends in time; None when none does."""
        needs = self.needs(seconds)
        return None if needs is None else max(needs.values(), default=0.0)

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
    for move in plan:
        row = state.find(move.tp) if move.log_dirs is not None else None
        if row is None:
            continue
        held = dict(
            zip(
                state.replicas(row),
                state.size_bytes[state.replica_slice(row)].tolist(),
                strict=True,
            )
        )
        for broker, path in move.dir_moves.items():
            if log_dir_of(state, move.tp, broker) == path:
                continue
            size = held.get(broker, -1)
            size = int(state.partition_size_bytes[row]) if size < 0 else size
            one = sides[BrokerSide(broker, Side.LOG_DIRS)]
            if size < 0:
                unknown.append(move.tp)
                one.sizes_unknown = True
            if np.isnan(load.in_bytes_per_s[row]):
                loads_unknown.append(move.tp)
                one.rates_unknown = True
            one.bytes += max(size, 0)
            one.background += float(np.nan_to_num(load.in_bytes_per_s[row]))
            known = state.broker_by_id.get(broker)
            if known is not None and not known.alive:
                down = broker if down is None else down
    return LogDirCopies(
        dict(sides), tuple(dict.fromkeys(unknown)), tuple(dict.fromkeys(loads_unknown)), down
    )
