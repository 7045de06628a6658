"""An autopilot's metrics: its mode and last decision, what it saw, and the runs in progress.

What is not known has no sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from core.autopilot.history import DecisionHistory
from core.autopilot.log import Entry, EntryKind
from core.autopilot.observation import Observation
from core.autopilot.settings import Mode
from core.autopilot.switch import Switch
from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ResourceKind
from core.cluster.observer import CONFIGS_SECONDS
from core.errors import TrimtabError
from core.plan.copies import Side
from core.run.external.throttles import Throttle, explain_throttles
from core.run.journal.journal import JournalError
from core.run.reporting.metrics import build_metric, run_metrics
from core.run.reporting.runs import RunReading, read_journal, with_throttles
from core.run.throttles.write_and_read_back import fetch_throttle_configs

STATES = tuple(kind for kind in EntryKind if kind not in (EntryKind.SWITCH, EntryKind.CAPACITY))
"""What an autopilot's last line may say of what it does: the others say what somebody else did."""
_SIDES = {side.rate_config: side.value for side in Side}


@dataclass(frozen=True, eq=False, slots=True)
class AutopilotReading:
    """How an autopilot stands after a look; `observed` is None where its cluster did not answer."""

    switch: Switch
    last: Entry | None
    history: DecisionHistory
    observed: Observation | None
    runs: Sequence[RunReading] = ()
    """Those of this machine that are in progress on its cluster."""
    throttles: Iterable[Throttle] = ()
    """All that brokers have, whoever set them."""


def autopilot_metrics(reading: AutopilotReading, now: datetime) -> Iterator[Metric]:
    """Yield the metrics of an autopilot and of the runs on its cluster; `now` is the cluster's."""
    switch, settings, observed = reading.switch, reading.switch.settings, reading.observed
    name = switch.name

    def gauge(metric: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"trimtab_{metric}", text, labels=("cluster", *labels))

    def value(metric: str, text: str, number: float) -> GaugeMetricFamily:
        family = gauge(metric, text)
        if math.isfinite(number):
            family.add_metric([name], number)
        return family

    yield build_metric()
    modes = gauge("autopilot_mode", "1 for the mode that is set, 0 for others.", "mode")
    for mode in Mode:
        modes.add_metric([name, mode.value], float(switch.mode is mode))
    states = gauge("autopilot_state", "1 for the last decision, 0 for others.", "state")
    reason = gauge("autopilot_reason_info", "What weighed most in the last decision.", "reason")
    if reading.last is not None:
        for kind in STATES:
            states.add_metric([name, kind.value], float(reading.last.what is kind))
        reason.add_metric([name, reading.last.reasons[0].id], 1)
    yield from (modes, states, reason)
    yield value(
        "autopilot_cluster_up",
        "1 if the cluster answered at the last look.",
        float(observed is not None),
    )
    yield value("autopilot_last_look_timestamp_seconds", "When it last looked.", now.timestamp())
    spent, moves = reading.history.spent(now)
    yield value("autopilot_hour_bytes", "Bytes that it had copied in the last hour.", spent)
    yield value(
        "autopilot_hour_limit_bytes",
        "The most that it may have copied in an hour; absent without a limit.",
        settings.max_bytes_per_hour,
    )
    yield value("autopilot_hour_moves", "Partitions that it moved in the last hour.", moves)
    yield value(
        "autopilot_hour_limit_moves",
        "The most partitions that it may move in an hour.",
        settings.max_moves_per_hour,
    )
    skew = gauge("skew_ratio", "The fullest broker's load by its fair share: 1 is even.", "measure")
    if observed is not None:
        # Who leads now counts, where an election would change that.
        for measure, ratio in {
            **(observed.imbalance.skew if observed.imbalance else {}),
            **(observed.leader_imbalance.skew if observed.leader_imbalance else {}),
        }.items():
            skew.add_metric([name, measure.name.lower()], ratio)
    yield skew
    labels = ("broker", "side", "owner", "run")
    rates = gauge(
        "throttle_bytes_per_second",
        "Throttles of brokers, by who set them: a run of this machine, or somebody else.",
        *labels,
    )
    needed = gauge("throttle_needed", "1 if a move in flight runs under the throttle.", *labels)
    for throttle in reading.throttles:
        if throttle.resource.kind is ResourceKind.BROKER:
            side, run = _SIDES[throttle.config], throttle.run
            of = [name, throttle.resource.name, side, "run" if run else "other", run or ""]
            rates.add_metric(of, float(throttle.value))
            needed.add_metric(of, float(throttle.needed))
    yield from (rates, needed)
    yield from run_metrics(reading.runs)


class ClusterThrottles:
    """The throttles of a cluster's brokers, asked for no more often than other configs."""

    def __init__(self, client: ClusterClient, clock: Clock, cluster_id: str) -> None:
        self._client, self._clock, self._cluster_id = client, clock, cluster_id
        self._known: tuple[Throttle, ...] = ()
        self._due = -math.inf

    def look(self, observed: Observation | None) -> tuple[Throttle, ...]:
        """Return them; none where the cluster does not answer, or may not be asked."""
        if observed is None:
            self._known, self._due = (), -math.inf
        elif self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + CONFIGS_SECONDS
            self._known = ()
            with suppress(TrimtabError):
                answers = fetch_throttle_configs(self._client, brokers=observed.state.alive_ids)
                runs = with_throttles(self._cluster_id)
                self._known = explain_throttles(answers, observed.reassignments, {}, runs).throttles
        return self._known


def read_runs(cluster_id: str, observed: Observation | None) -> tuple[RunReading, ...]:
    """Return the runs that a look saw in progress; those that cannot be read are left out."""
    readings = []
    for run in observed.running if observed is not None else ():
        with suppress(JournalError):
            readings.append(read_journal(cluster_id, run))
    return tuple(readings)
