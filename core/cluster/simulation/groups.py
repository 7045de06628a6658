"""The simulated cluster's consumer groups: what they have committed, and who reads what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from core.cluster.groups import Group, Member
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.logs import Float64, Int64, Logs, add_rows
from core.cluster.simulation.spec import ClusterSpec, GroupSpec


class ConsumerGroups:
    """Every group's position in every partition it reads, in bytes of log."""

    def __init__(self, spec: ClusterSpec, partitions: list[TopicPartition], logs: Logs) -> None:
        self._specs = spec.groups
        self._partitions = partitions
        self._logs = logs
        self._coordinators = sorted(broker.id for broker in spec.brokers)
        self._rows: dict[str, Int64] = {}
        self._positions: dict[str, Float64] = {}
        for group in spec.groups:
            rows = np.array(
                [i for i, tp in enumerate(partitions) if tp.topic in group.topics], np.int64
            )
            self._rows[group.id] = rows
            self._positions[group.id] = self._positions_behind_end(group, rows)
        self.fan_out: Float64 = np.zeros(len(partitions))
        for group in spec.groups:
            if group.members:
                self.fan_out[self._rows[group.id]] += 1

    def add_rows(self, rows: Sequence[int]) -> None:
        """Take in new partitions; groups that read their topics read them, too, from the start."""
        add_rows(self, len(rows), "fan_out")
        for group in self._specs:
            mine = [row for row in rows if self._partitions[row].topic in group.topics]
            self._rows[group.id] = np.concatenate((self._rows[group.id], mine)).astype(np.int64)
            started = np.zeros(len(mine))
            self._positions[group.id] = np.concatenate((self._positions[group.id], started))
            if group.members:
                self.fan_out[mine] += 1

    def change_members(self, id: str, by: int) -> None:
        """Have a group that is being read with so many members more, or fewer; never none."""
        self._specs = tuple(
            replace(spec, members=max(spec.members + by, 1)) if spec.id == id else spec
            for spec in self._specs
        )

    def members(self) -> dict[str, int]:
        """Return how many members each group has that has any."""
        return {spec.id: spec.members for spec in self._specs if spec.members}

    def _positions_behind_end(self, group: GroupSpec, rows: Int64) -> Float64:
        """Return where a group that keeps up is: its distance behind the ends of the logs."""
        behind = self._logs.traffic.mean_bytes_per_s[rows] * group.behind_seconds
        positions: Float64 = np.maximum(self._logs.end[rows] - behind, self._logs.start[rows])
        return positions

    def advance(self) -> None:
        """Let groups with members read and commit."""
        for group in self._specs:
            if group.members:
                rows = self._rows[group.id]
                self._positions[group.id] = np.maximum(
                    self._positions[group.id], self._positions_behind_end(group, rows)
                )

    def groups(self, rows: Collection[int], alive: Collection[int]) -> tuple[Group, ...]:
        """Return every group, by id, with what it has of these partitions: others are deleted."""
        present = frozenset(rows)
        specs = sorted(self._specs, key=lambda spec: spec.id)
        return tuple(self._group(spec, present, alive) for spec in specs)

    def _group(self, spec: GroupSpec, present: Collection[int], alive: Collection[int]) -> Group:
        rows = self._rows[spec.id]
        offsets = (self._positions[spec.id] // self._logs.message_bytes[rows]).astype(np.int64)
        committed = {
            self._partitions[row]: offset
            for row, offset in zip(rows.tolist(), offsets.tolist(), strict=True)
            if row in present
        }
        at = sum(spec.id.encode()) % len(self._coordinators)
        coordinator = self._coordinators[at]
        keys = sorted(committed)
        members = tuple(
            Member(
                id=f"{spec.id}-{n}-{sum(spec.id.encode()) * 7919 + n:08x}",
                client_id=f"{spec.id}-{n}",
                host=f"/10.0.{at}.{n + 10}",
                assignment=tuple(keys[n :: spec.members]),
            )
            for n in range(spec.members)
        )
        return Group(
            id=spec.id,
            state="stable" if members else "empty",
            assignor="roundrobin" if members else "",
            coordinator=coordinator if coordinator in alive else None,
            members=members,
            committed=committed,
        )
