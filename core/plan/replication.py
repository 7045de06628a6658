"""How long copies take under replication quotas: brokers' fetch loops, played through.

Kafka checks a quota before a fetch and counts what the fetch brought afterwards, in windows of 11
to 12 s (core.cluster.quota), so that bytes come in steps that no closed form follows. The first
steps are played fetch by fetch; what is left after that flows at the rates the steps average to.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from core.cluster.quota import Quota
from core.plan.copying import FETCH_WAIT_SECONDS, Copy, Flow, wait_seconds

PARTITION_FETCH_BYTES = 1 << 20
"""replica.fetch.max.bytes."""
PARTITIONS_A_FETCH = 10
"""replica.fetch.response.max.bytes (10 MiB) over the former."""
WINDOW_SECONDS = 11.5
"""What the brokers' quota window is on average."""
ROUND_TRIP_SECONDS = 0.004
TICK_SECONDS = 0.25
"""How often ordinary replication is counted; followers fetch at least twice a second."""
EVENT_BUDGET = 2500
"""Fetches and waits to play through; the rest flows."""
STAGGER_SECONDS = 0.5
"""Within how long after a submission the fetchers begin."""
_GOLDEN = 0.618034
_MERGE = 0.005
"""Flows that end within this share of the longest one's time end together: it bounds the steps."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the copies run under.

    `leader_bytes_per_s` and `follower_bytes_per_s` are each broker's quotas, infinity for none;
    `link_bytes_per_s` is what one fetcher gets when nothing holds it back. `cut` is how many times
    a byte is counted: a fetch of 1 MiB ends inside a batch, whose cut part is counted and fetched
    again. `phase` (0 to 1) is where in a second the brokers' sample slots begin, and how far apart
    the fetchers that share a quota do: whoever comes first takes what there is.
    """

    leader_bytes_per_s: float
    follower_bytes_per_s: float
    link_bytes_per_s: float = 300e6
    cut: float = 1.007
    phase: float = 0.5


@dataclass(slots=True)
class _Part:
    """One copy's way to the end of its leader's log, which moves on while it is copied."""

    index: int
    copy: Copy
    got: float = 0.0

    def left(self, now: float) -> float:
        return self.copy.size_bytes + self.copy.in_bytes_per_s * now - self.got


@dataclass(slots=True)
class _Fetcher:
    flow: Flow
    idle_seconds: float
    parts: deque[_Part] = field(default_factory=deque)


def end_seconds(
    copies: Sequence[Copy], idle_seconds: Mapping[Flow, float], conditions: Conditions
) -> list[float]:
    """Return for each copy when it has caught up, in seconds from its submission; inf is never."""
    game = _Game(copies, idle_seconds, conditions)
    game.play()
    game.flow()
    return game.ends


