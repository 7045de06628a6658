"""Where replicas are, as Kafka's TopicCommand describes it: leaders counted, racks compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_ROW = re.compile(
    r"Topic: (?P<topic>\S+)\s+Partition: (?P<partition>\d+)\s+Leader: (?P<leader>\S+)"
    r"\s+Replicas: (?P<replicas>\S+)\s+Isr: (?P<isr>\S*)"
)

Replicas = tuple[int, ...]
"""Broker ids, preferred leader first."""


@dataclass(frozen=True, slots=True)
class Described:
    """One partition; `leader` is None where there is none."""

    leader: int | None
    replicas: Replicas
    isr: Replicas


def described(told: str, topics: Collection[str]) -> list[Described]:
    """Return these topics' partitions in order, from what `TopicCommand --describe` prints."""
    rows = {
        (row["topic"], int(row["partition"])): Described(
            int(row["leader"]) if row["leader"].isdigit() else None,
            _ids(row["replicas"]),
            _ids(row["isr"]),
        )
        for row in _ROW.finditer(told)
        if row["topic"] in topics
    }
    return [rows[partition] for partition in sorted(rows)]


def leaders(rows: Sequence[Described]) -> str:
    """Return how many partitions each broker leads: `1: 4, 2: 4`."""
    counts = Counter(row.leader for row in rows if row.leader is not None)
    return counted(counts)


def counted(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{broker}: {count}" for broker, count in sorted(counts.items()))


def listed(replicas: Sequence[Sequence[int]]) -> str:
    """Return replicas as vectors are written: `0,3,1 3,1,5`."""
    return " ".join(",".join(map(str, row)) for row in replicas)


def rack_spread(
    replicas: Sequence[Sequence[int]], racks: Mapping[int, str | None]
) -> tuple[int, int]:
    """Return how many replicas of one partition the emptiest and the fullest rack hold."""
    counts = [
        sum(racks[broker] == rack for broker in row)
        for row in replicas
        for rack in set(racks.values())
    ]
    return min(counts), max(counts)


def _ids(text: str) -> Replicas:
    return tuple(int(word) for word in text.split(",") if word)
