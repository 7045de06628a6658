"""Launches a run from the command line: checks, estimate, confirmation, start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from core.cli.common.context import Context
from core.cli.common.output import emit_line, say
from core.cli.common.prompts import ask_passwords, confirm
from core.cli.common.times import format_local
from core.cli.plan.estimate import calibrated_range
from core.cli.runs.follow_progress import follow_run
from core.cluster.connect import Address, connect
from core.cluster.documents.cluster_document import DocumentGroup, fetch_document_groups
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UsageError
from core.load.load import Load
from core.load.load_source import newest_load
from core.plan.checks.catalogue import Severity, refuse
from core.plan.checks.check_plan import CheckedPlan
from core.plan.estimate.calibration import Calibration
from core.plan.estimate.estimate import Estimate, estimate_at, estimate_within
from core.plan.estimate.estimate_text import format_per_side_rates
from core.plan.estimate.plan_over_time import estimate_peak_usage
from core.plan.estimate.rate_table import default_rate, rate_table, slower_reason
from core.plan.impact.clients import find_precautions
from core.plan.impact.retention import (
    check_retention,
    estimate_retention_savings,
    only_compacted,
    retention_hint,
)
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.run.launch import launch as launch_run
from core.run.options import RunOptions
from core.run.reporting.runs import calibration
from core.run.run_process import logout_policy
from core.run.throttles.adaptive_rate import expected_rate, side_rates, usual_bounds
from core.units import (
    UNLIMITED,
    counted,
    format_bytes,
    format_duration,
    format_rate,
    name_list,
)


def describe_deletions(state: ClusterState, plan: Plan, retention_ms: int) -> Iterator[str]:
    """Yield which topics' records a retention deletes; raises UsageError where it is none."""
    topics = {move.tp.topic for move in plan if move.receiving}
    compacted = only_compacted(state, topics)
    by_age = sorted(topics.difference(compacted))
    if compacted and not by_age:
        raise UsageError(
            f"--retention has no effect: {name_list(compacted)} "
            f"{'is' if len(compacted) == 1 else 'are'} only compacted (cleanup.policy=compact).",
            next="Leave it out.",
        )
    if by_age:
        yield (
            f"Records of {name_list(by_age)} older than {format_duration(retention_ms / 1000)} "
            "are deleted for good; their retention is restored afterwards."
        )
    if compacted:
        yield f"Only compacted, so no retention shortens what is copied: {name_list(compacted)}."


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The cluster as a plan is held against it: what is in flight, and its own clock."""

    address: Address
    state: ClusterState
    reassignments: Mapping[TopicPartition, Reassignment]
    now: datetime


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How a plan is to be carried out, as far as somebody has said."""

    throttle: int | RateBounds | Literal["auto"] | None = None
    within_seconds: float | None = None
    """A deadline instead of a throttle."""
    start_at: datetime | None = None
    retention_ms: int | None = None
    elect: bool = False
    detach: bool = False
    yes: bool = False
    allow: frozenset[str] = frozenset()
    override_throttles: bool = False
    max_extra_bytes: int | None = None
    pause_if_removed: bool = False
    metrics: str | None = None
    as_json: bool = False


def fetch_live_cluster(address: Address) -> LiveCluster:
    """Return what is there now; raises UnreachableError when the cluster does not answer."""
    ask_passwords(address)
    with connect(address) as connection:
        state = fetch_cluster_state(connection.client)
        return LiveCluster(
            address, state, connection.client.fetch_reassignments(), connection.clock.now()
        )


def print_no_run() -> None:
    """Tell as `--detach --json` does which run was started, where it is none."""
    emit_line({"run": None})


def launch(
    context: Context,
    cluster: LiveCluster,
    plan: Plan,
    chosen: LaunchOptions,
    *,
    name: str,
    verb: str = "apply",
    doing: str = "Applying",
) -> int:
    """Check `plan`, ask for the cluster's name, start its run and follow it; return an exit code.

    Raises RefusedError for what a check refuses and nobody allowed, UsageError without a yes, and
    where no rate was given and none can be recommended.
    """
    state = cluster.state
    context.require_writable(state)
    load = newest_load(state, context.target.snapshots)
    rate, estimate, bounds = _estimate(state, load, plan, chosen)
    groups = None if chosen.retention_ms is None else _fetch_groups(cluster.address)
    checked = CheckedPlan(state, load, plan, cluster.reassignments)
    findings = [*checked.after(estimate.seconds, estimate.never)]
    if chosen.retention_ms is not None:
        findings += check_retention(state, load, plan, groups, chosen.retention_ms)
    refuse(findings, chosen.allow)
    if rate is None:  # a check may have said why already, and then no rate would help
        raise UsageError(
            "No throttle can be recommended for this plan.",
            detail=estimate.never or estimate.note,
            next="Give --throttle 50MB/s, or --throttle unlimited.",
        )
    for finding in findings:
        if finding.severity is not Severity.ILLEGAL:
            say(f"{finding.id}: {finding.sentence}")
    say(_summary(plan, estimate, name, bounds))
    for sentence in _launch_notes(cluster, load, plan, estimate, groups, chosen):
        say(sentence)
    if not chosen.yes:
        confirm(name, verb, doing, "nothing was changed")
    options = RunOptions(
        rate_bytes_per_s=estimate.rate_bytes_per_s,
        cluster_name=name,
        allow=chosen.allow,
        override_rates=chosen.override_throttles,
        max_extra_bytes=chosen.max_extra_bytes,
        per_side_rates=side_rates(estimate.per_side_rates),
        auto=bounds,
        start_at=chosen.start_at,
        retention_ms=chosen.retention_ms,
        snapshots=context.target.snapshots,
        elect=chosen.elect,
        pause_if_removed=chosen.pause_if_removed,
        metrics=chosen.metrics,
    )
    run = launch_run(cluster.address, state, plan, options, estimate, load=load)
    if not chosen.detach:
        return follow_run(state.cluster_id, run, as_json=chosen.as_json)
    if chosen.as_json:
        emit_line({"run": run})
    else:
        say(f"Run {run} started. Follow it: trimtab runs attach {run}")
    return 0


