"""What throttles replication in the simulated cluster: listed replicas, and each broker's quotas.

The lists are matrices [P, B] like those of `logs`; how a quota counts is in core.cluster.quota.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from core.cluster.quota import Quota
from core.cluster.simulation.logs import Bool, Float64, Int64, Logs, grown

FETCH_SECONDS = 0.25
"""How often quotas hear of followers in step."""


class Throttles:
    """Both sides' lists and quotas; a broker's quotas begin anew when it starts."""

    def __init__(self, brokers: Collection[int], shape: tuple[int, ...]) -> None:
        self.leader_quotas: dict[int, Quota] = {}
        self.follower_quotas: dict[int, Quota] = {}
        self.leader_listed: Bool = np.zeros(shape, np.bool_)
        self.follower_listed: Bool = np.zeros(shape, np.bool_)
        for broker in brokers:
            self.restart(broker, 0.0)

    def grow(self, rows: int) -> None:
        """Take in new partitions, which are on no list."""
        self.leader_listed = grown(self.leader_listed, rows)
        self.follower_listed = grown(self.follower_listed, rows)

    def restart(self, broker: int, now: float) -> None:
        """Give a broker the quotas that it has when it starts, without a rate."""
        self.leader_quotas[broker] = Quota.after_silence(math.inf, now)
        self.follower_quotas[broker] = Quota()

    def take_rates(self, broker: int, leader: str | None, follower: str | None) -> None:
        """Let a broker's configured rates take effect; None is no throttle."""
        self.leader_quotas[broker].rate = float(leader) if leader else math.inf
        self.follower_quotas[broker].rate = float(follower) if follower else math.inf

    def take_lists(
        self,
        rows: Mapping[int, int],
        columns: Mapping[int, int],
        leader: str | None,
        follower: str | None,
    ) -> None:
        """Let one topic's lists take effect; `rows` by partition, `columns` by broker."""
        for value, matrix in ((leader, self.leader_listed), (follower, self.follower_listed)):
            pairs = _pairs(value)
            matrix[list(rows.values())] = pairs is None
            for partition, broker in pairs or ():
                if partition in rows and broker in columns:
                    matrix[rows[partition], columns[broker]] = True

    def count_in_step(
        self,
        logs: Logs,
        leader_column: Int64,
        alive: Collection[int],
        began: float,
        seconds: float,
        made: Float64,
    ) -> None:
        """Count what in-sync followers of listed partitions copy; it is never held.

        `made` are the bytes produced to each partition in these `seconds`, `leader_column` [P]
        where it is led (-1 nowhere).
        """
        columns = len(logs.broker_ids)
        led = leader_column >= 0
        at = leader_column[led]
        followers = logs.follows[led].sum(axis=1) - 1
        listed = self.leader_listed[led, at]
        sent = np.bincount(at, np.where(listed, made[led] * followers, 0.0), columns).tolist()
        copied = [0.0] * columns
        if self.follower_listed.any():
            counted = self.follower_listed & logs.follows
            counted[led, at] = False
            copied = (made @ counted).tolist()
        # Fetches come several times a second; a slot of the quota must see its late ones, too.
        portions = max(1, round(seconds / FETCH_SECONDS))
        for portion in range(portions):
            now = began + portion * seconds / portions
            for column, broker in enumerate(logs.broker_ids):
                if broker in alive:
                    self.leader_quotas[broker].record(now, sent[column] / portions)
                    if copied[column]:
                        self.follower_quotas[broker].record(now, copied[column] / portions)


def _pairs(value: str | None) -> set[tuple[int, int]] | None:
    """Return (partition, broker) pairs of a throttle list; None for `*`, every replica."""
    if value is None or value == "*":
        return None if value else set()
    pairs = (entry.split(":") for entry in value.split(",") if entry)
    return {(int(partition), int(broker)) for partition, broker in pairs}