class _Game:
    """One play-through: quotas and fetchers of all brokers involved, and the time."""

    def __init__(
        self,
        copies: Sequence[Copy],
        idle_seconds: Mapping[Flow, float],
        conditions: Conditions,
    ) -> None:
        self.conditions = conditions
        self.now = 0.0
        self.ends = [math.inf] * len(copies)
        leaders = {copy.leader for copy in copies}
        self.sends = {
            broker: Quota.after_silence(conditions.leader_bytes_per_s, -conditions.phase)
            for broker in leaders
        }
        self.receives = {
            copy.destination: Quota(conditions.follower_bytes_per_s) for copy in copies
        }
        self.open_copies: dict[tuple[str, int], int] = {}
        self.sent_in_sync = dict.fromkeys(leaders, 0.0)
        self.received_in_sync = dict.fromkeys(self.receives, 0.0)
        fetchers: dict[Flow, _Fetcher] = {}
        for index, copy in enumerate(copies):
            flow = copy.flow
            if flow not in fetchers:
                fetchers[flow] = _Fetcher(flow, idle_seconds[flow])
            fetchers[flow].parts.append(_Part(index, copy))
            if copy.tp not in self.open_copies:
                self.sent_in_sync[copy.leader] += copy.in_bytes_per_s * copy.followers
            self.open_copies[copy.tp] = self.open_copies.get(copy.tp, 0) + 1
        self.fetchers = list(fetchers.values())
        self.caught_up: dict[tuple[str, int], list[Copy]] = {}

    # -- fetch by fetch ------------------------------------------------------------------------

    def play(self) -> None:
        """Play fetches and waits until all is copied or the budget of events is spent."""
        starts = [
            (self.conditions.phase + i * _GOLDEN) % 1.0 * STAGGER_SECONDS
            for i in range(len(self.fetchers))
        ]
        heap = [(start - min(starts), i) for i, start in enumerate(starts)]
        heapq.heapify(heap)
        tick, busy = 0.0, len(heap)
        for _ in range(EVENT_BUDGET):
            if not busy:
                return
            self.now, i = heapq.heappop(heap)
            while tick <= self.now:
                self._tick(tick)
                tick += TICK_SECONDS
            fetcher = self.fetchers[i]
            wait = self._step(fetcher)
            if fetcher.parts:
                heapq.heappush(heap, (self.now + wait, i))
            else:
                busy -= 1

    def _tick(self, now: float) -> None:
        for broker, quota in self.sends.items():
            quota.record(now, self.sent_in_sync[broker] * TICK_SECONDS)
        for broker, rate in self.received_in_sync.items():
            if rate:
                self.receives[broker].record(now, rate * TICK_SECONDS)

    def _step(self, fetcher: _Fetcher) -> float:
        """Let a fetcher fetch if both quotas let it; return how long until it comes again."""
        now, flow = self.now, fetcher.flow
        receives, sends = self.receives[flow.destination], self.sends[flow.leader]
        if not receives.allows(now):
            return fetcher.idle_seconds
        if not sends.allows(now):
            return min(fetcher.idle_seconds, FETCH_WAIT_SECONDS)
        counted = 0.0
        full = PARTITION_FETCH_BYTES / self.conditions.cut
        for _ in range(min(PARTITIONS_A_FETCH, len(fetcher.parts))):
            part = fetcher.parts.popleft()
            left = part.left(now)
            if left > full:
                part.got += full
                counted += PARTITION_FETCH_BYTES
                fetcher.parts.append(part)
            else:
                counted += max(left, 0.0)
                self._catch_up(fetcher, part)
        took = counted / self.conditions.link_bytes_per_s + ROUND_TRIP_SECONDS
        sends.record(now, counted)
        receives.record(now + took, counted)
        return took

    def _catch_up(self, fetcher: _Fetcher, part: _Part) -> None:
        """The replica enters the ISR; with the partition's last one, its throttle pairs go."""
        copy = part.copy
        self.ends[part.index] = self.now + ROUND_TRIP_SECONDS
        fetcher.idle_seconds = min(fetcher.idle_seconds, wait_seconds(copy.in_bytes_per_s))
        self.open_copies[copy.tp] -= 1
        siblings = self.caught_up.setdefault(copy.tp, [])
        rate = copy.in_bytes_per_s
        if self.open_copies[copy.tp]:
            siblings.append(copy)
            self.sent_in_sync[copy.leader] += rate
            self.received_in_sync[copy.destination] += rate
            return
        self.sent_in_sync[copy.leader] -= rate * (copy.followers + len(siblings))
        for sibling in siblings:
            self.received_in_sync[sibling.destination] -= rate

    # -- at average rates ------------------------------------------------------------------------

    def flow(self) -> None:
        """Let what is left flow at the rates that the steps average to, the longest last."""
        fetchers = [fetcher for fetcher in self.fetchers if fetcher.parts]
        if not fetchers:
            return
        leaders = sorted({f.flow.leader for f in fetchers})
        destinations = sorted({f.flow.destination for f in fetchers})
        leader_of = np.array([leaders.index(f.flow.leader) for f in fetchers])
        destination_of = np.array([destinations.index(f.flow.destination) for f in fetchers])
        left = np.array([sum(p.left(self.now) for p in f.parts) for f in fetchers])
        growth = np.array([sum(p.copy.in_bytes_per_s for p in f.parts) for f in fetchers])
        in_sync = np.array(
            [
                sum(
                    p.copy.in_bytes_per_s * p.copy.followers / self.open_copies[p.copy.tp]
                    for p in f.parts
                )
                for f in fetchers
            ]
        )
        own = np.array([self._average_bytes_per_s(f) for f in fetchers])
        running = np.ones(len(fetchers), np.bool_)
        now = self.now
        while running.any():
            at = np.flatnonzero(running)
            send = np.full(len(leaders), self.conditions.leader_bytes_per_s)
            send -= np.bincount(leader_of[at], in_sync[at], len(leaders))
            receive = np.full(len(destinations), -np.inf)
            np.maximum.at(receive, destination_of[at], own[at])
            rates = _shared(
                leader_of[at],
                destination_of[at],
                np.maximum(send, 0.0),
                receive,
                self.conditions.link_bytes_per_s,
            )
            net = rates / self.conditions.cut - growth[at]
            with np.errstate(divide="ignore"):
                need = np.where(net > 0, left[at] / np.where(net > 0, net, 1.0), np.inf)
            if not np.isfinite(need).any():
                return
            step = max(float(need.min()), _MERGE * float(need[np.isfinite(need)].max()))
            now += step
            left[at] -= net * step
            ended = need <= step
            for i in at[ended].tolist():
                for part in fetchers[i].parts:
                    self.ends[part.index] = now
            running[at[ended]] = False

    def _average_bytes_per_s(self, fetcher: _Fetcher) -> float:
        """Return what a destination's quota averages to: sleeps lose, overshooting gains."""
        fetch_bytes = min(PARTITIONS_A_FETCH, len(fetcher.parts)) * PARTITION_FETCH_BYTES
        asleep = fetcher.idle_seconds / WINDOW_SECONDS
        return self.conditions.follower_bytes_per_s * (1 - asleep) + fetch_bytes / (
            4 * WINDOW_SECONDS
        )


def _shared(
    leader_of: Ints, destination_of: Ints, send: Floats, receive: Floats, link: float
) -> Floats:
    """Return each flow's rate when all grow alike until a broker's side is full (max-min fair)."""
    rates = np.zeros(len(leader_of))
    growing = np.ones(len(leader_of), np.bool_)
    send, receive = send.copy(), np.maximum(receive, 0.0)
    level = 0.0
    while growing.any():
        senders = np.bincount(leader_of[growing], minlength=len(send))
        receivers = np.bincount(destination_of[growing], minlength=len(receive))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.concatenate(
                [
                    np.where(senders > 0, send / senders, np.inf),
                    np.where(receivers > 0, receive / receivers, np.inf),
                ]
            )
        step = min(float(shares.min()), link - level)
        level += step
        rates[growing] += step
        send -= step * senders
        receive -= step * receivers
        full_send, full_receive = send <= 1e-3, receive <= 1e-3
        growing &= ~(full_send[leader_of] | full_receive[destination_of])
        if level >= link:
            break
    return rates
