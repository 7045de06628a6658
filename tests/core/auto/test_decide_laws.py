"""Whatever a cluster does for days: no guard is passed by, no budget exceeded, nothing goes back.

The clock is the test's own; runs take as long as they like, and others work on the cluster too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
from auto_help import loaded, look, steady
from clusters import MB, NOON, cluster
from hypothesis import given, settings
from hypothesis import strategies as st

from core.auto.decide import decide
from core.auto.decision import Act
from core.auto.guards import SAFETY, TIMELY, spoken
from core.auto.history import HOUR, RESTS, Acted, History
from core.auto.hours import Hours
from core.auto.observed import Observed
from core.auto.settings import Mode, Settings
from core.cluster.state import ClusterState, TopicPartition
from core.plan.plan import Plan

STEP = timedelta(minutes=10)
BUSY = Hours.parse("mon-fri 09:00-12:00", "--avoid")


@dataclass
class Life:
    """A cluster over days under an autopilot, and everything that was copied in it."""

    random: np.random.Generator
    settings: Settings
    now: datetime = NOON
    history: History = field(default_factory=History)
    held: dict[str, list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    copied: list[tuple[datetime, datetime, float, int]] = field(default_factory=list)
    left: dict[tuple[TopicPartition, int], datetime] = field(default_factory=dict)
    """When each partition left a broker, last."""

    def state(self) -> ClusterState:
        dead = [1] if self.random.random() < 0.1 else []
        late = [n for n in self.held if self.random.random() < 0.005]
        state = cluster(
            self.held,
            brokers=(1, 2, 3, 4),
            dead=dead,
            isr={name: self.held[name][:1] for name in late},
            size_bytes=self.sizes,
        )
        return replace(steady(state), controller=None if self.random.random() < 0.02 else 1)

    def look(self) -> Observed:
        rates = {n: float(self.random.lognormal(10, 1.5)) for n in self.held}
        state = self.state()
        age = timedelta(seconds=int(self.random.choice([0, 60, 400], p=[0.6, 0.35, 0.05])))
        return look(
            state,
            self.settings,
            now=self.now,
            load=loaded(state, rates, as_of=self.now - age),
            good=float(self.random.choice([1.0, 0.5], p=[0.95, 0.05])),
            running=("theirs",) if self.random.random() < 0.03 else (),
        )

    def step(self) -> None:
        observed = self.look()
        self.history = self.history.seeing(self.settings, observed)
        found = decide(self.settings, self.history, observed)
        against = (
            *spoken(SAFETY, self.settings, self.history, observed),
            *spoken(TIMELY, self.settings, self.history, observed),
        )
        assert not (against and isinstance(found, Act)), against
        if isinstance(found, Act):
            self.begin(found.plan, found.bytes)
        self.end_runs()
        self.now += STEP

    def begin(self, plan: Plan, size: float) -> None:
        self.runs += 1
        run, takes = f"run-{self.runs}", timedelta(minutes=int(self.random.integers(1, 200)))
        moved = frozenset(move.tp for move in plan)
        self.history = self.history.acting(Acted(self.now, run, moved, size))
        self.copied.append((self.now, self.now + takes, size, len(moved)))
        for move in plan:
            for broker in move.adding:
                left = self.left.get((move.tp, broker))
                assert left is None or self.now - left >= RESTS, (move, left)
            for broker in move.removing:
                self.left[move.tp, broker] = self.now
            self.held[str(move.tp)] = list(move.after)

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
    rules = Settings(
        mode=Mode.ACT,
        start_band=draw(st.sampled_from([0.12, 0.3])),
        lasting_seconds=600,
        lasting_looks=2,
        cool_down_seconds=draw(st.sampled_from([0, 1800])),
        most_bytes_per_hour=draw(st.sampled_from([3 * MB, 20 * MB, 1e12])),
        most_moves_per_hour=draw(st.sampled_from([2, 10, 1000])),
        avoid=draw(st.sampled_from([Hours(), BUSY])),
        stale_seconds=1200,
    )
    names = [f"t-{n}" for n in range(draw(st.integers(4, 24)))]
    count = draw(st.integers(1, 2))
    held = {n: random.choice([1, 2, 3, 4], count, replace=False).tolist() for n in names}
    sizes = {n: int(random.lognormal(0, 1) * MB) for n in names}
    return Life(random, rules, held=held, sizes=sizes)


@given(lives())
@settings(max_examples=6)
def test_for_days(life: Life) -> None:
    for _ in range(24):
        life.step()
    bytes_, moves = life.most_in_an_hour()
    assert bytes_ <= life.settings.most_bytes_per_hour + 1e-6
    assert moves <= life.settings.most_moves_per_hour


def test_such_lives_have_runs_in_them() -> None:
    """The laws above say nothing of lives in which nothing is done."""
    eager = Settings(mode=Mode.ACT, lasting_seconds=600, lasting_looks=2, stale_seconds=1200)
    held = {f"t-{n}": [1] for n in range(24)}
    life = Life(np.random.default_rng(1), eager, held=held, sizes=dict.fromkeys(held, MB))
    for _ in range(60):
        life.step()
    assert life.runs >= 2
