"""Runs whose rate adapts itself, on a simulated cluster with a probe that is told what to feel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from run_help import MB, Start, ask, cluster

from core.cluster.probe.produce_latency import WINDOW_SECONDS, LatencyWindow
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.control import request
from core.run.engine.executor import Executor
from core.run.journal.move_state import Outcome
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.steps import NoteBaseline, Submit

BOUNDS = RateBounds(2 * MB, 20 * MB)
TARGETS: dict[tuple[str, int], tuple[int, ...]] = {("t", i): (3, 2) for i in range(4)}


class Probe:
    """Feels `ms` in each window since it was opened, and `late_ms` once copies have begun."""

    def __init__(self, client: SimulatedCluster, brokers: Sequence[int]) -> None:
        self.client, self.brokers = client, tuple(brokers)
        self.trouble = self.leftover = ""
        self.closed = False
        self.opened = client.elapsed_seconds
        self.ms, self.late_ms = 10.0, 10.0
        self.replicas_by_broker: Mapping[int, tuple[int, ...]] = {b: (b,) for b in brokers}
        self.felt: list[LatencyWindow] = []

    def windows(self) -> dict[int, tuple[LatencyWindow, ...]]:
        while (len(self.felt) + 1) * WINDOW_SECONDS <= self.client.elapsed_seconds - self.opened:
            begun = self.opened + len(self.felt) * WINDOW_SECONDS
            ms = self.late_ms if self.client.fetch_reassignments() else self.ms
            at = self.client.spec.started_at + timedelta(seconds=begun)
            self.felt.append(LatencyWindow(at, 100, 0, ms / 3, ms))
        return dict.fromkeys(self.brokers, tuple(self.felt))

    def close(self) -> None:
        self.closed = True


def adaptive(
    start: Start, targets: Mapping[tuple[str, int], tuple[int, ...]] = TARGETS, **feels: Any
) -> tuple[Any, list[Probe]]:
    """Return a run that adapts its rate, and the probes that it opens."""
    client = cluster({"t": [(1, 2)] * 4}, size_bytes=200 * MB)
    client.advance(20)
    run = start(client, targets, rate=5 * MB, auto=BOUNDS)
    probes: list[Probe] = []

    def open_probe(brokers: Sequence[int]) -> Probe:
        probes.append(Probe(client, brokers))
        for name, value in feels.items():
            setattr(probes[-1], name, value)
        return probes[-1]

    def restart() -> None:
        run.runner = Executor(run.journal, run.through, client.clock, open_probe=open_probe)

    run.new_process = restart
    restart()
    return run, probes


def changes(run: Any) -> list[Mapping[str, Any]]:
    return run.payloads(Kind.RATES_CHANGING)


def test_adaptive_run_without_copies_opens_no_probe_and_measures_nothing(
    start: Start,
) -> None:
    run, probes = adaptive(start, {("t", i): (2, 1) for i in range(4)})
    began = run.client.elapsed_seconds
    assert run.to_the_end() is Outcome.DONE
    assert probes == []
    assert Kind.MEASURED not in run.kinds
    assert run.client.elapsed_seconds - began < 10


def test_adaptive_run_measures_producer_latency_before_it_sets_throttles(start: Start) -> None:
    run, probes = adaptive(start)
    run.to_the_end()
    measured = run.payloads(Kind.MEASURED)
    assert [p["trouble"] for p in measured] == [""]
    assert measured[0]["before"] == [[b, 3.333, 10.0] for b in (1, 2, 3)]
    assert run.kinds.index(Kind.MEASURED) < run.kinds.index(Kind.THROTTLE_INTENT)
    assert [probe.closed for probe in probes] == [True]
    topic = f"__trimtab_probe-{run.view().run}"
    event_texts = [event.text for event in run.view().events]
    assert f"measured by a topic of its own, deleted at the end: {topic}" in event_texts


def test_probe_topic_that_cannot_be_deleted_is_reported_at_the_end(start: Start) -> None:
    run, _ = adaptive(start, leftover="the topic x may be left")
    assert run.to_the_end() is Outcome.DONE
    view = run.view()
    assert view.why == "the topic x may be left"
    assert view.events[-1].text.endswith("; throttles as found; the topic x may be left")


def test_adaptive_run_begins_at_the_minimum_rate_and_speeds_up_while_latency_is_normal(
    start: Start,
) -> None:
    run, _ = adaptive(start)
    run.restores(Outcome.DONE)
    rates = [rate["rate_bytes_per_s"] for change in changes(run) for rate in change["rates"]]
    assert rates[0] == 2.2 * MB
    assert max(rates) > 10 * MB
    assert max(rates) <= 20 * MB
    assert any("producers wait no longer than before" in change["why"] for change in changes(run))
    assert run.client.elapsed_seconds < 0.6 * 800 / 2


def test_adaptive_run_stays_at_the_minimum_rate_while_producer_latency_is_higher(
    start: Start,
) -> None:
    run, _ = adaptive(start, late_ms=30.0)
    assert run.to_the_end() is Outcome.DONE
    assert not changes(run)


def test_adaptive_run_without_a_probe_keeps_the_minimum_rate_and_reports_why(start: Start) -> None:
    run, _ = adaptive(start, trouble="produce latency is not measured: refused")
    assert run.to_the_end() is Outcome.DONE
    assert not changes(run)
    assert any("produce latency is not measured: refused" in e.text for e in run.view().events)


def test_process_taking_over_does_not_repeat_the_baseline_measurement(start: Start) -> None:
    run, probes = adaptive(start)
    run.until(lambda _: Kind.SUBMITTED in run.kinds)
    run.new_process()
    assert run.to_the_end() is Outcome.DONE
    assert len(probes) == 2
    assert run.kinds.count(Kind.MEASURED) == 1


@pytest.mark.parametrize(("dies", "closed"), [(False, [True]), (True, [False, True])])
def test_run_switched_to_a_fixed_rate_closes_its_probe_even_after_a_process_restart(
    start: Start, dies: bool, closed: list[bool]
) -> None:
    run, probes = adaptive(start)
    run.until(lambda _: Kind.SUBMITTED in run.kinds)
    ask(run, "throttle", rate_bytes_per_s=50 * MB)
    if dies:
        run.new_process()
    assert run.to_the_end() is Outcome.DONE
    assert [probe.closed for probe in probes] == closed


def test_run_with_a_fixed_rate_opens_no_probe(start: Start) -> None:
    run, probes = adaptive(start)
    client = cluster({"t": [(1, 2)] * 4})
    other = start(client, TARGETS, rate=5 * MB)
    other.runner = Executor(
        other.journal, client, client.clock, open_probe=lambda _: probes.append(None)
    )
    other.to_the_end()
    assert probes == []
    run.cancel()
    run.to_the_end()


def test_baseline_is_not_measured_under_the_runs_own_load_and_delays_no_batch(start: Start) -> None:
    run = start(count=2, size_bytes=60 * MB, batch_size=1)
    run.until(lambda step: isinstance(step, Submit))
    history = run.state
    bounds = RateBounds(2 * MB, 20 * MB).to_json()
    request(history.cluster_id, history.run_id, "throttle", {"auto": bounds})
    asked_at = run.client.elapsed_seconds
    run.until(lambda step: isinstance(step, NoteBaseline))
    assert run.client.elapsed_seconds - asked_at < 5
    (measured,) = run.payloads(Kind.MEASURED)
    assert measured == {
        "before": [],
        "trouble": "what producers waited before the run is not known: it has begun",
    }
    assert run.to_the_end() is Outcome.DONE
