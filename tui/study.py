"""Study: all that the Plan screen and the apply dialog have to know of a plan, computed at once.

Pure; a worker thread calls `study` and hands the answer over, so that no key waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.cluster.document import DocumentGroup
from core.cluster.state import ClusterState, Reassignment, TopicPartition
from core.load.heat import Metric, weights
from core.load.snapshot import Float64, Load
from core.plan.calibration import NOTHING_LEARNED, Calibration
from core.plan.check import check_plan, never_finding
from core.plan.effect import Effect, effect_of
from core.plan.estimate import Estimate, estimate_at
from core.plan.extra_disk import peak_extra
from core.plan.findings import Finding, Severity, worst_first
from core.plan.impact import Impact, impact_of
from core.plan.plan import Plan
from core.plan.rate_table import default_rate, rate_table
from core.plan.rebase import Rebased, rebase
from core.plan.time_line import TimeLine, time_line
from core.units import UNLIMITED


@dataclass(frozen=True, eq=False, slots=True)
class Study:
    """What speaks against a plan, what each rate takes, and what the plan does to brokers."""

    plan: Plan
    findings: tuple[Finding, ...]
    table: tuple[Estimate, ...]
    time_lines: tuple[TimeLine | None, ...]
    """For each row of the table, how it goes over time."""
    default_rate_bytes_per_s: int | None
    effect: Effect
    parts: Mapping[Metric, Float64]
    """Each broker's fair part of all that is carried, in the order of the brokers of `effect`."""
    impact: Impact
    """Who notices that it is carried out."""
    rebased: Rebased
    """What of the plan still holds for the picture that was studied."""

    def row_of(self, rate_bytes_per_s: int) -> int:
        """Return the row of a rate, else of the nearest one; 0 when there is none."""
        rates = [estimate.rate_bytes_per_s for estimate in self.table]
        return min(range(len(rates)), key=lambda i: abs(rates[i] - rate_bytes_per_s), default=0)

    def estimate(self, rate_bytes_per_s: int) -> Estimate | None:
        return self.table[self.row_of(rate_bytes_per_s)] if self.table else None

    def findings_at(self, rate_bytes_per_s: int) -> tuple[Finding, ...]:
        """Return the findings at a rate: *never* is one that only the rate decides."""
        estimate = self.estimate(rate_bytes_per_s)
        if estimate is None or estimate.never is None:
            return self.findings
        tps = (move.tp for move in self.plan if move.receiving)
        return worst_first((*self.findings, never_finding(estimate.never, tps)))


def study(
    state: ClusterState,
    load: Load,
    plan: Plan,
    rate_bytes_per_s: int,
    groups: Sequence[DocumentGroup] | None = None,
    calibration: Calibration | None = None,
    *,
    go_on: Callable[[], None] = lambda: None,
) -> Study:
    """Return the study of `plan`; the table holds `rate_bytes_per_s` beside round rates.

    `groups` are the consumer groups, None when they are not known; `calibration` is what earlier
    runs have taught about times. `go_on` is called on the way: what it raises ends the study.
    """
    known = calibration or NOTHING_LEARNED
    table = list(rate_table(state, load, plan, calibration=known, go_on=go_on))
    usual = default_rate(table)
    if all(estimate.rate_bytes_per_s != rate_bytes_per_s for estimate in table):
        table.append(estimate_at(state, load, plan, rate_bytes_per_s, calibration=known))
        table.sort(key=lambda row: (row.rate_bytes_per_s == UNLIMITED, row.rate_bytes_per_s))
    go_on()
    effect = effect_of(state, load, plan)
    chosen = next(row for row in table if row.rate_bytes_per_s == rate_bytes_per_s)
    lines: list[TimeLine | None] = []
    for estimate in table:
        go_on()
        extra = () if estimate.seconds is None else peak_extra(state, plan, estimate)
        lines.append(time_line(state, load, estimate, extra))
    return Study(
        plan=plan,
        findings=check_plan(
            state, load, plan, reassignments=in_flight(state), seconds=chosen.seconds
        ),
        table=tuple(table),
        time_lines=tuple(lines),
        default_rate_bytes_per_s=usual,
        effect=effect,
        parts={metric: weights(state, metric) for metric in Metric},
        impact=impact_of(state, load, plan, groups),
        rebased=rebase(state, plan),
    )


def in_flight(state: ClusterState) -> Mapping[TopicPartition, Reassignment]:
    """Return the reassignments that the state shows, whoever asked for them."""
    found = {}
    for index in np.flatnonzero(state.reassigning).tolist():
        row = state.row(index)
        found[row.tp] = Reassignment(row.replicas, row.adding, row.removing)
    return found


def is_refused(findings: tuple[Finding, ...], allowed: frozenset[str]) -> bool:
    """Return whether a finding stands in the way: illegal, or unsafe and not allowed."""
    return any(
        finding.severity is Severity.ILLEGAL
        or (finding.severity is Severity.UNSAFE and finding.id not in allowed)
        for finding in findings
    )
