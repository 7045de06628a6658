"""Percentiles over a sliding window, and when a wait is far above what is usual."""

from __future__ import annotations

import random

import pytest

from core.cluster.probe.probe_config import quantile
from core.watch.clients.latency import Latency, LatencyWindow, SlowDetector


@pytest.mark.parametrize(
    ("waits", "p50", "p99"),
    [
        ([5.0], 5.0, 5.0),
        ([1.0, 9.0], 1.0, 9.0),
        ([3.0, 1.0, 2.0], 2.0, 3.0),
        ([float(n) for n in range(1, 101)], 50.0, 99.0),
        ([1.0] * 99 + [700.0], 1.0, 1.0),
        ([1.0] * 98 + [700.0] * 2, 1.0, 700.0),
    ],
)
def test_quantiles_are_of_the_nearest_rank(waits: list[float], p50: float, p99: float) -> None:
    window = LatencyWindow(30)
    for waited in waits:
        window.add(100.0, waited)
    assert window.wait(101.0) == Latency(len(waits), p50, p99)


def test_a_window_holds_exactly_its_last_seconds() -> None:
    chance = random.Random(7)
    window, every = LatencyWindow(30), list[tuple[float, float]]()
    now = 0.0
    for _ in range(2000):
        now += chance.expovariate(4)
        every.append((now, chance.choice([1.0, 2.0, 2.0, 80.0])))
        window.add(*every[-1])
        held = sorted(waited for at, waited in every if at > now - 30)
        assert window.wait(now) == Latency(len(held), quantile(held, 0.5), quantile(held, 0.99))


def test_a_window_that_nothing_came_into_is_empty() -> None:
    window = LatencyWindow(30)
    window.add(0.0, 5.0)
    assert window.wait(29.9).messages == 1
    assert window.wait(30.0) == Latency(0, None, None)


def band_after(p99s: list[float], messages: int = 120) -> SlowDetector:
    band = SlowDetector()
    for second, p99 in enumerate(p99s):
        band.look(float(second), Latency(messages, 1.0, p99))
    return band


USUAL = [4.0] * 60


@pytest.mark.parametrize(
    ("p99s", "slow"),
    [
        (USUAL, False),
        ([*USUAL, 99.0], False),  # 25 times as long, and still quick
        ([*USUAL, 100.0], True),
        ([*[30.0] * 60, 299.0], False),  # less than ten times as long
        ([*[30.0] * 60, 300.0], True),
        ([*[4.0] * 29, 900.0], False),  # nothing is usual yet
        ([*[4.0] * 30, 900.0], True),
        ([*USUAL, 900.0, 60.0], True),  # on its way back
        ([*USUAL, 900.0, 50.0], False),
        ([*USUAL, *[900.0] * 700], True),  # long, and still not usual
    ],
)
def test_slow_is_ten_times_the_usual_and_at_least_100_ms(p99s: list[float], slow: bool) -> None:
    assert (band_after(p99s).slow_since is not None) is slow


def test_a_few_messages_are_no_reason() -> None:
    assert band_after([*USUAL]).usual_ms == 4.0
    band = band_after(USUAL)
    band.look(60.0, Latency(19, 1.0, 900.0))
    assert band.slow_since is None
    band.look(61.0, Latency(20, 1.0, 900.0))
    assert band.slow_since == 61.0


def test_what_is_usual_is_of_the_last_ten_minutes_without_what_was_slow() -> None:
    band = band_after([*[4.0] * 600, *[900.0] * 50, *[8.0] * 302])
    assert band.usual_ms == 8.0
