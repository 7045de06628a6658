"""Time left of a run: the estimate's simulation, continued from the copies' present state.

Batches to come, limits that moves share and what is produced meanwhile count as in an estimate;
how fast this run has been at its limits so far corrects it. Copies between log dirs are none of
these. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from core.plan.batch_schedule import CopyBatches
from core.plan.copies import FETCH_WAIT_SECONDS, BrokerSide, Copy, Flow, Side, wait_seconds
from core.plan.estimate.average_rates import Conditions, share_fairly
from core.plan.estimate.fetch_simulation import RunningCopies, simulate_copies
from core.plan.estimate.uncertainty import END_SECONDS, LINK_BYTES_PER_S, USUAL_CUT
from core.run.journal.move_state import MoveRequest, RunMove
from core.run.journal.run_state import RunState
from core.run.reporting.rates import SamplePoint, heading_for, passed, size_changes
from core.run.throttles.inflow import growth_bytes_per_s

EVENTS = 800
"""Fetches and waits that are played: the picture is made anew each second."""
STEPS = 60
"""Of what flows after them: each is a percent or two of what is left."""
COUNTED_SECONDS = 24.0
"""For how long before now bytes are counted in the quotas: no window remembers more."""
LEADER_SECONDS = 20.0
"""For how long a leader's log is taken to have grown since it was last seen to: it is asked more
often than that."""
OWN_SECONDS = 24.0
"""The limits' own promise counts as so many seconds of what was seen: two quota windows."""
SPEEDS = (0.4, 1.2)
"""Beyond these it is not the limits that decide."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds of the whole run to its end, and of each move in flight."""

    seconds: float
    of: Mapping[int, float] = field(default_factory=dict)


def time_left(
    run: RunState,
    tracks: Mapping[int, Sequence[SamplePoint]],
    at_work: Mapping[datetime, float],
    now: datetime,
) -> TimeLeft | None:
    """Return the time left from `now` on, None where it depends on what is not known.

    `at_work` are the seconds before each sample in which the run was at work as it is now.
    """
    due = _due(run, tracks, now)
    if due is None:
        return None
    indices, copies = [index for index, _ in due], [copy for _, copy in due]
    limits = _limits(run, {side for copy in copies for side in copy.flow.sides})
    if limits is None:
        return None
    speed = _relative_speed(run, tracks, at_work)
    moves = [run.moves[i] for i in indices]
    in_flight = frozenset(at for at, m in enumerate(moves) if m.phase.in_flight)
    submitted = [m.submitted_at for m in run.moves if m.submitted_at is not None]
    since = (max(submitted, default=now) - now).total_seconds()
    trace = simulate_copies(
        copies,
        _idle_seconds(run, copies),
        Conditions(
            math.inf,
            LINK_BYTES_PER_S,
            USUAL_CUT,
            per_side_rates={side: limit * speed for side, limit in limits.items()},
        ),
        CopyBatches(
            tuple(m.batch for m in moves),
            frozenset(at for at, m in enumerate(moves) if m.long),
            run.max_extra_bytes,
        ),
        RunningCopies(in_flight, min(0.0, since), _counted(run, tracks, now)),
        events=EVENTS,
        steps=STEPS,
    )
    if not all(map(math.isfinite, trace.ends)):
        return None
    of: defaultdict[int, float] = defaultdict(float)
    for at in in_flight:
        of[indices[at]] = max(of[indices[at]], trace.ends[at])
    return TimeLeft(max(trace.ends) + END_SECONDS, dict(of))


def _due(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]], now: datetime
) -> list[tuple[int, Copy]] | None:
    """Return what is still to be copied, by move; None for nothing, or where no size is known."""
    copies: list[tuple[int, Copy]] = []
    for index, m in enumerate(run.moves):
        if m.phase.ended or m.replaced or m.request is not MoveRequest.CONTINUE:
            continue
        if not m.move.adding:
            continue
        track = tracks.get(index, ()) if m.phase.in_flight else ()
        grows, size = _size(m, track, now)
        if size is None:
            return None
        leader = track[-1].leader if track else m.leader
        if leader is None or leader < 0:
            leader = m.move.before[0]
        came = dict(zip(m.move.receiving, track[-1].arrived, strict=True)) if track else {}
        followers = sum(replica != leader for replica in m.move.before)
        for broker in m.move.adding:
            left = max(0.0, size - (came.get(broker) or 0))
            copies.append((index, Copy(m.move.tp, leader, broker, left, grows, followers)))
    return copies or None


def _size(m: RunMove, track: Sequence[SamplePoint], now: datetime) -> tuple[float, float | None]:
    """Return how fast a leader's log grows, and how large it is by now; None if unknown."""
    changes = size_changes(track)
    observed_growth = growth_bytes_per_s(changes)
    grows = m.produced_bytes_per_s if observed_growth is None else observed_growth
    if not changes:
        return grows, None if m.size_bytes is None else float(m.size_bytes)
    at, size = changes[-1]
    return grows, size + grows * min(LEADER_SECONDS, max(0.0, (now - at).total_seconds()))


