"""Which simulated followers catch up from which leaders, and how far they come in a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from core.cluster.simulation.logs import Logs
from core.cluster.simulation.replication import CatchUp, Link, run_links
from core.cluster.simulation.throttles import Throttles

REACTION_SECONDS = 0.1
"""From a change of assignment to the first fetch of the new follower."""


class Links:
    """The links between leaders and followers out of step, by their broker ids."""

    def __init__(self, logs: Logs, throttles: Throttles, wire_bytes_per_s: float) -> None:
        self._logs, self._throttles = logs, throttles
        self._wire_bytes_per_s = wire_bytes_per_s
        self._links: dict[tuple[int, int], Link] = {}

    def __bool__(self) -> bool:
        return bool(self._links)

    def relink(
        self,
        behind: Mapping[tuple[int, int], Sequence[int]],
        leader_column: NDArray[np.int64],
        elapsed: float,
        epoch: float,
    ) -> None:
        """Take the partitions that are `behind` on each link; what was under way goes on."""
        logs = self._logs
        links: dict[tuple[int, int], Link] = {}
        rates = logs.traffic.rates(epoch + elapsed)
        for (leader, follower), rows in sorted(behind.items()):
            link = self._links.get((leader, follower))
            if link is None:
                link = Link(leader, follower, elapsed + REACTION_SECONDS)
            at, column = logs.column[leader], logs.column[follower]
            others = logs.follows[:, column] & (leader_column == at)
            link.follows_quiet = bool(others.any())
            link.follows_busy = bool((rates[others] > 0).any())
            kept = [row for row in link.replicas if row in rows]
            link.replicas = {
                row: CatchUp(
                    row,
                    float(logs.position[row, column]),
                    float(logs.end[row]),
                    logs.batch_bytes[row],
                    bool(self._throttles.leader_listed[row, at]),
                    bool(self._throttles.follower_listed[row, column]),
                    bool(rates[row] > 0),
                )
                for row in (*kept, *(row for row in rows if row not in link.replicas))
            }
            links[leader, follower] = link
        self._links = links

    def catch_up(self, until: float) -> Iterator[tuple[int, int]]:
        """Fetch until then; yield (partition row, broker) of each follower that is in step."""
        logs = self._logs
        for link in self._links.values():
            for replica in link.replicas.values():
                replica.end = float(logs.end[replica.partition])
                # What its leader has expired meanwhile is no longer copied.
                start = float(logs.start[replica.partition])
                replica.position = max(replica.position, start)
        done = run_links(
            self._links,
            self._throttles.leader_quotas,
            self._throttles.follower_quotas,
            self._wire_bytes_per_s,
            until,
        )
        for link in self._links.values():
            column = logs.column[link.follower]
            for replica in link.replicas.values():
                logs.position[replica.partition, column] = replica.position
        for row, broker in done:
            logs.position[row, logs.column[broker]] = logs.end[row]
            yield row, broker
