"""A paused copy on a simulated cluster: next to nothing comes on the floor, no burst afterwards."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import timedelta
from statistics import median

import pytest
from run_help import MB, cluster, set_config

from core.cluster.configs import Resource
from core.cluster.metadata import TopicPartition
from core.cluster.probe.produce_latency import WINDOW_SECONDS, LatencyWindow
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run.journal.produce_latency import SideObservation, before
from core.run.journal.rates import RateBounds, RateControl
from core.run.journal.throttle_values import joined
from core.run.throttles.adaptive_rate import next_rates
from core.run.throttles.rate_signals import BEFORE_WINDOWS

RATE = 20 * MB
FETCH_BYTES = 8 * 2**20
"""1 MiB of each partition: what a quota lets pass once its window is empty, however low it is."""
SENDS, RECEIVES = (1, Side.LEADER), (2, Side.FOLLOWER)


class Copying:
    """Eight partitions on their way from broker 1 to broker 2 under a pace."""

    def __init__(self) -> None:
        self.client: SimulatedCluster = cluster({"t": [(1,)] * 8}, size_bytes=400 * MB)
        self.client.advance(20)
        for side, brokers in ((Side.LEADER, (1, 2)), (Side.FOLLOWER, (2,))):
            pairs = joined(f"{i}:{b}" for i in range(8) for b in brokers)
            set_config(self.client, Resource.topic("t"), side.list_config, pairs)
        self.rate_control = RateControl(RATE)
        self._set({SENDS: RATE, RECEIVES: RATE})
        self.client.alter_reassignments({TopicPartition("t", i): (2,) for i in range(8)})

    def _set(self, rates: dict[tuple[int, Side], int]) -> None:
        for (broker, side), rate in rates.items():
            set_config(self.client, Resource.broker(broker), side.rate_config, str(rate))
        self.rate_control = self.rate_control.changed(rates.items(), self.client.clock.now())

    def ask(self, kind: str, **payload: object) -> None:
        self.rate_control = self.rate_control.with_request(kind, payload)

    def came(self, seconds: int) -> list[int]:
        """Let so many seconds pass; return what came in each."""
        arrivals = []
        for _ in range(seconds):
            before = self._arrived()
            for _ in range(4):
                change = next_rates(self.rate_control, {}, self.client.clock.now())
                if change is not None:
                    self._set(dict(change.rates))
                self.client.advance(0.25)
            arrivals.append(self._arrived() - before)
        return arrivals

    def _arrived(self) -> int:
        (logs,) = self.client.describe_log_dirs([2])
        return sum(log.size_bytes for log in logs.replicas)


def worst(came: list[int]) -> float:
    """Return the most that came in three seconds, in seconds of the rate."""
    return max(sum(came[at : at + 3]) for at in range(len(came) - 2)) / RATE


@pytest.mark.parametrize("paused", [5, 18, 60])
def test_pause_on_the_floor_passes_one_fetch_a_window_and_resuming_causes_no_burst(
    paused: int,
) -> None:
    copying = Copying()
    copying.came(20)
    copying.ask("pause", floor=True)
    came = copying.came(1 + paused)
    assert sum(came) <= FETCH_BYTES * (1 + paused / 11)
    assert came.count(0) >= paused * 0.8
    copying.ask("resume")
    resumed = copying.came(40)
    assert worst(resumed) <= 5.0
    assert sum(resumed[-12:]) > 10 * RATE


def test_raised_rate_causes_no_burst() -> None:
    copying = Copying()
    copying.ask("throttle", rate_bytes_per_s=5 * MB)
    copying.came(20)
    copying.ask("throttle", rate_bytes_per_s=RATE)
    assert worst(copying.came(30)) <= 5.0


WEAK, STRONG = 1, 3
FLOWS = {WEAK: 2, STRONG: 4}
FEELS_BYTES_PER_S = {WEAK: 30 * MB, STRONG: 400 * MB}
"""At which rate of copies the producers of a broker wait twice as long."""
BEFORE_MS = 10.0
BOUNDS = RateBounds(4 * MB, 60 * MB)


class Loop:
    """Two copies side by side, from a weak broker and from a strong one, under an adaptive pace."""

    def __init__(self, noise: float, seed: int = 5, *, tells_left: bool = False) -> None:
        layout = {"weak": [(WEAK,)] * 12, "strong": [(STRONG,)] * 12}
        self.client: SimulatedCluster = cluster(layout, size_bytes=400 * MB)
        self.noise, self.rng, self._tells_left = noise, random.Random(seed), tells_left
        self.windows: dict[int, list[LatencyWindow]] = {WEAK: [], STRONG: []}
        self.rates: dict[int, list[tuple[float, int]]] = {WEAK: [], STRONG: []}
        self.whys: list[str] = []
        self.came: dict[int, list[float]] = defaultdict(lambda: [0.0])
        self.client.advance(20)
        for _ in range(BEFORE_WINDOWS):
            for broker in FLOWS:
                self._window(broker, 0.0)
        self.before = {b: before(self.windows[b]) for b in FLOWS}

    def _window(self, broker: int, bytes_per_s: float) -> None:
        felt = 1 + (bytes_per_s / FEELS_BYTES_PER_S[broker]) ** 2
        p99 = BEFORE_MS * felt * self.rng.lognormvariate(0, self.noise)
        p50 = BEFORE_MS / 3 * felt * self.rng.lognormvariate(0, self.noise / 3)
        began = self.client.clock.now() - timedelta(seconds=WINDOW_SECONDS)
        self.windows[broker].append(LatencyWindow(began, 100, 0, p50, p99))

    def run(self) -> float:
        """Copy to the end; return how long it took."""
        rate_control = RateControl(BOUNDS.max_bytes_per_s, BOUNDS)
        keys = [(b, Side.LEADER) for b in FLOWS] + [(d, Side.FOLLOWER) for d in FLOWS.values()]
        rate_control = self._apply(
            rate_control, dict.fromkeys(keys, rate_control.first_bytes_per_s)
        )
        targets = {}
        for topic, (source, destination) in zip(("weak", "strong"), FLOWS.items(), strict=True):
            pairs = [f"{i}:{b}" for i in range(12) for b in (source, destination)]
            resource = Resource.topic(topic)
            set_config(self.client, resource, Side.LEADER.list_config, joined(pairs))
            follower = joined(pair for pair in pairs if pair.endswith(f":{destination}"))
            set_config(self.client, resource, Side.FOLLOWER.list_config, follower)
            targets |= {TopicPartition(topic, i): (destination,) for i in range(12)}
        began = self.client.elapsed_seconds
        self.client.alter_reassignments(targets)
        second = 0
        while self.client.fetch_reassignments():
            second += 1
            assert second < 3000
            self.client.advance(1)
            for source, destination in FLOWS.items():
                (logs,) = self.client.describe_log_dirs([destination])
                self.came[source].append(sum(log.size_bytes for log in logs.replicas))
            if second % WINDOW_SECONDS == 0:
                for source, came in self.came.items():
                    gained = came[-1] - came[max(0, len(came) - 1 - int(WINDOW_SECONDS))]
                    self._window(source, gained / WINDOW_SECONDS)
            change = next_rates(rate_control, self._last_bytes(), self.client.clock.now())
            if change is not None:
                self.whys.append(change.why)
                rate_control = self._apply(rate_control, dict(change.rates))
        return self.client.elapsed_seconds - began

    def _last_bytes(self) -> dict[tuple[int, Side], SideObservation]:
        observations = {}
        for source, destination in FLOWS.items():
            came = self.came[source]
            flow = (came[-1] - came[max(0, len(came) - 13)]) / min(12, len(came) - 1)
            for key in ((source, Side.LEADER), (destination, Side.FOLLOWER)):
                windows = tuple(self.windows[source][-30:])
                observations[key] = SideObservation(
                    self.before[source],
                    windows,
                    flow_bytes_per_s=flow,
                    left_bytes=12 * 400 * MB - came[-1] if self._tells_left else None,
                )
        return observations

    def _apply(self, rate_control: RateControl, rates: dict[tuple[int, Side], int]) -> RateControl:
        for (broker, side), rate in rates.items():
            set_config(self.client, Resource.broker(broker), side.rate_config, str(rate))
            if broker in FLOWS:
                self.rates[broker].append((self.client.elapsed_seconds, rate))
        return rate_control.changed(rates.items(), self.client.clock.now())

    def waited(self, broker: int) -> list[float]:
        """Return what producers waited, window by window, beside what they waited before."""
        return [w.p99_ms / BEFORE_MS for w in self.windows[broker][BEFORE_WINDOWS:]]


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_strong_broker_gets_a_much_higher_rate_while_producers_of_a_weak_one_wait_little(noise):
    loop = Loop(noise)

    seconds = loop.run()

    waited = sorted(loop.waited(WEAK))
    by_chance = math.exp(1.28 * noise)  # what nine of ten windows stay below without any copies
    most = {broker: max(rate for _, rate in rates) for broker, rates in loop.rates.items()}
    assert median(waited) < 1.25
    assert waited[int(len(waited) * 0.9)] < 1.3 * by_chance
    assert most[WEAK] < 0.3 * BOUNDS.max_bytes_per_s
    assert most[STRONG] >= (0.75 if noise > 0.1 else 1) * BOUNDS.max_bytes_per_s
    assert seconds < 0.45 * 12 * 400 * MB / BOUNDS.min_bytes_per_s


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_strong_broker_that_ends_early_enough_is_not_accelerated(noise):
    """The run takes as long: it waits for the weak one whatever the strong one does."""
    every, needed = Loop(noise), Loop(noise, tells_left=True)

    whole, as_needed = every.run(), needed.run()

    assert as_needed <= 1.05 * whole
    most = {loop: max(rate for _, rate in loop.rates[STRONG]) for loop in (every, needed)}
    weakest = max(rate for _, rate in needed.rates[WEAK])
    assert most[needed] < 2 * weakest < most[every]
