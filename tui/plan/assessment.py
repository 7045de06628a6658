"""What a plan comes to, and what has changed since it was assessed before. Pure.

A worker thread calls `assess_plan` and hands over the answer, so that no key waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.metadata import UNKNOWN, Broker
from core.cluster.state import ClusterState
from core.load.load import Float64, Load
from core.load.view.heat import Metric, fair_parts
from core.plan.checks.brokers import find_skipped, skipped_sentences
from core.plan.checks.catalogue import Finding, Severity
from core.plan.checks.check_plan import CheckedPlan, in_flight
from core.plan.effect import Effect, compute_effect, with_growth
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.plan_over_time import PlanTimeline, build_timeline, estimate_extra_disk
from core.plan.estimate.rate_table import default_rate, rate_table
from core.plan.impact.clients import Impact, estimate_impact
from core.plan.plan import Move, Plan
from core.plan.rebase import RebasedPlan, rebase
from core.units import UNLIMITED, format_bytes, format_duration


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


NOTICED = 0.05
"""The part by which bytes and seconds differ before that is said."""
ALIKE = 0.01
"""The part by which what an assessment rests on may differ before it is made anew."""
ALIKE_LOAD = 0.1
MUCH = 1.25
SOME_SECONDS = 5.0
"""Who was told of less than that many times the seconds, and some more, is asked again."""


@dataclass(frozen=True, eq=False, slots=True)
class ReviewedPlan:
    """A plan as it was assessed against one picture, at the rate that was shown with it."""

    state: ClusterState
    assessment: PlanAssessment
    rate_bytes_per_s: int

    @property
    def seconds(self) -> float | None:
        return self.assessment.at(self.rate_bytes_per_s).estimate.seconds

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.assessment.at(self.rate_bytes_per_s).findings

    @property
    def bytes(self) -> int:
        return total_to_copy(self.state, self.assessment.plan)[0]


def alive(state: ClusterState) -> frozenset[int]:
    """Return the brokers that are up."""
    return frozenset(broker.id for broker in state.brokers if broker.alive)


Picture = tuple[ClusterState, Load]


def is_similar(before: Picture, after: Picture, plan: Plan) -> bool:
    """Return whether an assessment of the plan would come to much the same for both.

    It is what is asked at each picture: an assessment takes seconds where a plan is large.
    """
    (state, one_load), (other, other_load) = before, after
    if state is other and one_load is other_load:
        return True
    same = (
        _is_equal(state.topic_of, other.topic_of)
        and _is_equal(state.partition, other.partition)
        and state.topics == other.topics
        and [_fixed_facts(b) for b in state.brokers] == [_fixed_facts(b) for b in other.brokers]
        and all(_is_equal(getattr(state, name), getattr(other, name)) for name in _COLUMNS)
        and state.future_replicas == other.future_replicas
        and _hidden_topics(state) == _hidden_topics(other)
        and state.moves_unknown == other.moves_unknown
        and state.balancer_topics == other.balancer_topics
    )
    if not same:
        return False
    if any(
        abs(was - is_now) > ALIKE * whole
        for a, b in zip(state.brokers, other.brokers, strict=True)
        for (was, whole), (is_now, _) in zip(_room(a), _room(b), strict=True)
    ):
        return False
    rows = np.array([row for move in plan if (row := state.find(move.tp)) is not None], np.int64)
    return _is_near(state.partition_size_bytes[rows], other.partition_size_bytes[rows], ALIKE) and (
        one_load is other_load
        or _is_near(one_load.in_bytes_per_s[rows], other_load.in_bytes_per_s[rows], ALIKE_LOAD)
    )


def _hidden_topics(state: ClusterState) -> tuple[int, tuple[int, ...], str] | None:
    """Return which topics are hidden, as far as that is known; not how their bytes grow."""
    hidden = state.hidden
    return None if hidden is None else (hidden.topics, hidden.unknown_brokers, hidden.why_unknown)


_COLUMNS = ("leader", "replica_start", "replica_broker", "in_sync", "adding", "removing", "log_dir")


def _is_equal(array: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return array is other or np.array_equal(array, other)


def _fixed_facts(broker: Broker) -> tuple[object, ...]:
    """Return of a broker what does not change by itself."""
    dirs = tuple((log_dir.path, log_dir.error, log_dir.total_bytes) for log_dir in broker.log_dirs)
    rates = broker.in_capacity_bytes_per_s, broker.out_capacity_bytes_per_s
    return broker.id, broker.alive, broker.rack, rates, dirs


def _room(broker: Broker) -> list[tuple[int, int]]:
    return [(log_dir.usable_bytes or 0, log_dir.total_bytes or 0) for log_dir in broker.log_dirs]


def _is_near(values: np.ndarray[Any, Any], other: np.ndarray[Any, Any], part: float) -> bool:
    """Return whether they are known of the same rows, and their sums hardly differ."""
    was, now = np.isnan(values) | (values < 0), np.isnan(other) | (other < 0)
    if not np.array_equal(was, now):
        return False
    sums = float(values[~was].sum()), float(other[~now].sum())
    return abs(sums[0] - sums[1]) <= part * max(sums)


def changed(before: ReviewedPlan, after: ReviewedPlan) -> tuple[str, ...]:
    """Return what is otherwise than before, each in a few words, without what hardly differs."""
    new = [finding.id for finding in new_findings(before.findings, after.findings)]
    gone = {finding.id for finding in before.findings} - {finding.id for finding in after.findings}
    against = [f"new: {', '.join(dict.fromkeys(new))}"] if new else []
    against += [f"no longer: {', '.join(sorted(gone))}"] if gone else []
    return (*_numbers(before, after), *_brokers(before, after), *against)


def describe_worse(before: ReviewedPlan, after: ReviewedPlan) -> tuple[str, ...]:
    """Return what speaks against the plan now and did not before, and that it takes much longer."""
    new = new_findings(before.findings, after.findings)
    words = [f"{finding.id}: {finding.sentence}" for finding in new]
    was, now = before.seconds, after.seconds
    if was is not None and now is None:
        words.append("how long it takes is not known any more")
    elif was is not None and now is not None and now > MUCH * was + SOME_SECONDS:
        words.append(f"it takes {format_duration(now)} instead of {format_duration(was)}")
    return tuple(words)


def new_findings(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that are about something new; of those that are unwise, a new kind."""
    known = list(before)
    about, ids = {finding.about for finding in known}, {finding.id for finding in known}
    return tuple(
        finding
        for finding in after
        if (
            finding.id not in ids
            if finding.severity is Severity.UNWISE
            else finding.about not in about
        )
    )


