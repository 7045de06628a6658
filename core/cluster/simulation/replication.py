"""Followers catching up: fetch by fetch between two brokers, under both sides' quotas.

Only replicas out of the ISR are here (in-sync ones copy in step, a whole column at once). The
rules are those of the brokers: reference ReplicaManager.shouldLeaderThrottle,
RemoteLeaderEndPoint.shouldFollowerThrottle and KafkaApis.sizeOfThrottledPartitions, Kafka 4.x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.cluster.quota import BACKOFF_SECONDS, Quota

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
        """Return (bytes that advance the log, bytes that travel and count).

        A fetch ends inside a batch; the cut part travels and is fetched again.
        """
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
        asked = [r for r in self.replicas.values() if r.behind_bytes > 0]
        if not asked:
            self.next_at = now + BUSY_SECONDS
            return caught_up
        if any(r.follower_listed for r in asked) and not follower_quota.allows(now):
            asked = [r for r in asked if not r.follower_listed]
            if not asked:
                leader_quota.record(now, 0.0)
                self.next_at = now + self._pause(BACKOFF_SECONDS)
                return caught_up
        served = asked
        if any(r.leader_listed for r in asked) and not leader_quota.allows(now):
            served = [r for r in asked if not r.leader_listed]
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
            waking = any(r.produced_to for r in asked)
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


def run_links(
    links: Mapping[tuple[int, int], Link],
    leader_quotas: Mapping[int, Quota],
    follower_quotas: Mapping[int, Quota],
    wire_bytes_per_s: float,
    until: float,
) -> list[tuple[int, int]]:
    """Fetch on all links in time order up to `until`; returns (partition, broker) caught up.

    Links that share a broker share its wire.
    """
    from_leader: dict[int, int] = {}
    into_follower: dict[int, int] = {}
    for link in links.values():
        from_leader[link.leader] = from_leader.get(link.leader, 0) + 1
        into_follower[link.follower] = into_follower.get(link.follower, 0) + 1
    caught_up: list[tuple[int, int]] = []
    due = [link for link in links.values() if link.next_at < until]
    while due:
        link = min(due, key=lambda one: one.next_at)
        sharing = max(from_leader[link.leader], into_follower[link.follower])
        done = link.fetch(
            link.next_at,
            leader_quotas[link.leader],
            follower_quotas[link.follower],
            wire_bytes_per_s / sharing,
        )
        for partition in done:
            del link.replicas[partition]
            caught_up.append((partition, link.follower))
        if link.next_at >= until or not link.replicas:
            due.remove(link)
    return caught_up
