"""Overrides of a running workload: more load on some partitions, more consumers.

A small file that the workload reads ten times a second; who changes it writes it whole. It ends
with the workload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core import files
from core.cluster.metadata import TopicPartition


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
        document = json.loads(path.read_text(encoding="utf-8"))
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
