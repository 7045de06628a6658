"""Simulated followers catch up fetch by fetch, under the throttles of both brokers.

Only replicas out of the ISR are fetched for here (in-sync ones copy in step, a whole column at
once). The rules are those of ReplicaManager.shouldLeaderThrottle,
RemoteLeaderEndPoint.shouldFollowerThrottle and KafkaApis.sizeOfThrottledPartitions, Kafka 4.x; how
a quota counts is in core.cluster.quota. Lists of throttled replicas are matrices [P, B].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.cluster.quota import BACKOFF_SECONDS, Quota
from core.cluster.simulation.logs import Bool, Float64, Int64, Logs, add_rows

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

    def add_rows(self, rows: int) -> None:
        """Take in new partitions, which are on no list."""
        add_rows(self, rows, "leader_listed", "follower_listed")

    def restart(self, broker: int, now: float) -> None:
        """Give a broker the quotas that it has when it starts, without a rate."""
        self.leader_quotas[broker] = Quota.after_idle(math.inf, now)
        self.follower_quotas[broker] = Quota()

    def set_rates(self, broker: int, leader: str | None, follower: str | None) -> None:
        """Let a broker's configured rates take effect; None is no throttle."""
        self.leader_quotas[broker].rate = float(leader) if leader else math.inf
        self.follower_quotas[broker].rate = float(follower) if follower else math.inf

    def set_lists(
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
        grown_bytes: Float64,
    ) -> None:
        """Count what in-sync followers of listed partitions copy; it is never held.

        `grown_bytes` are produced to each partition in these `seconds`, `leader_column` [P] is
        where it is led (-1 nowhere).
        """
        columns = len(logs.broker_ids)
        has_leader = leader_column >= 0
        at = leader_column[has_leader]
        followers = logs.follows[has_leader].sum(axis=1) - 1
        listed = self.leader_listed[has_leader, at]
        sent = np.bincount(
            at, np.where(listed, grown_bytes[has_leader] * followers, 0.0), columns
        ).tolist()
        copied = [0.0] * columns
        if self.follower_listed.any():
            counted = self.follower_listed & logs.follows
            counted[has_leader, at] = False
            copied = (grown_bytes @ counted).tolist()
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


PARTITION_BYTES = 1 << 20
"""replica.fetch.max.bytes: of one partition in one answer."""
ANSWER_BYTES = 10 << 20
"""replica.fetch.response.max.bytes."""
WAIT_SECONDS = 0.5
"""replica.fetch.wait.max.ms: how long a leader holds an answer that has nothing in it."""
BUSY_SECONDS = 0.02
"""How soon the next fetch follows when other partitions of the link have new data."""
ROUND_TRIP_SECONDS = 0.008
"""What a fetch costs besides its bytes; 1 MiB fetches come to about 100 MB/s, as measured."""


@dataclass(slots=True)
class CatchUp:
    """One replica out of the ISR: `position` and `end` are bytes of log since the beginning."""

    partition: int
    position: float
    end: float
    batch_bytes: int
    leader_listed: bool
    follower_listed: bool
    produced_to: bool

    @property
    def behind_bytes(self) -> float:
        return self.end - self.position

    def next_read(self) -> tuple[float, float]:
        """Return bytes that advance the log, and that travel: a cut batch is fetched again."""
        behind = self.behind_bytes
        if behind <= PARTITION_BYTES:
            return behind, behind
        if self.batch_bytes >= PARTITION_BYTES:
            whole = min(behind, float(self.batch_bytes))
            return whole, whole
        return float(PARTITION_BYTES // self.batch_bytes * self.batch_bytes), PARTITION_BYTES


@dataclass(slots=True)
class Link:
    """One follower's fetcher for one leader broker.

    `follows_quiet` and `follows_busy` say whether it also follows in-sync partitions there, and
    whether those have traffic: that sets how long it sleeps when the quota stops it.
    """

    leader: int
    follower: int
    next_at: float
    replicas: dict[int, CatchUp] = field(default_factory=dict)
    follows_quiet: bool = False
    follows_busy: bool = False
    copied_bytes: float = 0.0

    def fetch(
        self,
        now: float,
        leader_quota: Quota,
        follower_quota: Quota,
        wire_bytes_per_s: float,
    ) -> list[int]:
        """Do one fetch at `now`, set `next_at`, and return the partitions that caught up."""
        caught_up = [r.partition for r in self.replicas.values() if r.behind_bytes <= 0]
        lagging = [r for r in self.replicas.values() if r.behind_bytes > 0]
        if not lagging:
            self.next_at = now + BUSY_SECONDS
            return caught_up
        if any(r.follower_listed for r in lagging) and not follower_quota.allows(now):
            lagging = [r for r in lagging if not r.follower_listed]
            if not lagging:
                leader_quota.record(now, 0.0)
                self.next_at = now + self._pause(BACKOFF_SECONDS)
                return caught_up
        served = lagging
        if any(r.leader_listed for r in lagging) and not leader_quota.allows(now):
            served = [r for r in lagging if not r.leader_listed]
        leader_bytes = follower_bytes = travelled = 0.0
        for replica in served:
            useful, counted = replica.next_read()
            if travelled and travelled + counted > ANSWER_BYTES:
                break
            travelled += counted
            leader_bytes += counted if replica.leader_listed else 0.0
            follower_bytes += counted if replica.follower_listed else 0.0
            replica.position += useful
            self.copied_bytes += useful
            # What was served goes to the back, so that the next answer begins with the others.
            self.replicas[replica.partition] = self.replicas.pop(replica.partition)
            if replica.behind_bytes <= 0:
                caught_up.append(replica.partition)
        leader_quota.record(now, leader_bytes)
        if not travelled:
            # A leader looks at a waiting fetch again whenever something is appended.
            waking = any(r.produced_to for r in lagging)
            self.next_at = now + (BUSY_SECONDS if waking else self._pause(WAIT_SECONDS))
            return caught_up
        arrived = now + ROUND_TRIP_SECONDS + travelled / wire_bytes_per_s
        if follower_bytes:
            follower_quota.record(arrived, follower_bytes)
        self.next_at = arrived
        return caught_up

    def _pause(self, idle: float) -> float:
        if self.follows_busy:
            return BUSY_SECONDS
        return min(idle, WAIT_SECONDS) if self.follows_quiet else idle


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
        done = self._fetch(until)
        for link in self._links.values():
            column = logs.column[link.follower]
            for replica in link.replicas.values():
                logs.position[replica.partition, column] = replica.position
        for row, broker in done:
            logs.position[row, logs.column[broker]] = logs.end[row]
            yield row, broker

    def _fetch(self, until: float) -> list[tuple[int, int]]:
        """Fetch in time order up to `until`; return (partition, broker) that caught up."""
        links = self._links.values()
        from_leader = Counter(link.leader for link in links)
        into_follower = Counter(link.follower for link in links)
        caught_up: list[tuple[int, int]] = []
        due = [link for link in links if link.next_at < until]
        while due:
            link = min(due, key=lambda candidate: candidate.next_at)
            done = link.fetch(
                link.next_at,
                self._throttles.leader_quotas[link.leader],
                self._throttles.follower_quotas[link.follower],
                self._wire_bytes_per_s
                / max(from_leader[link.leader], into_follower[link.follower]),
            )
            for partition in done:
                del link.replicas[partition]
                caught_up.append((partition, link.follower))
            if link.next_at >= until or not link.replicas:
                due.remove(link)
        return caught_up