def _limits(run: RunState, sides: Iterable[BrokerSide]) -> dict[BrokerSide, float] | None:
    """Return the limits of sides once they are as asked, also of those that have no move yet.

    None where one has none.
    """
    limits: dict[BrokerSide, float] = {}
    control = run.rate_control
    for side in sides:
        limit: int | None = control.per_side_rates.get(side, control.first_bytes_per_s)
        if side in run.throttles.rates or not run.throttles.rates:
            limit = heading_for(run, side)
        if limit is None:
            return None
        limits[side] = limit
    return limits


def _idle_seconds(run: RunState, copies: Sequence[Copy]) -> dict[Flow, float]:
    """Return how long a fetcher is away that may fetch nothing: what else it follows is not known.

    On a cluster to which anything is produced it is taken to follow some of it.
    """
    produced = sum(m.produced_bytes_per_s for m in run.moves)
    flows = {copy.flow for copy in copies}
    idle = wait_seconds(produced / len(flows)) if produced else FETCH_WAIT_SECONDS
    return dict.fromkeys(flows, idle)


def _counted(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]], now: datetime
) -> dict[BrokerSide, list[tuple[float, float]]]:
    """Return what each side has copied lately, as its quota has counted it: (when, bytes)."""
    since = now - timedelta(seconds=COUNTED_SECONDS)
    return {
        BrokerSide(broker, side): [
            ((row.at - now).total_seconds(), float(row.bytes)) for row in rows if row.at <= now
        ]
        for (broker, side), rows in passed(run, tracks, since).items()
    }


# -- how fast it has been ------------------------------------------------------------------------


def _relative_speed(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]], at_work: Mapping[datetime, float]
) -> float:
    """Return how fast this run was so far over what its limits would have given it.

    What fetches cut off, or the machines do not keep up with, makes it slower. Until some quota
    windows have been seen it is about 1.
    """
    flows = _last_bytes(run, tracks, at_work)
    limits = _limits(run, {side for of in flows.values() for flow in of for side in flow.sides})
    if not limits:
        return 1.0
    rates: dict[frozenset[tuple[Flow, int]], dict[Flow, float]] = {}
    came = expected = seconds = 0.0
    for at, of in flows.items():
        key = frozenset(
            (flow, round(interval.in_sync_bytes_per_s)) for flow, interval in of.items()
        )
        if key not in rates:
            rates[key] = _fair_rates(of, limits)
        came += sum(interval.came for interval in of.values())
        expected += sum(
            min(rates[key][flow] * at_work[at], interval.due) for flow, interval in of.items()
        )
        seconds += at_work[at]
    if not expected:
        return 1.0
    own = expected / seconds * OWN_SECONDS
    low, high = SPEEDS
    return min(max((came + own) / (expected + own), low), high)


@dataclass(slots=True)
class _FetcherInterval:
    """What one fetcher had to copy at the beginning of an interval, and what of it came."""

    due: float = 0.0
    came: float = 0.0
    in_sync_bytes_per_s: float = 0.0
    """What in-sync followers of the same partitions fetch from that leader."""


def _last_bytes(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]], at_work: Mapping[datetime, float]
) -> dict[datetime, dict[Flow, _FetcherInterval]]:
    """Return what was seen of each fetcher that had something to copy, by interval's end."""
    intervals: defaultdict[datetime, dict[Flow, _FetcherInterval]] = defaultdict(dict)
    for index, track in tracks.items():
        m = run.moves[index]
        adding, receiving = m.move.adding, m.move.receiving
        for before, after in pairwise(track):
            if after.at not in at_work or before.leader is None or before.size_bytes is None:
                continue
            followers = sum(replica != before.leader for replica in m.move.before)
            for broker, was, now in zip(receiving, before.arrived, after.arrived, strict=True):
                due = before.size_bytes - (was or 0)
                if due > 0 and broker in adding:
                    flow = Flow(before.leader, broker)
                    interval = intervals[after.at].setdefault(flow, _FetcherInterval())
                    interval.due += due
                    in_sync = m.produced_bytes_per_s * followers / len(adding)
                    interval.in_sync_bytes_per_s += in_sync
                    interval.came += max(0, (now or 0) - (was or 0))
    return dict(intervals)


def _fair_rates(
    flows: Mapping[Flow, _FetcherInterval], limits: Mapping[BrokerSide, float]
) -> dict[Flow, float]:
    """Return what limits would give fetchers that share them, bytes/s."""
    of = list(flows)
    leaders, leader_of = np.unique([flow.leader for flow in of], return_inverse=True)
    takers, taker_of = np.unique([flow.destination for flow in of], return_inverse=True)
    send = np.array([limits[BrokerSide(b, Side.LEADER)] for b in leaders.tolist()], float)
    send = send - np.bincount(
        leader_of, [interval.in_sync_bytes_per_s for interval in flows.values()]
    )
    receive = [limits[BrokerSide(broker, Side.FOLLOWER)] for broker in takers.tolist()]
    rates = share_fairly(leader_of, taker_of, send, np.array(receive), LINK_BYTES_PER_S)
    return dict(zip(of, rates.tolist(), strict=True))
