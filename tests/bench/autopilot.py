"""A month of an autopilot, beside a planner that acts once a day and knows what the day will bring.

The cluster is a light model: rates that follow the day, grow, jump and are noisy; sizes that follow
rates and retention; brokers that go down and come back, and one that joins. What is decided and
planned is the product's own, asked every 15 minutes of the model's time. Both begin from the same
even placement, move at the same speed, and leave a cluster with a broker down alone.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from core.autopilot.decide import decide
from core.autopilot.decision import Act
from core.autopilot.history import MOVE_COOL_DOWN, DecisionHistory, PastAction
from core.autopilot.observation import LoadView, Observation, placement_imbalance
from core.autopilot.plan_choice import copied_bytes
from core.autopilot.settings import AutopilotSettings, Mode
from core.cluster.metadata import Broker, PartitionRow, TopicPartition
from core.cluster.state import ClusterState, read_only
from core.load.load import Float64, Load, Source
from core.plan.plan import Plan
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.planner import suggest_plan
from tests.bench.harness import arguments, leave

BROKERS, PARTITIONS, REPLICAS, RACKS, TOPICS = 12, 2_000, 3, 3, 40
JOINS = 11
"""The broker that is not there in the beginning."""
DAYS, SEEDS = 30, 20
STEP = timedelta(minutes=15)
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
IN_BYTES_PER_S = 20e6
RETENTION_SECONDS = 2 * 86_400
NOISE = 0.05
COPIED_BYTES_PER_S = 60e6
"""What a run copies to, or from, each broker."""
LEAST_RUN_SECONDS = 60.0
SETTINGS = AutopilotSettings(mode=Mode.ACT, stale_seconds=1800)
"""The product's own, but that the model shows a load each quarter of an hour only."""


@dataclass(frozen=True, slots=True)
class Down:
    """A broker that is down from one hour of the month to another."""

    broker: int
    begins: int
    ends: int


@dataclass(frozen=True, eq=False)
class Month:
    """What happens whoever balances: rates by the hour [H, P], losses, and when a broker joins."""

    rates: Float64
    reads: Float64
    """Consumers of each partition, [P]."""
    sizes: Float64
    """Bytes of one replica, by the hour [H, P]."""
    downs: tuple[Down, ...]
    joins: int
    state: ClusterState

    @classmethod
    def of(cls, seed: int) -> Month:
        random = np.random.default_rng(seed)
        hours = DAYS * 24
        topic = np.sort(random.integers(0, TOPICS, PARTITIONS))
        base = random.lognormal(0, 1.2, TOPICS)[topic] * random.lognormal(0, 0.6, PARTITIONS)
        base *= IN_BYTES_PER_S / base.sum()
        rates = base * _growth(random, hours)[:, topic] * _rhythm(random, hours)[:, topic]
        rates *= np.exp(NOISE * random.standard_normal((hours, PARTITIONS)))
        return cls(
            rates=rates,
            reads=random.integers(0, 4, TOPICS)[topic].astype(np.float64),
            sizes=_sizes(rates),
            downs=_downs(random),
            joins=int(random.integers(8 * 24, 16 * 24)),
            state=_placed(random, topic),
        )

    def alive(self, hour: int) -> set[int]:
        gone = {down.broker for down in self.downs if down.begins <= hour < down.ends}
        return set(range(BROKERS)) - gone - ({JOINS} if hour < self.joins else set())

    def load(self, at: float) -> Float64:
        """Return the rates of one moment, in hours from the beginning, [P]."""
        low = min(int(at), len(self.rates) - 1)
        high = min(low + 1, len(self.rates) - 1)
        part = at - low
        return np.asarray(self.rates[low] * (1 - part) + self.rates[high] * part)


def _growth(random: np.random.Generator, hours: int) -> Float64:
    """Return how topics grow, shrink, and jump at times, [H, TOPICS]."""
    day = np.arange(hours)[:, None] / 24
    scale = np.exp(day * random.normal(0.01, 0.015, TOPICS))
    for at in range(24, hours, 24):
        if random.random() < 0.15:
            scale[at + random.integers(0, 24) :, random.integers(TOPICS)] *= random.choice([0.5, 2])
    return np.asarray(scale)


def _rhythm(random: np.random.Generator, hours: int) -> Float64:
    """Return the day of each topic, [H, TOPICS]: most peak in the afternoon, some at night."""
    peak = np.where(random.random(TOPICS) < 0.8, random.normal(15, 1.5, TOPICS), 3)
    depth = random.uniform(0.2, 0.7, TOPICS)
    hour = np.arange(hours)[:, None] % 24
    return np.asarray(1 + depth * np.cos((hour - peak) * 2 * np.pi / 24))


