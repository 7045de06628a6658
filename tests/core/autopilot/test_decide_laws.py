"""Whatever a cluster does for days: no guard is passed by, no budget exceeded, nothing goes back.

The clock is the test's own; runs take as long as they like, and others work on the cluster too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
from auto_help import loaded, look, steady
from clusters import MB, NOON, cluster, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.autopilot.decide import decide
from core.autopilot.decision import Act, Elect
from core.autopilot.history import HOUR, MOVE_COOL_DOWN, DecisionHistory, PastAction
from core.autopilot.observation import BrokerMeasure, Observation
from core.autopilot.settings import AutopilotSettings, Hours, Mode
from core.cluster.metadata import TopicPartition
from core.plan.plan import Plan

BUSY = Hours.parse("mon-fri 09:00-12:00", "--avoid")
MORNING = NOON.astimezone().replace(hour=7)
PACES = ((1200, timedelta(minutes=10)), (300, timedelta(minutes=4)))
"""From which age in seconds load is stale, and how often is looked."""


@dataclass
class Weather:
    """What one look was made to show; whatever the autopilot makes of it."""

    dead: list[int]
    late: list[str]
    controller: int | None
    age_seconds: int
    good: float
    theirs: tuple[str, ...]
    away: list[str]
    """Partitions that their second replica leads."""
    outside: frozenset[BrokerMeasure] = frozenset()
    leaders_outside: frozenset[BrokerMeasure] = frozenset()


@dataclass
class Life:
    """A cluster over days under an autopilot, and everything that was copied in it."""

    random: np.random.Generator
    settings: AutopilotSettings
    now: datetime = MORNING
    history: DecisionHistory = field(default_factory=DecisionHistory)
    held: dict[str, list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    step_by: timedelta = PACES[0][1]
    weather: list[tuple[datetime, Weather]] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    usual: dict[str, float] = field(default_factory=dict)
    """What is told of the day: what was before."""
    age_seconds: int = 0
    runs: int = 0
    away: set[str] = field(default_factory=set)
    copied: list[tuple[datetime, datetime, float, int]] = field(default_factory=list)
    left: dict[tuple[TopicPartition, int], datetime] = field(default_factory=dict)
    """When each partition left a broker, last."""

    def change(self) -> Weather:
        """Let the cluster be as it likes."""
        random = self.random
        if random.random() < 0.25:
            self.age_seconds = int(random.choice([0, 60, 400], p=[0.5, 0.2, 0.3]))
        weather = Weather(
            dead=[1] if random.random() < 0.1 else [],
            late=[n for n in self.held if random.random() < 0.005 and len(self.held[n]) > 1],
            controller=None if random.random() < 0.05 else 1,
            age_seconds=self.age_seconds,
            good=float(random.choice([1.0, 0.5], p=[0.95, 0.05])),
            theirs=("theirs",) if random.random() < 0.05 else (),
            away=sorted(self.away),
        )
        if random.random() < 0.1:  # a broker was away for a moment
            self.away |= {n for n in self.held if len(self.held[n]) > 1 and self.held[n][0] < 3}
            weather.away = sorted(self.away)
        if not self.rates or random.random() < 0.2:  # else what is off stays so
            self.usual = self.rates
            self.rates = {n: float(random.lognormal(10, 1.5)) for n in self.held}
        self.weather.append((self.now, weather))
        return weather

    def look(self, weather: Weather) -> Observation:
        state = cluster(
            self.held,
            brokers=(1, 2, 3, 4),
            dead=weather.dead,
            leaders={name: self.held[name][1] for name in weather.away},
            isr={name: self.held[name][:1] for name in weather.late},
            size_bytes=self.sizes,
        )
        state = replace(steady(state), controller=weather.controller)
        age = timedelta(seconds=weather.age_seconds)
        observed = look(
            state,
            self.settings,
            now=self.now,
            load=loaded(state, self.rates, as_of=self.now - age),
            usual=loaded(state, self.usual) if self.usual else None,
            good=weather.good,
            running=weather.theirs,
        )
        weather.outside = observed.imbalance.outside
        weather.leaders_outside = (
            observed.leader_imbalance.outside if observed.leader_imbalance else frozenset()
        )
        return observed

    def against(self) -> list[str]:
        """Return what must keep it from acting now, said again in this test's own words."""
        weather, local = self.weather[-1][1], self.now.astimezone()
        ends = [ended for _, ended, _, _ in self.copied]
        busy = self.settings.avoid and local.weekday() < 5 and 9 <= local.hour < 12
        rules = {
            "a broker is down": weather.dead,
            "replicas are out of sync": weather.late,
            "there is no controller": weather.controller is None,
            "the load is old": weather.age_seconds > self.settings.stale_seconds,
            "the load is not known well": weather.good < 0.95,
            "somebody else's run is in progress": weather.theirs,
            "a run of its own is in progress": any(end > self.now for end in ends),
            "a run has just ended": any(
                self.now - end < timedelta(seconds=self.settings.cool_down_seconds) for end in ends
            ),
            "it is a busy hour": busy,
            "it has not lasted": not (self.lasted() or self.lasted(of_leaders=True)),
        }
        return [rule for rule, holds in rules.items() if holds]

    def lasted(self, *, of_leaders: bool = False) -> bool:
        """Return whether one and the same was outside in every look for long enough."""
        at, now = self.weather[-1]
        latest = at - timedelta(seconds=now.age_seconds)
        common = now.leaders_outside if of_leaders else now.outside
        for before, weather in reversed(self.weather[:-1]):
            common &= weather.leaders_outside if of_leaders else weather.outside
            as_of = before - timedelta(seconds=weather.age_seconds)
            if common and (latest - as_of).total_seconds() >= self.settings.min_imbalance_seconds:
                return True
        return False

    def step(self) -> None:
        """Let some time pass; check that nothing spoke against what was done in it."""
        observed = self.look(self.change())
        self.history = self.history.seeing(self.settings, observed)
        decision = decide(self.settings, self.history, observed)
        if isinstance(decision, Act):
            assert self.against() == []
            assert self.lasted()
            self.begin(decision.plan, decision.bytes)
        if isinstance(decision, Elect):
            assert self.against() == []
            assert self.lasted(of_leaders=True)
            self.elect([str(election.tp) for election in decision.elections])
        self.end_runs()
        self.now += self.step_by

    def begin(self, plan: Plan, size: float) -> None:
        self.runs += 1
        run, takes = f"run-{self.runs}", timedelta(minutes=int(self.random.integers(1, 60)))
        moved = frozenset(move.tp for move in plan)
        self.history = self.history.acting(PastAction(self.now, run, moved, size))
        self.copied.append((self.now, self.now + takes, size, len(moved)))
        for move in plan:
            for broker in move.adding:
                left = self.left.get((move.tp, broker))
                assert left is None or self.now - left >= MOVE_COOL_DOWN, (move, left)
            for broker in move.removing:
                self.left[move.tp, broker] = self.now
            self.held[str(move.tp)] = list(move.after)
            self.away.discard(str(move.tp))

    def elect(self, names: list[str]) -> None:
        assert set(names) <= self.away
        self.away -= set(names)
        elected = frozenset(map(tp, names))
        act = PastAction(self.now, "", frozenset(), 0.0, self.now, elected)
        self.history = self.history.acting(act)
        self.copied.append((self.now, self.now, 0.0, len(names)))

    def end_runs(self) -> None:
        for began, ended, size, _ in self.copied:
            for act in self.history.acts:
                if act.at == began and act.ended_at is None and ended <= self.now:
                    self.history = self.history.ending(act.run, ended, size)

    def most_in_an_hour(self) -> tuple[float, int]:
        """Return the most bytes and moves of runs that any one hour can have had a part of."""
        most: dict[str, float] = defaultdict(float)
        for began, _, _, _ in self.copied:
            # All that a run did, it may have done in the hour that begins just before its end.
            touching = [c for c in self.copied if c[1] > began - HOUR and c[0] <= began]
            most["bytes"] = max(most["bytes"], sum(c[2] for c in touching))
            most["moves"] = max(most["moves"], sum(c[3] for c in touching))
        return most["bytes"], int(most["moves"])


