"""A paused copy on a simulated cluster: next to nothing comes on the floor, no burst afterwards."""

from __future__ import annotations

import pytest
from run_help import MB, cluster, set_config

from core.cluster.configs import Resource
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run.journal.rates import RateControl
from core.run.journal.throttle_values import joined
from core.run.throttles.adaptive_rate import next_rates

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
        self.rate_control = self.rate_control.asked(kind, payload)

    def came(self, seconds: int) -> list[int]:
        """Let so many seconds pass; return what came in each."""
        found = []
        for _ in range(seconds):
            before = self._arrived()
            for _ in range(4):
                change = next_rates(self.rate_control, {}, self.client.clock.now())
                if change is not None:
                    self._set(dict(change.rates))
                self.client.advance(0.25)
            found.append(self._arrived() - before)
        return found

    def _arrived(self) -> int:
        (logs,) = self.client.describe_log_dirs([2])
        return sum(log.size_bytes for log in logs.replicas)


def worst(came: list[int]) -> float:
    """Return the most that came in three seconds, in seconds of the rate."""
    return max(sum(came[at : at + 3]) for at in range(len(came) - 2)) / RATE


@pytest.mark.parametrize("paused", [5, 18, 60])
def test_on_the_floor_one_fetch_passes_in_a_window_and_resuming_brings_no_burst(
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


def test_a_higher_rate_brings_no_burst_either() -> None:
    copying = Copying()
    copying.ask("throttle", rate_bytes_per_s=5 * MB)
    copying.came(20)
    copying.ask("throttle", rate_bytes_per_s=RATE)
    assert worst(copying.came(30)) <= 5.0


def test_without_the_ramp_it_would() -> None:
    copying = Copying()
    copying.ask("pause", floor=True)
    copying.came(20)
    set_config(copying.client, Resource.broker(2), Side.FOLLOWER.rate_config, str(RATE))
    assert worst(copying.came(4)) > 8.0
