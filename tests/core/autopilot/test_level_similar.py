"""Where an autopilot leaves equal partitions: as many on each broker, whatever sizes look like.

They lie together on one broker in the beginning, as do no others; what is decided is done, and
looked at again until nothing is left to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pytest
from auto_help import EAGER, loaded, look, steady
from clusters import MB, NOON, cluster, load_of, tp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.autopilot.decide import decide
from core.autopilot.decision import Act, Decision, Elect
from core.autopilot.history import DecisionHistory, PastAction
from core.autopilot.observation import level_similar, placement_imbalance
from core.load.load import Source
from core.plan.planner.model.measures import Measure

RATE = 660e3
OFFSETS = {f"__consumer_offsets-{n}": [1 + n % 2, 2 - n % 2] for n in range(4)}
LOOK = timedelta(seconds=5)
AHEAD = ((2, 25 * MB), (1, 35 * MB), (2, 25.5 * MB), (3, 13 * MB))
"""How many partitions are ahead in the beginning, and how far, in bytes."""
HASTY = replace(EAGER, min_imbalance_seconds=10, cool_down_seconds=20)


@dataclass
class Play:
    """Partitions that fill at the same rate, on brokers that an autopilot evens out."""

    held: dict[str, list[int]]
    brokers: Sequence[int]
    random: np.random.Generator
    sizes: dict[str, float]
    noise: float = 0.001
    takes_turns: bool = False
    """Whether each of three intervals saw some partitions produced to, and others hardly."""
    acts: list[Act] = field(default_factory=list)
    history: DecisionHistory = field(default_factory=DecisionHistory)
    now = NOON

    def look(self) -> Decision:
        """Decide once, after a while in which all that is produced to has grown."""
        self.now += LOOK
        rates = {}
        for name in self.held:
            busy = RATE * float(name.startswith("t-"))
            rates[name] = busy * float(np.exp(self.noise * self.random.standard_normal()))
            self.sizes[name] += busy * LOOK.total_seconds()
        error = None
        if self.takes_turns:
            turns = self.random.choice([0.0, 1.0, 2.0], (3, len(rates)), p=[0.25, 0.5, 0.25])
            turns *= np.array(list(rates.values()))
            rates = dict(zip(rates, turns.mean(axis=0).tolist(), strict=True))
            known = zip(map(tp, rates), turns.std(axis=0, ddof=1) / np.sqrt(3), strict=True)
            error = np.array([spread for _, spread in sorted(known)])  # as a state's rows are
        sizes = {name: int(size) for name, size in self.sizes.items()}
        state = steady(cluster(self.held, brokers=self.brokers, size_bytes=sizes))
        load = loaded(state, rates, as_of=self.now, source=Source.LIVE)
        nothing = np.zeros(state.partition_count)
        load = replace(load, out_bytes_per_s=nothing, in_error_bytes_per_s=error)
        observed = look(state, HASTY, now=self.now, load=load, poll_count=3)
        self.history = self.history.seeing(HASTY, observed)
        return decide(HASTY, self.history, observed)

    def rest(self) -> None:
        """Do what is decided until nothing has been for longer than a cool-down lasts."""
        idle = 0
        while idle < 8:
            decision = self.look()
            idle += 1
            assert not isinstance(decision, Elect)
            if isinstance(decision, Act):
                idle = 0
                self.acts.append(decision)
                moved = frozenset(move.tp for move in decision.plan)
                self.history = self.history.acting(
                    PastAction(self.now, "run", moved, decision.bytes, self.now)
                )
                self.held |= {str(move.tp): list(move.after) for move in decision.plan}

    def leader_counts(self) -> list[int]:
        """Return how many of the busy partitions each broker leads, fewest first."""
        count = Counter(held[0] for name, held in self.held.items() if name.startswith("t-"))
        return sorted(count[broker] for broker in self.brokers)


def on_one(
    seed: int, *, partitions: int = 8, brokers: Sequence[int] = (1, 2), internal: bool = True
) -> Play:
    """Return partitions on the last broker; some of them seem to have got further than others."""
    random = np.random.default_rng(seed)
    held = {f"t-{n}": [brokers[-1]] for n in range(partitions)} | (OFFSETS if internal else {})
    filled = 3 * MB * np.exp(1e-4 * random.standard_normal(len(held)))
    many, further = AHEAD[seed % len(AHEAD)]
    ahead = random.choice(partitions, min(many, partitions), replace=False)
    filled[ahead] += further
    sizes = {n: float(s) if n.startswith("t-") else 0.0 for n, s in zip(held, filled, strict=True)}
    return Play({name: list(at) for name, at in held.items()}, brokers, random, sizes)


@pytest.mark.parametrize("seed", range(20))
def test_eight_equal_partitions_end_up_four_per_broker(seed: int) -> None:
    """Empty partitions of an internal topic beside them are left alone."""
    play = on_one(seed)
    play.rest()
    assert play.leader_counts() == [4, 4]
    (act,) = play.acts
    assert {move.tp.topic for move in act.plan} == {"t"}
    assert len(act.plan) == 4


@pytest.mark.parametrize("seed", range(6))
def test_equal_partitions_with_alternating_rates_end_up_four_per_broker(seed: int) -> None:
    """As on brokers that hardly get to work: rates of a few seconds tell little then."""
    play = on_one(seed)
    play.takes_turns = True
    play.rest()
    assert play.leader_counts() == [4, 4]
    assert {move.tp.topic for act in play.acts for move in act.plan} == {"t"}


@given(st.integers(1, 9), st.integers(2, 4), st.integers(0, 2**32 - 1))
@example(8, 2, 146)
@settings(max_examples=5)
def test_any_number_of_equal_partitions_ends_within_one_leader_per_broker(
    many: int, among: int, seed: int
) -> None:
    """As long as one of them weighs more than the band, no broker has two more than another."""
    play = on_one(seed, partitions=many, brokers=range(1, among + 1), internal=False)
    play.rest()
    fewest, *_, most = play.leader_counts()
    assert most - fewest <= 1, play.leader_counts()


# -- what counts as equal --------------------------------------------------------------------------


def of(sizes: Mapping[str, int], rates: Mapping[str, float]) -> tuple[list[int], list[float]]:
    """Return the sizes and rates of these partitions once they are levelled at 5 %."""
    state = cluster({name: [1] for name in sizes}, brokers=(1, 2), size_bytes=dict(sizes))
    even, load = level_similar(state, load_of(state, rates), 0.05)
    rows = [even.find(tp(name)) for name in sizes]
    return (
        [int(even.partition_size_bytes[row]) for row in rows],
        [float(load.in_bytes_per_s[row]) for row in rows],
    )


GB = 1000 * MB


@pytest.mark.parametrize(
    ("sizes", "rates", "then"),
    [
        pytest.param((100, 104, 96), (10, 10, 10), (100, 100, 100), id="some per cent apart"),
        pytest.param((100, 104, 130), (10, 10, 10), (102, 102, 130), id="one has more, and keeps"),
        pytest.param((100, 104, 96), (10, 10, 11), (102, 102, 96), id="one fills faster"),
        pytest.param((100, 300, 200), (10 * GB, 10 * GB, 10 * GB), (200, 200, 200), id="young"),
        pytest.param((100, 104, 96), (0, 0, 0), (100, 100, 100), id="idle"),
    ],
)
def test_partition_sizes_that_differ_by_chance_of_filling_count_as_equal(
    sizes: Sequence[int], rates: Sequence[float], then: Sequence[int]
) -> None:
    names = [f"t-{n}" for n in range(len(sizes))]
    levelled_sizes, _ = of(
        {name: size * GB for name, size in zip(names, sizes, strict=True)},
        dict(zip(names, rates, strict=True)),
    )
    assert levelled_sizes == [size * GB for size in then]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 1e9)), min_size=1, max_size=12))
@settings(max_examples=40)
def test_levelling_keeps_a_topics_bytes_and_rate(partitions: list[tuple[int, float]]) -> None:
    sizes, rates = of(
        {f"t-{n}": size for n, (size, _) in enumerate(partitions)},
        {f"t-{n}": rate for n, (_, rate) in enumerate(partitions)},
    )
    assert sum(sizes) == pytest.approx(sum(size for size, _ in partitions), abs=len(partitions))
    assert sum(rates) == pytest.approx(sum(rate for _, rate in partitions))


@pytest.mark.parametrize(
    ("error", "then"),
    [(None, (4.0, 10.0, 12.0)), (1.0, (4.0, 11.0, 11.0)), (4.0, (26 / 3, 26 / 3, 26 / 3))],
)
def test_rates_within_their_error_are_equal(error: float | None, then: Sequence[float]) -> None:
    state = cluster({f"t-{n}": [1] for n in range(3)}, brokers=(1, 2), size_bytes=MB)
    load = load_of(state, {"t-0": 4.0, "t-1": 10.0, "t-2": 12.0})
    if error is not None:
        load = replace(load, in_error_bytes_per_s=np.full(3, error))
    _, even = level_similar(state, load, 0.05)
    assert even.in_bytes_per_s.tolist() == pytest.approx(list(then))


def test_unknown_sizes_and_rates_are_not_levelled() -> None:
    state = cluster({"t-0": [1], "t-1": [1], "t-2": [2]}, size_bytes={"t-0": MB, "t-1": MB})
    _, load = level_similar(state, load_of(state, {"t-0": 1.0, "t-2": 1.0}), 0.05)
    even, _ = level_similar(state, load_of(state, {"t-0": 1.0, "t-2": 1.0}), 0.05)
    assert even.partition_size_bytes.tolist() == [MB, MB, -1]
    assert np.isnan(load.in_bytes_per_s).tolist() == [False, True, False]


def test_negligible_outgoing_traffic_makes_no_broker_uneven() -> None:
    """Followers of an internal topic fetch some bytes; that is no reason to move anything."""
    held = {f"t-{n}": [1 + n % 2] for n in range(8)} | {"__consumer_offsets-0": [1, 2]}
    state = steady(cluster(held, brokers=(1, 2), size_bytes=MB))
    rates = dict.fromkeys(held, RATE) | {"__consumer_offsets-0": 200.0}
    load = replace(loaded(state, rates), out_bytes_per_s=np.zeros(len(held)))
    outside = {place.measure for place in placement_imbalance(EAGER, state, load).outside}
    assert Measure.OUT not in outside
