"""Signals for an adaptive rate: produce latency, copying rates, replicas that left the ISR.

What copies get and what comes in are told by its samples, who falls out of step by the cluster's
description, and what producers wait by a probe, where there is one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from core.clock import Clock
from core.cluster.probe.produce_latency import ProduceProbe
from core.cluster.state import ClusterState
from core.plan.copies import Side
from core.run.journal.produce_latency import (
    BaselineMeasurement,
    LatencyBaseline,
    SideObservation,
    before,
)
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key, by_side
from core.run.steps import Observation
from core.run.throttles.inflow import growing_sides, inflow_bytes_per_s, remaining_bytes

FLOW_SECONDS = 12.0
"""Copies under a quota stall and burst: what they get is told by a whole window."""
SETTLED_SECONDS = 3.0
"""How long a follower must be out of step to be believed: brokers lag behind the controller."""
KEPT_SIZES = 8
BEFORE_WINDOWS = 7
"""So many windows of a probe are awaited before a run begins. The median one counts: the first may
still feel how the run itself was started, and of three, two such have been seen."""


class Signals:
    """Keeps the newest of what was seen; nothing of it outlives the process."""

    def __init__(self, probe: ProduceProbe | None) -> None:
        self._probe = probe
        self._samples: deque[tuple[datetime, dict[int, tuple[int, ...]]]] = deque()
        self._leaders: dict[int, int] = {}
        self._out_since: dict[Key, tuple[str, datetime]] = {}
        self._sizes: dict[int, deque[tuple[datetime, int]]] = {}
        self._left: dict[Key, float | None] | None = None

    @property
    def trouble(self) -> str:
        """Return why producers' waits are not known, "" while they are or may yet be."""
        if self._probe is None:
            return "produce latency is not measured: nobody produces to a simulated cluster"
        return self._probe.trouble

    @property
    def ready(self) -> bool:
        """Return whether what producers wait before the run is known, or never will be."""
        if self._probe is None or self._probe.trouble:
            return True
        windows = self._probe.windows()
        return bool(windows) and all(len(window) >= BEFORE_WINDOWS for window in windows.values())

    def before(self) -> dict[int, LatencyBaseline]:
        """Return what producers to each broker wait now, which is before the run begins."""
        windows = self._probe.windows() if self._probe else {}
        latencies = {broker: before(window) for broker, window in windows.items()}
        return {broker: wait for broker, wait in latencies.items() if wait is not None}

    def take_sample(self, at: datetime, sample: Mapping[str, Any]) -> None:
        """Take one of the journal's samples in (core.run.engine.sampler)."""
        came = {}
        for index, size, leader, arrived, _ in sample["moves"]:
            came[index] = tuple(part or 0 for part in arrived)
            self._leaders[index] = -1 if leader is None else leader
            sizes = self._sizes.setdefault(index, deque(maxlen=KEPT_SIZES))
            if size is not None and (not sizes or sizes[-1][1] != size):
                sizes.append((at, size))
        self._samples.append((at, came))
        self._left = None
        while (at - self._samples[0][0]).total_seconds() > FLOW_SECONDS:
            self._samples.popleft()

    def sides(
        self,
        run: RunState,
        state: ClusterState,
        waited: Mapping[int, LatencyBaseline],
        keys: Iterable[Key],
    ) -> dict[Key, SideObservation]:
        """Return what is known of these sides; `waited` is what `before` once said."""
        flows = self._flows(run)
        growing = growing_sides(run, self._sizes, self._leaders)
        fallen = self._out_of_step_reasons(state)
        if self._left is None:  # with each sample anew: a long plan has many moves
            arrived = self._samples[-1][1] if self._samples else {}
            sizes = {index: samples[-1][1] for index, samples in self._sizes.items() if samples}
            leaders = {index: leader for index, leader in self._leaders.items() if leader >= 0}
            self._left = remaining_bytes(run, arrived, sizes, leaders)
        windows = self._probe.windows() if self._probe else {}
        places = self._probe.replicas_by_broker if self._probe else {}
        observations = {}
        for key in keys:
            probed = probed_broker(places, key)
            observations[key] = SideObservation(
                before=waited.get(probed),
                windows=windows.get(probed, ()),
                out_of_step=fallen.get(key, ""),
                flow_bytes_per_s=flows.get(key, 0.0),
                inflow_bytes_per_s=inflow_bytes_per_s(key[1], growing.get(key, ())),
                left_bytes=self._left.get(key, 0),
            )
        return observations

    def _out_of_step_reasons(self, state: ClusterState) -> dict[Key, str]:
        """Return who is out of step for long enough: a replica that has just arrived seems so."""
        now = out_of_step(state)
        self._out_since = {
            key: (why, since if why == before else state.fetched_at)
            for key, why in now.items()
            for before, since in [self._out_since.get(key, ("", state.fetched_at))]
        }
        return {
            key: why
            for key, (why, since) in self._out_since.items()
            if (state.fetched_at - since).total_seconds() >= SETTLED_SECONDS
        }

    def _flows(self, run: RunState) -> dict[Key, float]:
        """Return what the copies in flight get, over a quota window."""
        flows: defaultdict[Key, float] = defaultdict(float)
        if len(self._samples) < 2:
            return {}
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        seconds = (ended - began).total_seconds()
        if seconds <= 0:  # the wall clock was set back
            return {}
        for index, arrived in last.items():
            earlier = first.get(index, (0,) * len(arrived))
            came = [max(0, b - a) / seconds for a, b in zip(earlier, arrived, strict=True)]
            for key, rate in by_side(run.moves[index].move, came, self._leaders[index]):
                flows[key] += rate
        return dict(flows)


