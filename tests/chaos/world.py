"""A simulated cluster that others use too, a plan of sixty moves for it, and the judge of both.

Throttles of every sort are there before the run: unset, static, default for every broker, set on
one broker (lower, equal, higher), named pairs, `*`, a list set to nothing; a move of somebody else
is in flight and outlasts the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simulated import small_spec

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigValue,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import Plan
from core.run.journal.move_state import Phase
from core.run.journal.run_state import RunState

MB = 1_000_000
RATE = 1 * MB
BATCH = 20
EVERY_BROKER = Resource(ResourceKind.BROKER, "")
THEIRS = TopicPartition("shared", 10)
THEIR_TARGET = (5, 8)
TOPICS = ("bare", "blank", "half", "named", "shared", "star")

Configs = Mapping[Resource, Mapping[str, ConfigValue]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a cluster held before a run: every config with its source, every replica list."""

    configs: Configs
    replicas: Mapping[TopicPartition, tuple[int, ...]]


def _ring(place: int) -> int:
    return 1 + place % 6


def _before(p: int) -> tuple[int, int]:
    return _ring(p), _ring(p + 1)


def _after(p: int) -> tuple[int, int]:
    match p % 5:
        case 0:
            return _ring(p + 2), _ring(p + 1)
        case 1:
            return _ring(p), _ring(p + 3)
        case 2:
            return _ring(p + 2), _ring(p + 3)
        case 3:
            return _ring(p + 1), _ring(p + 4)
        case _:
            return _ring(p + 1), _ring(p)


def shared_cluster() -> SimulatedCluster:
    """Return the cluster, the same each time, with the move of somebody else under way."""
    layout = {topic: [_before(p) for p in range(10)] for topic in TOPICS}
    layout["shared"] = [*layout["shared"], (7, 8)]
    sizes = {
        TopicPartition(topic, p): (1 + (p * 7 + len(topic)) % 5) * MB // 2
        for topic in TOPICS
        for p in range(10)
    } | {THEIRS: 5_000 * MB}
    cluster = SimulatedCluster(
        small_spec(
            layout,
            brokers=range(1, 9),
            size_bytes=sizes,
            in_bytes_per_s={TopicPartition("bare", 0): 3_000.0, TopicPartition("star", 1): 500.0},
            topic_configs={
                "bare": {"retention.ms": "86400000"},
                "blank": {LEADER_LIST: "", "min.insync.replicas": "1"},
                "half": {FOLLOWER_LIST: "*"},
                "named": {LEADER_LIST: "7:1,0:1", FOLLOWER_LIST: "3:9"},
                "shared": {LEADER_LIST: "10:7", FOLLOWER_LIST: "10:5"},
                "star": {LEADER_LIST: "*", FOLLOWER_LIST: "*"},
            },
            broker_configs={
                3: {FOLLOWER_RATE: "800000"},
                4: {LEADER_RATE: "70000000"},
                5: {FOLLOWER_RATE: "20000000"},
                6: {FOLLOWER_RATE: str(RATE)},
                7: {LEADER_RATE: "30000000"},
            },
            static_configs={2: {LEADER_RATE: "90000000"}},
        ),
        seed=1,
    )
    change = ConfigChange(EVERY_BROKER, LEADER_RATE, ConfigOp.SET, "80000000")
    assert cluster.alter_configs([change]) == {EVERY_BROKER: None}
    assert cluster.alter_reassignments({THEIRS: THEIR_TARGET}) == {THEIRS: None}
    cluster.advance(1.0)
    return cluster


def sixty_moves(cluster: SimulatedCluster) -> Plan:
    """Return moves of every sort: a new leader, a new follower, all new, and order alone."""
    state = cluster.describe_cluster()
    plan = Plan(state.cluster_id)
    for p in range(10):
        for topic in TOPICS:
            plan = plan.with_target(state, TopicPartition(topic, p), _after(p))
    return plan


# -- the judge ------------------------------------------------------------------------------------


def found(cluster: SimulatedCluster) -> Found:
    """Return what a run must leave as it is, but for the plan's replicas."""
    state = cluster.describe_cluster()
    resources = [EVERY_BROKER, *(Resource.broker(b.id) for b in state.brokers)]
    resources += [Resource.topic(topic.name) for topic in state.topics]
    answers = cluster.describe_configs(resources)
    return Found(
        {r: a for r, a in answers.items() if not isinstance(a, Fault)},
        {state.tp(i): state.replicas(i) for i in range(state.partition_count)},
    )


def complaints(cluster: SimulatedCluster, before: Found, history: RunState) -> Iterator[str]:
    """Yield whatever of an ended run is not as it has to be; nothing when all is well."""
    now = found(cluster)
    yield from _changed(before.configs, now.configs)
    listed = cluster.fetch_reassignments()
    planned = {m.move.tp: m for m in history.moves}
    for tp, replicas in now.replicas.items():
        if tp == THEIRS:
            target = listed[tp].target if tp in listed else replicas
            if target != THEIR_TARGET:
                yield f"{tp}, somebody else's, goes to {target}"
            continue
        if tp in listed:
            yield f"{tp} is still in flight"
        done = tp in planned and planned[tp].phase is Phase.DONE
        wanted = planned[tp].move.after if done else before.replicas[tp]
        if replicas != wanted:
            yield f"{tp} has {replicas}, not {wanted}"
    yield from unexplained(history)


def unexplained(history: RunState) -> Iterator[str]:
    """Yield the moves that have not ended, or of which nothing says why they are not done."""
    for m in history.moves:
        if not m.phase.ended:
            yield f"{m.move.tp} is {m.phase.value}"
        elif m.phase is not Phase.DONE and not m.why:
            yield f"{m.move.tp} is {m.phase.value}, and nothing says why"


def _changed(before: Configs, now: Configs) -> Iterator[str]:
    for resource, values in before.items():
        for name in sorted(values.keys() | now[resource].keys()):
            was, is_ = values.get(name), now[resource].get(name)
            if was != is_:
                yield f"{name} of {resource.kind.value} {resource.name!r}: {was} became {is_}"


def unlimited(cluster: SimulatedCluster, plan: Plan, rate: int) -> Iterator[str]:
    """Yield what copies without a limit on its follower side, now."""
    listed = cluster.fetch_reassignments()
    for move in plan:
        now = listed.get(move.tp)
        if now is None or now.target != move.after:
            continue
        pairs = cluster.describe_configs([Resource.topic(move.tp.topic)], [FOLLOWER_LIST])
        (lists,) = pairs.values()
        value = "" if isinstance(lists, Fault) else lists[FOLLOWER_LIST].value or ""
        for broker in now.adding:
            if value != "*" and f"{move.tp.partition}:{broker}" not in value.split(","):
                yield f"{move.tp} copies to {broker} and is not on the list"
            (rates,) = cluster.describe_configs([Resource.broker(broker)], [FOLLOWER_RATE]).values()
            if isinstance(rates, Fault):
                continue
            limit = rates.get(FOLLOWER_RATE)
            if limit is None or int(limit.value or 2**63) > rate:
                yield f"{move.tp} copies to {broker} at {limit}"
