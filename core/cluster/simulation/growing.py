"""New topics and partitions of the simulated cluster, refused as Kafka's controller refuses them.

After ReplicationControlManager.createTopic and createPartitions (Kafka 4.x).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from core.cluster.client import ConfigChange, ConfigOp, Fault, NewPartitions, NewTopic, Resource
from core.cluster.simulation import controller
from core.cluster.simulation.controller import Registration
from core.cluster.simulation.engine import Engine
from core.cluster.topics import is_legal_name

Layout = Sequence[tuple[int, ...]]


def create(engine: Engine, topic: NewTopic) -> Fault | None:
    """Create a topic, or return why not."""
    if not is_legal_name(topic.name):
        return Fault("INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {topic.name!r}")
    if topic.name in engine.topic_ids:
        return Fault("TOPIC_ALREADY_EXISTS", f"Topic '{topic.name}' already exists.")
    if not topic.replicas:
        return Fault("INVALID_PARTITIONS", "Number of partitions was set to an invalid value.")
    wrong = _refusal(engine, topic.replicas, len(topic.replicas[0]))
    if wrong is not None:
        return wrong
    resource = Resource.topic(topic.name)
    wanted = [ConfigChange(resource, n, ConfigOp.SET, v) for n, v in topic.configs.items()]
    refused = engine.configs.apply(wanted)
    if refused is None:
        engine.add_partitions(topic.name, _registered(topic.replicas, engine.alive))
    return refused


def extend(engine: Engine, topic: str, new: NewPartitions) -> Fault | None:
    """Add partitions to a topic, or return why not."""
    rows = [row for tp, row in engine.index.items() if tp.topic == topic]
    if not rows:
        return controller.UNKNOWN_PARTITION
    if new.total <= len(rows):
        has = f"Topic currently has {len(rows)} partitions"
        if new.total == len(rows):
            return Fault("INVALID_PARTITIONS", f"Topic already has {new.total} partition(s).")
        return Fault(
            "INVALID_PARTITIONS", f"{has}, which is higher than the requested {new.total}."
        )
    if len(new.replicas) != new.total - len(rows):
        return Fault(
            "INVALID_REPLICA_ASSIGNMENT",
            f"Attempted to add {new.total - len(rows)} additional partition(s), but only "
            f"{len(new.replicas)} assignment(s) were specified.",
        )
    replicas = len(engine.registrations[rows[0]].target)
    wrong = _refusal(engine, new.replicas, replicas)
    if wrong is None:
        engine.add_partitions(topic, _registered(new.replicas, engine.alive))
    return wrong


def _refusal(engine: Engine, layout: Layout, replicas: int) -> Fault | None:
    for number, one in enumerate(layout):
        wrong = controller.refusal(one, engine.disks.paths)
        if wrong is not None:
            return wrong
        if len(one) != replicas:
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT",
                f"The manual partition assignment includes a partition with {len(one)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{replicas} replica(s).",
            )
        if not engine.alive.intersection(one):
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT",
                "All brokers specified in the manual partition assignment for partition "
                f"{number} are fenced or in controlled shutdown.",
            )
    return None


def _registered(layout: Layout, alive: Collection[int]) -> list[Registration]:
    """Return new partitions: in sync is who is up, and the first of these leads."""
    found = []
    for replicas in layout:
        isr = tuple(broker for broker in replicas if broker in alive)
        found.append(Registration(replicas, isr, isr[0]))
    return found