def probed_broker(places: Mapping[int, Sequence[int]], key: Key) -> int:
    """Return whose messages tell of a broker's side: its own, or those that it follows first."""
    broker, side = key
    if side is Side.FOLLOWER:
        follows = [leader for leader, replicas in places.items() if broker in replicas[1:]]
        return min(follows, key=lambda leader: places[leader].index(broker), default=broker)
    return broker


def out_of_step(state: ClusterState) -> dict[Key, str]:
    """Return which broker's sides have a follower that lives and is out of the ISR, in words.

    New replicas are out of it by nature, and a broker that is down is out of step for its own
    reasons.
    """
    lost = ~state.in_sync & ~state.adding & np.isin(state.replica_broker, state.alive_ids)
    reasons: dict[Key, str] = {}
    for replica in np.flatnonzero(lost).tolist():
        row = int(state.partition_of_replica[replica])
        broker, leader = int(state.replica_broker[replica]), int(state.leader[row])
        why = f"broker {broker} has left the ISR of {state.tp(row)}"
        reasons.setdefault((leader, Side.LEADER), why)
        reasons.setdefault((broker, Side.FOLLOWER), why)
    return reasons


MEASURE_SECONDS = 45.0
"""How long a run waits for what producers wait before it; then what is known must do."""


OpenProbe = Callable[[Sequence[int]], ProduceProbe | None]
"""Opens a probe of these brokers; None where nothing can be probed."""


class SignalMonitor:
    """The signals of one process: measured from the first look at a run that adapts its rate."""

    def __init__(self, open_probe: OpenProbe, clock: Clock) -> None:
        self._open_probe, self._clock = open_probe, clock
        self._probe: ProduceProbe | None = None
        self._signals: Signals | None = None
        self._since = 0.0
        self._cleared = False
        self.left = ""
        """What a probe could not take away again, in words."""

    def look(self, run: RunState, observed: Observation, state: ClusterState) -> Observation:
        """Return what is observed with how brokers fare, if this run adapts its rate."""
        if not run.preflight or not run.adapts_rate:
            if run.preflight and run.rate_control.adapted and not self._cleared:
                self._opened(run, state)  # closing it takes away what another process left
            self.close()
            return observed
        signals = self._opened(run, state)
        before = run.measured.before if run.measured else {}
        measured: BaselineMeasurement | None = None
        is_late = self._clock.monotonic() - self._since >= MEASURE_SECONDS
        if run.measured is None and (signals.ready or is_late):
            measured = BaselineMeasurement(signals.before(), signals.trouble)
        sides = signals.sides(run, state, before, run.rate_control.rates)
        return replace(observed, measured=measured, sides=sides)

    def take_sample(self, at: datetime, sample: Mapping[str, Any]) -> None:
        if self._signals is not None:
            self._signals.take_sample(at, sample)

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self.left = self._probe.leftover
        self._cleared |= self._signals is not None
        self._probe = self._signals = None

    def _opened(self, run: RunState, state: ClusterState) -> Signals:
        if self._signals is None:
            involved = {b for m in run.moves for b in (*m.move.before, *m.move.after)}
            self._probe = self._open_probe(sorted(involved.intersection(state.alive_ids)))
            self._signals = Signals(self._probe)
            self._since = self._clock.monotonic()
        return self._signals
