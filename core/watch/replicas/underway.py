"""One partition while its replicas are compared: how far, who takes part, what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.cluster.metadata import PartitionRow, TopicPartition
from core.watch.replicas.compare import Difference
from core.watch.replicas.verdict import Verdict

KEPT = 10
"""Differences that are kept of a partition; more are counted."""


@dataclass(slots=True)
class Work:
    """One partition on its way."""

    row: PartitionRow
    compacted: bool
    at: int = 0
    """The offset below which it was compared, from `start` on; `end` is where that is to end."""
    start: int | None = None
    end: int | None = None
    lags: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)
    """High watermarks, by broker, as they were told last."""
    part: set[int] = field(default_factory=set)
    """Brokers whose replicas are still compared."""
    left_out: dict[int | None, str] = field(default_factory=dict)
    size: int = 0
    differences: list[Difference] = field(default_factory=list)
    different: int = 0

    @property
    def tp(self) -> TopicPartition:
        return self.row.tp

    @property
    def open(self) -> bool:
        return len(self.part) > 1 and (self.end is None or self.at < self.end)

    def leave(self, broker: int | None, why: str) -> None:
        self.left_out.setdefault(broker, why)
        if broker is None:
            self.part.clear()
        else:
            self.part.discard(broker)

    def differ(self, found: Sequence[Difference]) -> None:
        self.different += len(found)
        self.differences += found[: max(0, KEPT - len(self.differences))]

    def verdict(self) -> Verdict:
        return Verdict(
            self.tp,
            self.row.leader if self.row.leader >= 0 else None,
            self.row.replicas,
            self.lags,
            self.high,
            self.start,
            None if self.start is None else self.at,
            self.end,
            self.size,
            tuple(self.differences),
            self.different,
            self.left_out,
        )