def _numbers(before: ReviewedPlan, after: ReviewedPlan) -> Iterator[str]:
    if _differ(before.bytes, after.bytes):
        yield f"{format_bytes(before.bytes)} → {format_bytes(after.bytes)}"
    old_seconds, other = before.seconds, after.seconds
    if (old_seconds is None) is not (other is None) or (
        old_seconds and other and _differ(old_seconds, other)
    ):
        was, becomes = (
            "no time known" if seconds is None else format_duration(seconds)
            for seconds in (old_seconds, other)
        )
        yield f"{was} → {becomes}"


def _differ(value: float, other: float) -> bool:
    return abs(value - other) > NOTICED * max(value, other)


def _brokers(before: ReviewedPlan, after: ReviewedPlan) -> Iterator[str]:
    ids = frozenset(broker.id for broker in after.state.brokers)
    was, now = alive(before.state), alive(after.state)
    if down := was - now:
        gone = "went down" if down <= ids else "went away"
        yield f"{_named(down)} {gone}"
    if back := now - was:
        yield f"{_named(back)} {'is' if len(back) == 1 else 'are'} back"


def _named(brokers: Iterable[int]) -> str:
    ids = sorted(brokers)
    return f"{'broker' if len(ids) == 1 else 'brokers'} {', '.join(map(str, ids))}"
