"""Who leads, who should, what an election can do, and whether leaders return by themselves.

The preferred leader of a partition is its first replica; a broker's imbalance is what
Kafka's controller counts: the part of the partitions that prefer it and are led by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from core.cluster.client import ClusterClient
from core.cluster.configs import Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import NO_LEADER, TopicPartition
from core.cluster.state import ClusterState, Int64
from core.errors import AccessDeniedError, UnreachableError


@dataclass(frozen=True, slots=True)
class BrokerLeaders:
    """How many of some partitions a broker leads, and how many it should."""

    broker: int
    alive: bool
    prefers: int
    """Partitions of which it is the preferred leader."""
    leads: int
    away: int
    """Those that prefer it and are led by another, or by nobody."""

    @property
    def imbalance(self) -> float:
        return self.away / self.prefers if self.prefers else 0.0


@dataclass(frozen=True, slots=True)
class Election:
    """One partition whose leader could change; None is nobody, `obstacle` why it cannot be."""

    tp: TopicPartition
    leader: int | None
    to: int | None
    in_sync: tuple[int, ...]
    obstacle: str = ""
    down: tuple[int, ...] = ()
    """For an unclean one, the replicas that are down: what only they have is lost."""


def leader_imbalance(state: ClusterState, rows: Int64) -> tuple[BrokerLeaders, ...]:
    """Return every broker's leaders among the partitions `rows`, by id."""
    preferred, leader = _preferred(state)[rows], state.leader[rows]
    away = preferred[preferred != leader]

    def count(of: np.ndarray, broker: int) -> int:
        return int((of == broker).sum())

    return tuple(
        BrokerLeaders(b.id, b.alive, count(preferred, b.id), count(leader, b.id), count(away, b.id))
        for b in state.brokers
    )


def preferred_elections(state: ClusterState, rows: Int64) -> tuple[Election, ...]:
    """Return those of the partitions `rows` that their preferred replica does not lead."""
    preferred = _preferred(state)
    elections = []
    for row in rows[preferred[rows] != state.leader[rows]].tolist():
        partition, to = state.row(row), int(preferred[row])
        obstacle = ""
        if not state.broker_by_id[to].alive:
            obstacle = f"preferred replica {to} is down"
        elif to not in partition.isr:
            obstacle = f"preferred replica {to} is not in the ISR"
        leader = None if partition.leader == NO_LEADER else partition.leader
        elections.append(Election(partition.tp, leader, to, partition.isr, obstacle))
    return tuple(elections)


def unclean_elections(state: ClusterState, rows: Int64) -> tuple[Election, ...]:
    """Return those of the partitions `rows` that nobody leads, with who would after an unclean one.

    That is the first live replica, as Kafka's controller takes it. What it has not copied is lost.
    """
    elections = []
    for row in rows[state.leader[rows] == NO_LEADER].tolist():
        partition = state.row(row)
        to = next((b for b in partition.replicas if state.broker_by_id[b].alive), None)
        obstacle = "" if to is not None else "none of its replicas is up"
        down = tuple(b for b in partition.replicas if not state.broker_by_id[b].alive)
        elections.append(Election(partition.tp, None, to, partition.isr, obstacle, down))
    return tuple(elections)


def partition_rows(state: ClusterState, topics: Iterable[str] | None) -> Int64:
    """Return the row indices of these topics' partitions, all for None."""
    if topics is None:
        return np.arange(state.partition_count)
    return np.array([row for topic in topics for row in state.partitions_of(topic)], np.int64)


def _preferred(state: ClusterState) -> np.ndarray:
    return state.replica_broker[state.replica_start[:-1]]


REBALANCE_CONFIGS = (
    "auto.leader.rebalance.enable",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
)
"""What decides whether leaders return by themselves. KRaft brokers do not report the last one:
their controller acts on any imbalance."""
ENABLED, INTERVAL, _ = REBALANCE_CONFIGS
DEFAULT_INTERVAL_SECONDS = 300.0
"""Kafka's own interval, of brokers that do not report theirs."""

RebalanceSettings = Mapping[int, Mapping[str, str | None] | Fault]


def fetch_rebalance_settings(
    client: ClusterClient, state: ClusterState
) -> dict[int, Mapping[str, str | None] | Fault]:
    """Return what live brokers report of the automatic return of leaders, or the fault instead."""
    alive = state.alive_ids
    try:
        answers = client.describe_configs([Resource.broker(b) for b in alive], REBALANCE_CONFIGS)
    except (AccessDeniedError, UnreachableError) as error:
        return dict.fromkeys(alive, Fault("NOT_KNOWN", error.title))
    settings: dict[int, Mapping[str, str | None] | Fault] = {}
    for broker in alive:
        answer = answers[Resource.broker(broker)]
        settings[broker] = (
            answer
            if isinstance(answer, Fault)
            else {name: answer[name].value for name in REBALANCE_CONFIGS if name in answer}
        )
    return settings


def rebalance_interval_seconds(answers: RebalanceSettings) -> float | None:
    """Return how often leaders return by themselves; None where no broker says that they do."""
    intervals = [
        float(values.get(INTERVAL) or DEFAULT_INTERVAL_SECONDS)
        for values in answers.values()
        if not isinstance(values, Fault) and values.get(ENABLED) == "true"
    ]
    return max(intervals, default=None)
