"""How long copies take under replication quotas: brokers' fetch loops, simulated fetch by fetch."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.cluster.metadata import TopicPartition
from core.cluster.quota import Quota
from core.plan.batch_schedule import CopyBatches, Submissions
from core.plan.copies import (
    PARTITION_FETCH_BYTES,
    PARTITIONS_A_FETCH,
    BrokerSide,
    Copy,
    Flow,
    Side,
    wait_seconds,
)
from core.plan.estimate import average_rates
from core.plan.estimate.average_rates import Conditions
from core.plan.estimate.trace import Fetch, Trace


class Links:
    """When each broker's link is free again, each way; `room` has those whose bytes/s are known."""

    def __init__(self, room: Mapping[BrokerSide, float]) -> None:
        self._room = room
        self._free_at = dict.fromkeys(room, 0.0)

    def carry(self, flow: Flow, size_bytes: float, now: float) -> float:
        """Let a fetch pass behind those before it; return in how many seconds it is through."""
        through = now
        for side in flow.sides:
            if side in self._room:
                begins = max(now, self._free_at[side])
                self._free_at[side] = begins + size_bytes / self._room[side]
                through = max(through, self._free_at[side])
        return through - now

    @property
    def free_at(self) -> float:
        """Return when all that was asked for is through."""
        return max(self._free_at.values(), default=0.0)


WINDOW_SECONDS = 11.5
"""What the brokers' quota window is on average."""
ROUND_TRIP_SECONDS = 0.004
APPEND_SECONDS = 0.1
"""How soon at least an append wakes a fetch that waits at the leader for the leader's quota."""
TICK_SECONDS = 0.25
"""How often ordinary replication is counted; followers fetch at least twice a second."""
EVENT_BUDGET = 2500
"""Fetches and waits to simulate; the rest flows."""
STAGGER_SECONDS = 0.5
"""Within how long after a submission the fetchers begin."""
_TICKS_KEPT = math.ceil(2 * WINDOW_SECONDS / TICK_SECONDS)
"""Of a gap between fetches, which may be years on a tiny link: no quota knows what was before."""
_GOLDEN = 0.618034


CountedBytes = Sequence[tuple[float, float]]
"""What a quota has counted: (when, bytes), oldest first, in seconds before now (negative)."""


@dataclass(frozen=True, slots=True)
class RunningCopies:
    """Where copies stand that have begun: those in flight, and what quotas have counted lately.

    `submitted_at` is when the newest of them were, in seconds before now (negative).
    """

    in_flight: frozenset[int]
    submitted_at: float = 0.0
    counted: Mapping[BrokerSide, CountedBytes] = field(default_factory=dict)


@dataclass(slots=True)
class _CopyProgress:
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
    stagger: float
    """When it begins after a submission, 0 to 1; nobody knows, so it is spread evenly."""
    parts: deque[_CopyProgress] = field(default_factory=deque)


def simulate_copies(
    copies: Sequence[Copy],
    idle_seconds: Mapping[Flow, float],
    conditions: Conditions,
    batches: CopyBatches | None = None,
    midway: RunningCopies | None = None,
    *,
    events: int = EVENT_BUDGET,
    steps: int = average_rates.STEPS,
) -> Trace:
    """Return when each copy has caught up, and who sent and received what until then.

    Times are seconds from the first submission, or from now where copies are `midway`; infinite
    is never. Without `batches` all are submitted at once. So many `events` are simulated, and what
    flows after them is told in so many `steps`.
    """
    simulation = _FetchSimulation(
        copies, idle_seconds, conditions, batches or CopyBatches.at_once(len(copies)), midway
    )
    simulation.simulate(events)
    until = simulation.now
    flowed = simulation.flow(steps)
    if flowed is None:
        until = math.inf
    return Trace(
        copies, simulation.ends, simulation.submissions.begun, simulation.fetches, until, flowed
    )


