"""Moves between log dirs of a simulated cluster's brokers, and where its replicas lie."""

from __future__ import annotations

from collections.abc import Sequence

from core.cluster.client import ClusterClient
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import ANY, Move, Plan
from core.run.steps import MoveDirs, Step

ONE, TWO = "/var/lib/kafka/0", "/var/lib/kafka/1"
OTHER = {ONE: TWO, TWO: ONE}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def replica_locations(client: ClusterClient, tp: TopicPartition) -> dict[int, tuple[str, ...]]:
    """Return where the replicas of a partition lie, by broker, and then their copies."""
    state = client.describe_cluster()
    answers = client.describe_log_dirs([b.id for b in state.brokers if b.alive])
    dirs_by_broker: dict[int, tuple[str, ...]] = {}
    for answer in answers:
        logs = [log for log in answer.replicas if (log.topic, log.partition) == tp]
        if logs:
            ordered = sorted(logs, key=lambda log: log.future)
            dirs_by_broker[answer.broker] = tuple(log.log_dir for log in ordered)
    return dirs_by_broker


def here(client: ClusterClient, tp: TopicPartition, broker: int) -> str:
    return replica_locations(client, tp)[broker][0]


def across(client: SimulatedCluster, tp: TopicPartition, brokers: Sequence[int]) -> Move:
    """Return the move of a partition's replicas on `brokers` to the other log dir of each."""
    state = client.describe_cluster()
    index = state.find(tp)
    assert index is not None
    held = state.replicas(index)
    now = {broker: here(client, tp, broker) for broker in brokers}
    return Move(
        tp,
        held,
        held,
        None,
        tuple(OTHER[now[b]] if b in brokers else ANY for b in held),
        tuple(now.get(b, ANY) for b in held),
    )


def plan(client: SimulatedCluster, *moves: Move) -> Plan:
    return Plan.of(moves, cluster_id=client.describe_cluster().cluster_id)


def moving(step: Step) -> bool:
    return isinstance(step, MoveDirs)
