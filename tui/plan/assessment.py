"""What the Plan screen and the apply dialog show of a plan: estimate, checks, impact. Pure.

A worker thread calls `assess_plan` and hands over the answer, so that no key waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.metadata import UNKNOWN
from core.cluster.state import ClusterState
from core.load.load import Float64, Load
from core.load.view.heat import Metric, fair_parts
from core.plan.checks.brokers import find_skipped, skipped_sentences
from core.plan.checks.catalogue import Finding
from core.plan.checks.check_plan import CheckedPlan, in_flight
from core.plan.effect import Effect, compute_effect, with_growth
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.plan_over_time import PlanTimeline, build_timeline, estimate_extra_disk
from core.plan.estimate.rate_table import default_rate, rate_table
from core.plan.impact.clients import Impact, estimate_impact
from core.plan.plan import Move, Plan
from core.plan.rebase import RebasedPlan, rebase
from core.units import UNLIMITED


@dataclass(frozen=True, eq=False, slots=True)
class RateAssessment:
    """What a plan takes at one rate, and what speaks against it then."""

    estimate: Estimate
    findings: tuple[Finding, ...]
    """Worst first: how long it takes decides what grows meanwhile."""
    timeline: PlanTimeline | None
    """How it goes over time."""
    effect: Effect
    """What the plan does to brokers, with what grows meanwhile."""


@dataclass(frozen=True, eq=False, slots=True)
class PlanAssessment:
    """What speaks against a plan, what each rate takes, and what the plan does to brokers."""

    plan: Plan
    rows: tuple[RateAssessment, ...]
    """By rate, the slowest first; there is at least that of the rate that was asked for."""
    default_rate_bytes_per_s: int | None
    parts: Mapping[Metric, Float64]
    """Each broker's fair part of all that is carried, in the order of the brokers of an effect."""
    impact: Impact
    """Who notices that it is carried out."""
    rebased: RebasedPlan
    """What of the plan still holds for the picture that was assessed."""
    not_compared: tuple[str, ...] = ()
    """What checks could not compare, as it is not known: a sentence each."""

    @property
    def table(self) -> tuple[Estimate, ...]:
        return tuple(row.estimate for row in self.rows)

    @property
    def rates(self) -> list[int]:
        return [row.estimate.rate_bytes_per_s for row in self.rows]

    def row_of(self, rate_bytes_per_s: int) -> int:
        """Return the row of a rate, else of the nearest one."""
        rates = self.rates
        return min(range(len(rates)), key=lambda i: abs(rates[i] - rate_bytes_per_s))

    def at(self, rate_bytes_per_s: int) -> RateAssessment:
        return self.rows[self.row_of(rate_bytes_per_s)]


def assess_plan(
    state: ClusterState,
    load: Load,
    plan: Plan,
    rate_bytes_per_s: int,
    groups: Sequence[DocumentGroup] | None = None,
    calibration: Calibration | None = None,
    *,
    go_on: Callable[[], None] = lambda: None,
) -> PlanAssessment:
    """Return the assessment of `plan`; the table holds `rate_bytes_per_s` beside round rates.

    `groups` are the consumer groups, None when they are not known; `calibration` is what earlier
    runs have taught about times. `go_on` is called on the way: what it raises ends the assessment.
    """
    known = calibration or NOTHING_LEARNED
    table = list(rate_table(state, load, plan, calibration=known, go_on=go_on))
    usual = default_rate(table)
    if all(estimate.rate_bytes_per_s != rate_bytes_per_s for estimate in table):
        table.append(estimate_at(state, load, plan, rate_bytes_per_s, calibration=known))
        table.sort(key=lambda row: (row.rate_bytes_per_s == UNLIMITED, row.rate_bytes_per_s))
    go_on()
    effect = compute_effect(state, load, plan)
    checked = CheckedPlan(state, load, plan, in_flight(state))
    rows = []
    for estimate in table:
        go_on()
        extra = () if estimate.seconds is None else estimate_extra_disk(state, load, plan, estimate)
        rows.append(
            RateAssessment(
                estimate,
                findings=checked.after(estimate.seconds, estimate.never),
                timeline=build_timeline(state, load, estimate, extra),
                effect=with_growth(effect, state, load, plan, estimate.seconds or 0.0),
            )
        )
    return PlanAssessment(
        plan=plan,
        rows=tuple(rows),
        default_rate_bytes_per_s=usual,
        parts={metric: fair_parts(state, metric) for metric in Metric},
        impact=estimate_impact(state, load, plan, groups),
        rebased=rebase(state, plan),
        not_compared=tuple(skipped_sentences(state, find_skipped(state, plan.moves))),
    )


def bytes_to_copy(state: ClusterState, move: Move) -> int | None:
    """Return what a move copies: the partition's size for each copy of it; None is unknown."""
    if not move.receiving:
        return 0
    row = state.find(move.tp)
    size = UNKNOWN if row is None else int(state.partition_size_bytes[row])
    return None if size == UNKNOWN else size * len(move.receiving)


def total_to_copy(state: ClusterState, plan: Plan) -> tuple[int, int]:
    """Return the bytes a plan copies, and how many of its moves have an unknown size."""
    sizes = [bytes_to_copy(state, move) for move in plan]
    return sum(size for size in sizes if size is not None), sum(size is None for size in sizes)