def _sizes(rates: Float64) -> Float64:
    """Return what is kept: as much as came within the retention."""
    sizes = np.empty_like(rates)
    size = rates[:24].mean(axis=0) * RETENTION_SECONDS
    for hour, rate in enumerate(rates):
        size = size + 3600 * (rate - size / RETENTION_SECONDS)
        sizes[hour] = size
    return sizes


def _downs(random: np.random.Generator) -> tuple[Down, ...]:
    downs = []
    for begin in np.sort(random.integers(24, DAYS * 24 - 24, 3)).tolist():
        downs.append(Down(int(random.integers(JOINS)), begin, begin + int(random.integers(1, 13))))
    return tuple(downs)


def _placed(random: np.random.Generator, topic: np.ndarray) -> ClusterState:
    """Return the partitions placed at random over the brokers that are there, racks kept."""
    by_rack = [[b for b in range(BROKERS) if b % RACKS == r and b != JOINS] for r in range(RACKS)]
    rows = []
    for partition, name in enumerate(topic.tolist()):
        held = [int(random.choice(brokers)) for brokers in by_rack]
        random.shuffle(held)
        rows.append(PartitionRow(f"t{name:02}", partition, held[0], tuple(held), tuple(held)))
    return ClusterState.build(
        cluster_id="month",
        fetched_at=BEGIN,
        controller=0,
        brokers=[Broker(b, f"r{b % RACKS}") for b in range(BROKERS)],
        topics=[],
        partitions=rows,
    )


@dataclass
class Placed:
    """One cluster of the month under one who balances it, and what that came to."""

    month: Month
    state: ClusterState
    running: tuple[datetime, Plan] | None = None
    bytes: float = 0.0
    moves: int = 0
    runs: int = 0
    outside_hours: float = 0.0
    back: int = 0
    """Replicas that came back, and leaders that lead again, within a day."""
    left: dict[tuple[TopicPartition, int, bool], datetime] = field(default_factory=dict)

    def at(self, hour: float) -> ClusterState:
        """Return the cluster as it is at one moment."""
        whole = min(int(hour), len(self.month.rates) - 1)
        alive = self.month.alive(whole)
        brokers = tuple(
            replace(b, alive=b.id in alive)
            for b in self.state.brokers
            if b.id != JOINS or whole >= self.month.joins
        )
        sizes = np.repeat(self.month.sizes[whole], REPLICAS).astype(np.int64)
        lives = np.isin(self.state.replica_broker, list(alive))
        return replace(self.state, brokers=brokers, size_bytes=sizes, in_sync=read_only(lives))

    def begin(self, now: datetime, plan: Plan, state: ClusterState) -> datetime:
        """Start a run; return when it will have ended."""
        self.runs += 1
        self.moves += len(plan)
        self.bytes += copied_bytes(state, plan)
        ends = now + timedelta(seconds=max(LEAST_RUN_SECONDS, _seconds(state, plan)))
        self.running = (ends, plan)
        for move in plan:
            for broker, leads in _members(move.after) - _members(move.before):
                left = self.left.get((move.tp, broker, leads))
                self.back += left is not None and now - left < MOVE_COOL_DOWN
            for broker, leads in _members(move.before) - _members(move.after):
                self.left[move.tp, broker, leads] = now
        return ends

    def end(self, now: datetime) -> bool:
        """Put replicas where the run has brought them, once it has ended; return whether it has."""
        if self.running is None or now < self.running[0]:
            return False
        held, leader = self.state.replica_broker.copy(), self.state.leader.copy()
        for move in self.running[1]:
            row = self.state.find(move.tp)
            assert row is not None
            held[self.state.replica_slice(row)] = move.after
            leader[row] = move.after[0]
        self.state = replace(self.state, replica_broker=read_only(held), leader=read_only(leader))
        self.running = None
        return True


def _members(replicas: tuple[int, ...]) -> set[tuple[int, bool]]:
    return {(broker, False) for broker in replicas} | {(replicas[0], True)}


def _seconds(state: ClusterState, plan: Plan) -> float:
    """Return how long a run takes that copies as fast as the busiest broker can."""
    inward, outward = np.zeros(BROKERS), np.zeros(BROKERS)
    for move in plan:
        row = state.find(move.tp)
        assert row is not None
        size = float(state.partition_size_bytes[row])
        for broker in move.adding:
            inward[broker] += size
            outward[move.before[0]] += size
    return float(max(inward.max(), outward.max()) / COPIED_BYTES_PER_S)


def _load(month: Month, rates: Float64, now: datetime) -> Load:
    return Load(rates, rates * month.reads, rates / 1000, Source.SIMULATED, now)


# -- who balances ----------------------------------------------------------------------------------


