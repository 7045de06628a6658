"""Preferred order: replicas re-ordered without copying, and new topics with their racks in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from core.units import format_bytes
from tests.acceptance.scenario import Scenario, Step, same
from tests.acceptance.stage import Replicas, Stage, count_leaders, format_replicas, rack_spread

TOPIC = "test-3"
SIZE_BYTES = 1_000_000
PARTITIONS = 12

# Kafka's AdminUtils, from its first broker: what its own tests expect (AdminRackAwareTest,
# AdminTest).
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
WITH_RACKS = ((0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2))
NO_RACKS = dict.fromkeys(range(5))
WITHOUT_RACKS = (
    *((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)),
    *((0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)),
)


def play(stage: Stage) -> Iterator[Step]:
    yield from _reordered(stage)
    racks = len(set(stage.racks.values()))
    if stage.short:
        yield from _created(stage, racks + 1, racks)
        return
    yield from _as_kafka_places(stage, "six brokers in three racks", RACKS, WITH_RACKS)
    yield from _as_kafka_places(stage, "five brokers without racks", NO_RACKS, WITHOUT_RACKS)
    for replicas in range(2, len(stage.brokers)):
        yield from _created(stage, replicas, racks)


SCENARIO = Scenario(
    "preferred-order",
    "Replicas 0,1,2 become 1,2,0 without a byte or a throttle; new topics keep Kafka's racks.",
    # Racks go round in this order: they get those of the six brokers above.
    (0, 3, 1, 5, 4, 2),
    3,
    play,
)


# -- re-ordered ----------------------------------------------------------------------------------


def _reordered(stage: Stage) -> Iterator[Step]:
    """Put the second replica first, and let Kafka's own election say who is preferred."""
    first, second, third = stage.brokers[:3]
    before, after = (first, second, third), (second, third, first)
    stage.make({TOPIC: [before]}, SIZE_BYTES)
    files = _files(stage, before)
    plan = stage.plan("order", {(TOPIC, 0): after})
    estimate = stage.document("estimate", plan, "--throttle", "-1")
    yield same("estimate: to copy", format_bytes(0), format_bytes(estimate["total_bytes"]))
    code, events, _ = stage.follow("apply", plan, "--yes")
    ended = events[-1]
    yield same("apply, its exit code", 0, code)
    yield same("what it moved", format_bytes(0), format_bytes(ended["moved_bytes"]))
    shown = stage.document("runs", "show", ended["run"])
    changed = [f"{c['resource']} {c['name']} {c['config']}" for c in shown["configs"]]
    yield same("configs that its run has touched", "none", ", ".join(changed) or "none")
    calls = {e["what"] for e in stage.document("audit", "ls") if e.get("run") == ended["run"]}
    asked = calls & {"submit", "cancel", "configs", "elect", "log dirs"}
    yield same("calls in the audit that change a cluster", "submit", ", ".join(sorted(asked)))
    yield same("log files of all three brokers", "the same", _kept(files, _files(stage, before)))
    if not stage.short:
        yield same("throttles that Kafka's tool shows", "none", stage.throttles())
        yield same("partitions that Kafka's tool finds completed", 1, stage.verified(plan))
    stage.kafka(
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--election-type", "preferred", "--topic", TOPIC, "--partition", "0"),
    )
    rows = stage.describe(TOPIC)
    now = format_replicas([row.replicas for row in rows])
    yield same("replicas, as Kafka's tool describes them", format_replicas([after]), now)
    yield same("leads after Kafka's preferred election", f"{second}: 1", count_leaders(rows))


def _files(stage: Stage, brokers: Sequence[int]) -> dict[int, set[int]]:
    """Return each broker's files that hold the partition's records; a copy would be another."""
    return {
        broker: {
            path.stat().st_ino
            for log_dir in stage.sandbox.node(broker).log_dirs
            for path in (log_dir / f"{TOPIC}-0").glob("*.log")
        }
        for broker in brokers
    }


def _kept(before: Mapping[int, set[int]], after: Mapping[int, set[int]]) -> str:
    other = [str(b) for b in before if not before[b] or before[b] != after[b]]
    return f"others on {', '.join(other)}" if other else "the same"


# -- placed --------------------------------------------------------------------------------------


def _as_kafka_places(
    stage: Stage, where: str, racks: Mapping[int, str | None], expected: Sequence[Replicas]
) -> Iterator[Step]:
    """Place a topic on a cluster document; where it goes is known to the broker."""
    document = {
        "format": "trimtab.cluster/1",
        "cluster_id": "vectors",
        "brokers": [{"id": id, "rack": rack, "alive": True} for id, rack in racks.items()],
        "topics": [],
        "partitions": [],
    }
    saved = stage.write("saved", document)
    placed = _placed(stage, "--from", saved, topic="new", partitions=len(expected), replicas=3)
    yield same(
        f"plan place --rule kafka, {where}", format_replicas(expected), format_replicas(placed)
    )


def _created(stage: Stage, replicas: int, racks: int) -> Iterator[Step]:
    """Let Kafka's tool create what was placed, and look at the racks of what it has made."""
    topic = f"placed-{replicas}"
    placed = _placed(stage, topic=topic, partitions=PARTITIONS, replicas=replicas)
    stage.topics.add(topic)
    stage.kafka(
        "org.apache.kafka.tools.TopicCommand",
        *("--create", "--topic", topic, "--replica-assignment"),
        ",".join(":".join(map(str, row)) for row in placed),
    )
    made = [row.replicas for row in stage.describe(topic)]
    yield same(
        f"{topic}, as Kafka's tool has created it", format_replicas(placed), format_replicas(made)
    )
    fewest, most = rack_spread(made, stage.racks)
    what = f"{topic}: replicas of one partition in a rack, of {racks}"
    enough = fewest >= 1 if replicas >= racks else most <= 1
    limit = "1 or more" if replicas >= racks else "1 at most"
    yield Step(what, limit, f"{fewest} to {most}", enough)


def _placed(
    stage: Stage, *where: str | Path, topic: str, partitions: int, replicas: int
) -> list[Replicas]:
    answer = stage.document(
        *where,
        *("plan", "place", topic, "--rule", "kafka"),
        *("--partitions", str(partitions), "--rf", str(replicas)),
        offline=bool(where),
    )
    return [tuple(row["replicas"]) for row in answer["partitions"]]
