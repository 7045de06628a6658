"""What a workload is, the demo's, and what overrides one that runs.

The demo's is skewed on purpose, the same each time. Overrides are a small file that a workload
reads ten times a second; who changes it writes it whole. It ends with the workload.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core import files
from core.cluster.metadata import TopicPartition
from core.text.json_text import parse_json

DEFAULT_BYTES_PER_S = 2_000_000.0


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic: where its replicas are placed and what is produced to each partition."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    bytes_per_s: tuple[float, ...]
    message_bytes: int = 1_000


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """One consumer group reading whole topics."""

    id: str
    topics: tuple[str, ...]
    members: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """What is produced and who reads it."""

    topics: tuple[TopicLoad, ...]
    groups: tuple[GroupLoad, ...]


# Name, partitions, share of the whole rate, message size, and the exponent of its skew.
_TOPICS = (
    ("payments.v2", 12, 0.34, 2_000, 1.1),
    ("orders", 12, 0.24, 1_500, 0.9),
    ("clicks", 16, 0.22, 600, 0.7),
    ("inventory", 8, 0.10, 1_000, 0.6),
    ("sessions", 8, 0.07, 500, 0.4),
    ("audit", 4, 0.03, 3_000, 0.2),
)
_GROUPS = (
    GroupLoad("billing", ("payments.v2", "orders"), 2),
    GroupLoad("analytics", ("clicks", "sessions"), 2),
    GroupLoad("stock", ("inventory", "orders"), 1),
)


def skewed_workload(
    brokers: Sequence[int], *, bytes_per_s: float = DEFAULT_BYTES_PER_S, seed: int = 7
) -> Workload:
    """Return the demo's workload: the first broker leads what is hot, the last holds little.

    Rates within a topic follow Zipf's law; followers are spread, so that there is somewhere for
    the load to go. The same seed gives the same placement.
    """
    rng = random.Random(seed)
    hot, quiet = brokers[0], brokers[-1]
    factor = min(2, len(brokers))
    topics = []
    for name, partitions, share, message_bytes, exponent in _TOPICS:
        weights = [1 / (rank + 1) ** exponent for rank in range(partitions)]
        whole = sum(weights)
        placed = []
        for rank in range(partitions):
            leader = hot if rank < partitions // 3 else _choose(rng, brokers, quiet, ())
            followers: list[int] = []
            while len(followers) < factor - 1:
                followers.append(_choose(rng, brokers, quiet, (leader, *followers)))
            placed.append((leader, *followers))
        rates = tuple(bytes_per_s * share * weight / whole for weight in weights)
        topics.append(TopicLoad(name, tuple(placed), rates, message_bytes))
    return Workload(tuple(topics), _GROUPS)


def topic_names() -> frozenset[str]:
    """Return the topics of the skewed workload."""
    return frozenset(name for name, *_ in _TOPICS)


def group_ids() -> tuple[str, ...]:
    """Return the groups of the skewed workload."""
    return tuple(group.id for group in _GROUPS)


def _choose(rng: random.Random, brokers: Sequence[int], quiet: int, taken: Sequence[int]) -> int:
    free = [broker for broker in brokers if broker not in taken]
    weights = [1 if broker == quiet else 4 for broker in free]
    return rng.choices(free, weights)[0]


# -- overrides of one that runs --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Skew:
    """So many times the records to these partitions; `of` says in words which they are."""

    of: str
    times: float
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LoadOverrides:
    """All that a workload does otherwise; `more` are consumers beside its own, by group."""

    skew: Skew | None = None
    more: Mapping[str, int] = field(default_factory=dict)

    def times(self, tp: TopicPartition) -> float:
        """Return by how much what is produced to a partition is multiplied."""
        return self.skew.times if self.skew is not None and tp in self.skew.partitions else 1.0


def read_overrides(path: Path) -> LoadOverrides:
    """Return what is to be otherwise; nothing when the file is not there."""
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return LoadOverrides()
    skew = document["skew"]
    return LoadOverrides(
        skew
        and Skew(
            skew["of"],
            skew["times"],
            frozenset(TopicPartition(topic, n) for topic, n in skew["partitions"]),
        ),
        document["more"],
    )


def write_overrides(path: Path, overrides: LoadOverrides) -> None:
    """Have the workload that looks at `path` do this from now on."""
    skew = overrides.skew and {
        "of": overrides.skew.of,
        "times": overrides.skew.times,
        "partitions": sorted([tp.topic, tp.partition] for tp in overrides.skew.partitions),
    }
    files.write_text(path, json.dumps({"skew": skew, "more": dict(overrides.more)}))


def overrides_path(mark: Path) -> Path:
    """Return the file that the workload with this mark follows."""
    return mark.with_suffix(".json")


def overrides_lease(overrides: Path) -> Path:
    """Return what a workload holds while it follows `overrides`."""
    return overrides.with_suffix(".lock")