class Autopilot:
    """The product's decision, asked at every step."""

    def __init__(self, placed: Placed) -> None:
        self.placed, self.history = placed, DecisionHistory()
        self._run = ""
        self._day: deque[Float64] = deque(maxlen=int(timedelta(days=1) / STEP))
        """What was seen of the day until now: what the product has of Spark's windows."""

    def step(self, now: datetime, hour: float, state: ClusterState, load: Load) -> None:
        if self.placed.end(now):
            self.history = self.history.ending(self._run, now, 0.0)
        self._day.append(load.in_bytes_per_s)
        usual = _load(self.placed.month, np.mean(self._day, axis=0), now)
        observed = Observation(
            now=now,
            state=state,
            reassignments={},
            load_view=LoadView(now.isoformat(), load, 1.0, usual=lambda: usual),
            imbalance=placement_imbalance(SETTINGS, state, load),
        )
        self.history = self.history.seeing(SETTINGS, observed)
        decision = decide(SETTINGS, self.history, observed)
        if isinstance(decision, Act):
            self._run = f"run-{self.placed.runs}"
            moved = frozenset(move.tp for move in decision.plan)
            self.history = self.history.acting(PastAction(now, self._run, moved, decision.bytes))
            self.placed.begin(now, decision.plan, state)


class Daily:
    """A planner with hindsight: at midnight it evens out the mean of the day to come."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed

    def step(self, now: datetime, hour: float, state: ClusterState, load: Load) -> None:
        self.placed.end(now)
        month = self.placed.month
        at = round(hour)
        whole = all(broker.alive for broker in state.brokers)
        if hour % 24 or self.placed.running is not None or not whole:
            return
        coming = range(at, min(at + 24, len(month.rates)))
        days = (_load(month, month.rates[h], now) for h in coming)
        if not any(placement_imbalance(SETTINGS, state, hour_load).outside for hour_load in days):
            return
        mean = _load(month, month.rates[at : at + 24].mean(axis=0), now)
        plan = suggest_plan(state, mean, PlanRequest(band=SETTINGS.aim_band)).plan
        if plan.moves:
            self.placed.begin(now, plan, state)


def play(seed: int) -> dict[str, Any]:
    """Return what a month came to under both."""
    month = Month.of(seed)
    state = Placed(month, month.state).at(0)
    even = suggest_plan(
        state, _load(month, month.rates[:24].mean(axis=0), BEGIN), PlanRequest(band=0.10)
    )
    first = Placed(month, month.state)
    first.begin(BEGIN, even.plan, state)
    first.end(BEGIN + timedelta(days=365))
    began = time.process_time()
    pilots = [Autopilot(Placed(month, first.state)), Daily(Placed(month, first.state))]
    for now, hour in _moments():
        rates = month.load(hour)
        for pilot in pilots:
            state = pilot.placed.at(hour)
            load = _load(month, rates, now)
            pilot.step(now, hour, state, load)
            if all(broker.alive for broker in state.brokers):
                off = placement_imbalance(SETTINGS, pilot.placed.at(hour), load).outside
                pilot.placed.outside_hours += bool(off) * STEP / timedelta(hours=1)
    ours, theirs = (_row_of(pilot.placed) for pilot in pilots)
    seconds = round(time.process_time() - began, 1)
    return {"seed": seed, "autopilot": ours, "daily": theirs, "processor_seconds": seconds}


def _moments() -> Iterator[tuple[datetime, float]]:
    for n in range(int(timedelta(days=DAYS) / STEP)):
        yield BEGIN + n * STEP, n * STEP / timedelta(hours=1)


def _row_of(placed: Placed) -> dict[str, Any]:
    return {
        "runs": placed.runs,
        "partitions": placed.moves,
        "bytes": round(placed.bytes),
        "outside_hours": round(placed.outside_hours, 2),
        "back_within_a_day": placed.back,
    }


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all months together, and what the autopilot needs of what hindsight does."""
    whole = {
        who: {key: sum(row[who][key] for row in rows) for key in rows[0][who]}
        for who in ("autopilot", "daily")
    }
    ours, theirs = whole["autopilot"], whole["daily"]
    return whole | {
        "bytes_ratio": ours["bytes"] / theirs["bytes"] if theirs["bytes"] else None,
        "outside_ratio": ours["outside_hours"] / theirs["outside_hours"]
        if theirs["outside_hours"]
        else None,
    }


def main() -> None:
    chosen = arguments(__doc__, seeds=SEEDS)
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.seeds):
        rows.append(play(seed))
        print(json.dumps(rows[-1]), flush=True)
        about = {"brokers": BROKERS, "partitions": PARTITIONS, "days": DAYS, "months": rows}
        leave(about | summed(rows), chosen.output)


if __name__ == "__main__":
    main()