class _FetchSimulation:
    """One simulation: quotas and fetchers of all brokers involved, and the time."""

    def __init__(
        self,
        copies: Sequence[Copy],
        idle_seconds: Mapping[Flow, float],
        conditions: Conditions,
        batches: CopyBatches,
        midway: RunningCopies | None = None,
    ) -> None:
        self.copies, self.conditions, self.batches = copies, conditions, batches
        self.now = 0.0
        self.ends = [math.inf] * len(copies)
        leaders = {copy.leader for copy in copies}
        quotas = {broker: conditions.quota(broker, Side.LEADER) for broker in leaders}
        self.sends = {
            broker: Quota(quota) if midway else Quota.after_idle(quota, -conditions.phase)
            for broker, quota in quotas.items()
        }
        self.receives = {
            destination: Quota(conditions.quota(destination, Side.FOLLOWER))
            for destination in dict.fromkeys(copy.destination for copy in copies)
        }
        self.links = Links(conditions.room)
        in_flight = midway.in_flight if midway else frozenset()
        self.submissions = Submissions(
            copies, batches, in_flight, midway.submitted_at if midway else 0.0
        )
        self.open_copies: Counter[TopicPartition] = Counter()
        self.sent_in_sync = dict.fromkeys(leaders, 0.0)
        self.received_in_sync = dict.fromkeys(self.receives, 0.0)
        self.fetchers = {
            flow: _Fetcher(flow, idle_seconds[flow], (conditions.phase + i * _GOLDEN) % 1.0)
            for i, flow in enumerate(dict.fromkeys(copy.flow for copy in copies))
        }
        self.heap: list[tuple[float, float, Flow]] = []
        self.caught_up: dict[TopicPartition, list[Copy]] = {}
        self.fetches: list[Fetch] = []
        if midway is not None:
            self._go_on(midway)

    def simulate(self, events: int) -> None:
        """Simulate fetches and waits until all is copied or so many events are over."""
        tick = 0.0
        for _ in range(events):
            begins_at = self.submissions.begins_at
            if not self.heap and math.isinf(begins_at):
                return
            if not self.heap or begins_at <= self.heap[0][0]:
                self.now = begins_at
                self._submit(self.submissions.begin(begins_at))
                continue
            self.now, _, flow = heapq.heappop(self.heap)
            due = max(0, math.floor((self.now - tick) / TICK_SECONDS) + 1)
            for at in (tick + i * TICK_SECONDS for i in range(max(0, due - _TICKS_KEPT), due)):
                for broker, quota in self.sends.items():
                    quota.record(at, self.sent_in_sync[broker] * TICK_SECONDS)
                for broker, rate in self.received_in_sync.items():
                    if rate:
                        self.receives[broker].record(at, rate * TICK_SECONDS)
            tick += due * TICK_SECONDS
            fetcher = self.fetchers[flow]
            wait = self._step(fetcher)
            if fetcher.parts:
                self._schedule_fetch(fetcher, self.now + wait)
        self.now = max(self.now, self.links.free_at)

    def flow(self, steps: int) -> average_rates.FluidFlows | None:
        """Let what is left flow at the rates that the steps average to; None when nothing is."""
        units: defaultdict[tuple[Flow, int], list[average_rates.RemainingCopy]] = defaultdict(list)
        running = [part for fetcher in self.fetchers.values() for part in fetcher.parts]
        waiting = [_CopyProgress(at, self.copies[at]) for at in self.submissions.waiting]
        open_later = Counter(part.copy.tp for part in waiting)
        for parts, open_copies in ((running, self.open_copies), (waiting, open_later)):
            for part in parts:
                left, still_open = part.left(self.now), open_copies[part.copy.tp]
                units[part.copy.flow, self.batches.number[part.index]].append(
                    average_rates.RemainingCopy(part.index, part.copy, left, still_open)
                )
        if not units:
            return None
        flowed = average_rates.FluidFlows.of(list(units.values()))
        receive = []  # what a destination's quota averages to: sleeps lose, overshooting gains
        for (flow, _), unit in units.items():
            fetch_bytes = min(PARTITIONS_A_FETCH, len(unit)) * PARTITION_FETCH_BYTES
            asleep = self.fetchers[flow].idle_seconds / WINDOW_SECONDS
            quota = self.conditions.quota(flow.destination, Side.FOLLOWER)
            receive.append(quota * (1 - asleep) + fetch_bytes / (4 * WINDOW_SECONDS))
        for at, end in average_rates.simulate_flows(
            flowed, self.conditions, receive, self.submissions, self.now, steps
        ):
            self.ends[at] = end
        return flowed

    def _go_on(self, midway: RunningCopies) -> None:
        """Take up what is in flight, and count what has passed lately in the quotas again."""
        self._submit(sorted(midway.in_flight))
        for broker, quota in self.sends.items():
            in_sync = self.sent_in_sync[broker] * TICK_SECONDS
            counted = [(i * TICK_SECONDS, in_sync) for i in range(-_TICKS_KEPT, 0)]
            lately = midway.counted.get(BrokerSide(broker, Side.LEADER), ())
            for at, size in sorted((*counted, *lately)):
                quota.record(at, size)
        for broker, quota in self.receives.items():
            for at, size in midway.counted.get(BrokerSide(broker, Side.FOLLOWER), ()):
                quota.record(at, size)

    def _submit(self, batch: Sequence[int]) -> None:
        """Have a batch's partitions count from now on, and wake their fetchers."""
        asleep = [fetcher for fetcher in self.fetchers.values() if not fetcher.parts]
        for at in batch:
            copy = self.copies[at]
            self.fetchers[copy.flow].parts.append(_CopyProgress(at, copy))
            if not self.open_copies[copy.tp]:
                self.sent_in_sync[copy.leader] += copy.in_bytes_per_s * copy.followers
            self.open_copies[copy.tp] += 1
        woken = [fetcher for fetcher in asleep if fetcher.parts]
        first = min((fetcher.stagger for fetcher in woken), default=0.0)
        for fetcher in woken:
            self._schedule_fetch(fetcher, self.now + (fetcher.stagger - first) * STAGGER_SECONDS)

    def _schedule_fetch(self, fetcher: _Fetcher, at: float) -> None:
        heapq.heappush(self.heap, (at, fetcher.stagger, fetcher.flow))

    def _step(self, fetcher: _Fetcher) -> float:
        """Let a fetcher fetch if both quotas let it; return how long until it comes again."""
        now, flow = self.now, fetcher.flow
        receives, sends = self.receives[flow.destination], self.sends[flow.leader]
        if not receives.allows(now):
            return fetcher.idle_seconds
        if not sends.allows(now):
            # The leader holds the fetch in its purgatory, where each append to one of its
            # partitions has the quota looked at anew (DelayedFetch.tryComplete).
            appended = sum(part.copy.in_bytes_per_s for part in fetcher.parts)
            return min(fetcher.idle_seconds, max(wait_seconds(appended), APPEND_SECONDS))
        counted = brought = 0.0
        full = PARTITION_FETCH_BYTES / self.conditions.cut
        ending: list[_CopyProgress] = []
        for _ in range(min(PARTITIONS_A_FETCH, len(fetcher.parts))):
            part = fetcher.parts.popleft()
            left = part.left(now)
            if left > full:
                part.got += full
                counted += PARTITION_FETCH_BYTES
                brought += full
                fetcher.parts.append(part)
            else:
                counted += max(left, 0.0)
                brought += max(left, 0.0)
                ending.append(part)
        seconds = self.links.carry(flow, counted, now)
        for part in ending:
            self._catch_up(fetcher, part, now + seconds)
        self.fetches.append(Fetch(now, flow, brought))
        took = max(counted / self.conditions.link_bytes_per_s, seconds) + ROUND_TRIP_SECONDS
        sends.record(now, counted)
        receives.record(now + took, counted)
        return took

    def _catch_up(self, fetcher: _Fetcher, part: _CopyProgress, arrived: float) -> None:
        """The replica enters the ISR; with the partition's last one, its throttle pairs go."""
        copy = part.copy
        self.ends[part.index] = arrived + ROUND_TRIP_SECONDS
        self.submissions.caught_up(part.index, self.now)
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