def _estimate(
    state: ClusterState, load: Load, plan: Plan, chosen: LaunchOptions
) -> tuple[int | None, Estimate, RateBounds | None]:
    """Return the rate, None where none can be recommended, its estimate, and bounds to adapt it in.

    A deadline gets the lowest rates that keep it, as if these had been given.
    """
    known, extra = calibration(state.cluster_id), chosen.max_extra_bytes
    if chosen.within_seconds is not None:
        seconds = chosen.within_seconds
        estimate = estimate_within(
            state, load, plan, seconds, max_extra_bytes=extra, calibration=known
        )
        timed = estimate.timed_bytes_per_s
        rate = None if estimate.never or estimate.seconds is None else timed
        return rate, replace(estimate, rate_bytes_per_s=timed, recommended_bytes_per_s=None), None
    throttle, bounds = chosen.throttle, None
    if throttle is None:
        rate = _recommended_rate(state, load, plan, known, extra)
    elif isinstance(throttle, int):
        rate = throttle
    else:
        bounds = usual_bounds(state, load, plan) if throttle == "auto" else throttle
        rate = expected_rate(bounds, state, load, plan, known)
    at = UNLIMITED if rate is None else rate
    estimate = estimate_at(state, load, plan, at, max_extra_bytes=extra, calibration=known)
    return rate, estimate, bounds


def _launch_notes(
    cluster: LiveCluster,
    load: Load,
    plan: Plan,
    estimate: Estimate,
    groups: tuple[DocumentGroup, ...] | None,
    chosen: LaunchOptions,
) -> Iterator[str]:
    """Yield what to know before the run is confirmed: rates, disks, clients, deletions, times."""
    state, retention_ms = cluster.state, chosen.retention_ms
    if estimate.per_side_rates:
        yield format_per_side_rates(estimate.per_side_rates)
    yield from estimate_peak_usage(state, load, plan, estimate).sentences
    yield from find_precautions(state, plan, elects=chosen.elect)
    if retention_ms is not None:
        yield from describe_deletions(state, plan, retention_ms)
    # What a shorter retention saves, this one or one that most readers can bear.
    seconds = None if retention_ms is None else -(-retention_ms // 1000)
    savings = estimate_retention_savings(state, load, plan, groups, seconds)
    if hint := retention_hint(savings, estimate.total_bytes, is_requested=retention_ms is not None):
        yield hint
    if chosen.start_at is not None:
        left = format_duration((chosen.start_at - cluster.now).total_seconds())
        yield f"It starts at {format_local(chosen.start_at)}, in {left}, after another check."
    if warning := logout_policy().warning("this run"):
        yield warning


def _fetch_groups(address: Address) -> tuple[DocumentGroup, ...] | None:
    """Return who reads what; None where it is not known which groups there are."""
    try:
        with connect(address) as connection:
            return fetch_document_groups(connection.client)
    except AccessDeniedError:
        return None


def _recommended_rate(
    state: ClusterState,
    load: Load,
    plan: Plan,
    known: Calibration,
    max_extra_bytes: int | None,
) -> int | None:
    """Return the rate to begin with, and say so; UNLIMITED to copy nothing, None for none."""
    if not any(move.receiving for move in plan):
        return UNLIMITED
    table = rate_table(state, load, plan, max_extra_bytes=max_extra_bytes, calibration=known)
    rate = default_rate(table)
    if rate is None:
        return None
    if not table[0].total_bytes:
        return UNLIMITED
    why = slower_reason(table)
    slower = f", as {why}" if why else ""
    say(f"No --throttle was given; the recommended one is {format_rate(rate)}{slower}.")
    return rate


def _summary(plan: Plan, estimate: Estimate, name: str, bounds: RateBounds | None) -> str:
    moves = counted(len(plan), "partition")
    if not estimate.total_bytes:
        return f"{moves} on {name}; no data moves."
    rate = f"{format_rate(estimate.rate_bytes_per_s)} a broker and side"
    if bounds is not None:
        lowest, highest = format_rate(bounds.min_bytes_per_s), format_rate(bounds.max_bytes_per_s)
        rate = f"{rate}, adapted between {lowest} and {highest}"
    what = f"{moves} on {name}, {format_bytes(estimate.total_bytes)}, at {rate}"
    if estimate.seconds is None or estimate.range_seconds is None:
        return f"{what}; how long is not known. {estimate.note}"
    return f"{what}: {calibrated_range(estimate)}."