@st.composite
def lives(draw: st.DrawFn) -> Life:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stale_seconds, step_by = draw(st.sampled_from(PACES))
    rules = AutopilotSettings(
        mode=Mode.ACT,
        start_band=draw(st.sampled_from([0.12, 0.3])),
        min_imbalance_seconds=600,
        min_snapshots=2,
        cool_down_seconds=draw(st.sampled_from([0, 1800])),
        max_bytes_per_hour=draw(st.sampled_from([3 * MB, 20 * MB, 1e12])),
        max_moves_per_hour=draw(st.sampled_from([2, 10, 1000])),
        avoid=draw(st.sampled_from([Hours(), BUSY])),
        stale_seconds=stale_seconds,
    )
    names = [f"t-{n}" for n in range(draw(st.integers(4, 24)))]
    count = draw(st.integers(1, 2))
    held = {n: random.choice([1, 2, 3, 4], count, replace=False).tolist() for n in names}
    sizes = {n: int(random.lognormal(0, 1) * MB) for n in names}
    return Life(random, rules, held=held, sizes=sizes, step_by=step_by)


@given(lives())
@settings(max_examples=6)
def test_decisions_over_time_obey_every_guard_and_the_hourly_limits(life: Life) -> None:
    for _ in range(24):
        life.step()
    bytes_, moves = life.most_in_an_hour()
    assert bytes_ <= life.settings.max_bytes_per_hour + 1e-6
    assert moves <= life.settings.max_moves_per_hour
