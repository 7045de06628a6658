"""A run's metrics: what its RunView holds, under names as Prometheus has them.

What is not known has no sample. Nothing is reckoned here that the view does not hold.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from core.daemons.metrics import Publisher
from core.run.journal.journal import JournalError
from core.run.journal.run_state import RunState
from core.run.reporting.alerts import stall
from core.run.reporting.rates import SIDE_WORDS
from core.run.reporting.runs import RunReading, read_journal
from core.run.reporting.views import MoveStatus, RunStatus, RunView
from core.units import UNLIMITED

LABELS = ("cluster", "run")
"""Of every sample of a run."""
READ_SECONDS = 1.0
"""How often a run's journal is read for them."""
DUTY = 20
"""Reading a long one takes time that its run would miss: so many times as long lies between."""

log = logging.getLogger(__name__)

_VALUES: tuple[tuple[str, str, Callable[[RunView], float | None]], ...] = (
    ("moved_bytes", "Bytes that have arrived on new replicas.", lambda v: v.moved_bytes),
    (
        "left_bytes",
        "Bytes that have still to arrive on new replicas.",
        lambda v: v.total_bytes - v.moved_bytes,
    ),
    ("left_seconds", "Time left until the run ends.", lambda v: v.left_seconds),
    ("elapsed_seconds", "How long the run has been at it.", lambda v: v.elapsed_seconds),
    (
        "estimated_seconds",
        "How long the whole run was estimated to take.",
        lambda v: v.estimated_seconds,
    ),
    ("bytes_per_second", "Bytes that arrive now in a second.", lambda v: v.bytes_per_s),
    (
        "requested_bytes_per_second",
        "The throttle that was asked for, of each broker and side; absent without one.",
        lambda v: None if v.rate_bytes_per_s == UNLIMITED else v.rate_bytes_per_s,
    ),
    (
        "idle_seconds",
        "How long no byte has come of any move in flight.",
        lambda v: v.idle_seconds,
    ),
    (
        "stuck",
        "1 while the run waits, has paused itself, or has no move that goes on by itself.",
        lambda v: bool(not v.state.ended and stall(v)),
    ),
    (
        "last_look_timestamp_seconds",
        "When the run last looked at its cluster.",
        lambda v: v.last_event_at.timestamp(),
    ),
)


def build_metric() -> Metric:
    """Return which trimtab says all this."""
    gauge = GaugeMetricFamily("trimtab_build_info", "The version of trimtab.", labels=["version"])
    gauge.add_metric([version("trimtab")], 1)
    return gauge


def run_metrics(readings: Iterable[RunReading]) -> Iterator[Metric]:
    """Yield each metric with what it is of each of these runs."""
    readings = tuple(readings)
    for name, text, value in _VALUES:
        gauge = _gauge(name, text)
        for reading in readings:
            sample = value(reading.view)
            if sample is not None:
                gauge.add_metric(_of(reading.view), float(sample))
        yield gauge
    info = _gauge("info", "The run, with its cluster's id.", "cluster_id")
    states = _gauge("state", "1 for the state that the run is in, 0 for others.", "state")
    moves = _gauge("moves", "Partitions by the state of their newest move.", "state")
    throttles = _gauge(
        "throttle_bytes_per_second",
        "Throttles under which the run copies, and whose each is: its own, or a lower one of "
        "somebody else's.",
        *("broker", "side", "owner"),
    )
    rates = _gauge("broker_bytes_per_second", "What is copied now in a second.", "broker", "side")
    sides = {words: side.value for side, words in SIDE_WORDS.items()}
    for reading in readings:
        view, of = reading.view, _of(reading.view)
        info.add_metric([*of, view.cluster_id], 1)
        for state in RunStatus:
            states.add_metric([*of, state.value], float(view.state is state))
        for status in MoveStatus:
            moves.add_metric([*of, status.value], view.count(status))
        for broker, side, owner, rate in _throttles(reading.state):
            throttles.add_metric([*of, str(broker), side, owner], rate)
        for row in view.brokers:
            if row.bytes_per_s is not None:
                rates.add_metric([*of, str(row.broker), sides[row.side]], row.bytes_per_s)
    yield from (info, states, moves, throttles, rates)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"trimtab_run_{name}", text, labels=(*LABELS, *labels))


def _of(view: RunView) -> list[str]:
    return [view.cluster_name, view.run]


def _throttles(run: RunState) -> Iterator[tuple[int, str, str, int]]:
    """Yield the rates that hold under a run, or that it has left: broker, side, owner, bytes/s."""
    for (broker, side), rate in sorted(run.throttles.rates.items(), key=lambda pair: str(pair[0])):
        limit = rate.limit_bytes_per_s
        if limit is not None:
            yield broker, side.value, "other" if rate.is_theirs else "run", limit


class RunMetrics:
    """Publishes a run's metrics from a thread of its own, by its journal, until `end`."""

    def __init__(self, publisher: Publisher, cluster_id: str, run: str) -> None:
        self._publisher, self._cluster_id, self._run = publisher, cluster_id, run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish_on, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Publish how the run stands in the end, and no more."""
        self._ended.set()
        self._thread.join()
        self._publish()
        self._publisher.close()

    def _publish_on(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._publish()
            pause = max(READ_SECONDS, DUTY * (time.monotonic() - began))

    def _publish(self) -> None:
        try:
            reading = read_journal(self._cluster_id, self._run)
        except JournalError as error:
            log.warning("no metrics: %s", error.title)
        else:
            self._publisher.publish((build_metric(), *run_metrics([reading])))
