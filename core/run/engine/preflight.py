"""Preflight: the run's process checks the plan again and estimates its duration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from core.cluster.client import ClusterClient
from core.cluster.configs import MIN_INSYNC, Resource
from core.cluster.documents.cluster_document import DocumentGroup, fetch_document_groups
from core.cluster.kafka_errors import Fault
from core.cluster.known_names import name_and_id
from core.cluster.log_dirs import with_log_dirs
from core.cluster.observer import fetch_topic_configs
from core.cluster.state import ClusterState
from core.errors import (
    AccessDeniedError,
    RefusedError,
    StoreError,
    UnreachableError,
    UsageError,
)
from core.load.load import Load
from core.load.load_source import newest_load
from core.plan.checks.brokers import has_capacities
from core.plan.checks.catalogue import OWN_RUN_CHECKS, Finding, Severity, refuse
from core.plan.checks.check_plan import check_plan
from core.plan.copies import BrokerSide
from core.plan.estimate.calibration import Calibration
from core.plan.estimate.estimate import estimate_task
from core.plan.estimate.estimate_json import format_estimate
from core.plan.estimate.uncertainty import Task
from core.plan.impact.retention import check_retention
from core.plan.plan import Move, Plan
from core.run.backoff import with_denials_as_faults
from core.run.journal.run_state import RunState

Look = Callable[[], ClusterState]


def preflight(
    client: ClusterClient, run: RunState, learned: Learned, load: Loaded
) -> dict[str, Any]:
    """Return what the journal is to keep of the cluster as it was found, and how long it takes.

    `learned` asks for what earlier runs have taught about times, `load` for the load of now. Raises
    RefusedError when the plan must not be carried out, or not on this cluster.
    """
    plan = run.plan
    going = Plan(plan.cluster_id, tuple(run.moves[i].move for i in run.queued))
    reassignments = client.fetch_reassignments()
    state = client.describe_cluster()
    if state.cluster_id != run.cluster_id:
        cluster, meant = name_and_id(state.cluster_id), name_and_id(run.cluster_id)
        raise RefusedError(f"This is cluster {cluster}, not {meant}.")
    involved = {b for move in plan for b in (*move.before, *move.after)}
    state = with_log_dirs(
        state, client.describe_log_dirs(sorted(involved.intersection(state.alive_ids)))
    )
    min_insync = _min_insync(client, {move.tp.topic for move in plan})
    state = _with_min_insync(state, min_insync)
    findings = check_plan(state, Load.unknown(state), going, reassignments=reassignments)
    findings += _retention_findings(client, state, going, run, load)
    refuse(findings, run.allowed)
    rows = [state.find(move.tp) for move in plan]
    sizes = [-1 if row is None else int(state.partition_size_bytes[row]) for row in rows]
    return {
        "sizes": [None if size < 0 else size for size in sizes],
        "leaders": [None if row is None else int(state.leader[row]) for row in rows],
        "min_insync": min_insync,
        "estimate": estimate_of_start(state, run, learned, load),
        "said": [[f.id, f.sentence] for f in findings if f.severity is Severity.UNSAFE],
    }


def _retention_findings(
    client: ClusterClient, state: ClusterState, going: Plan, run: RunState, load: Loaded
) -> tuple[Finding, ...]:
    """Return what speaks against lowering retention now, where that is asked for and not done yet.

    Hours may lie between (`--at`): a group that stopped meanwhile has much to read by now.
    """
    retention = run.retention
    if retention is None or retention.intended:
        return ()
    topics = [t for name in {m.tp.topic for m in going} if (t := state.topic(name)) is not None]
    known = state.with_topics(fetch_topic_configs(with_denials_as_faults(client), topics))
    groups: tuple[DocumentGroup, ...] | None = ()
    rates = Load.unknown(state)
    if "unread" not in run.allowed:
        rates = load(state)
        try:
            groups = fetch_document_groups(client)
        except AccessDeniedError:
            groups = None
    return tuple(check_retention(known, rates, going, groups, retention.ms, surely=True))


# -- moves that are added on the way ---------------------------------------------------------------


def observe_once(client: ClusterClient, min_insync: Mapping[str, int]) -> Look:
    """Return what looks at the cluster and its logs when first called, and at no other time.

    `min_insync` is what the run has found of its topics.
    """

    @cache
    def look() -> ClusterState:
        state = client.describe_cluster()
        state = with_log_dirs(state, client.describe_log_dirs(state.alive_ids))
        return _with_min_insync(state, min_insync)

    return look


def objection(look: Look, move: Move, allowed: Collection[str], known: Collection[str] = ()) -> str:
    """Return why a move that is added to a run must not be made, "" when it may.

    What is `known` of it by the ids of checks is left out.
    """
    state = look()
    findings = check_plan(state, Load.unknown(state), Plan(state.cluster_id, (move,)))
    try:
        refuse([f for f in findings if f.id not in known], allowed)
    except RefusedError as error:
        return f"{error.title} {error.detail.strip()}".strip()
    return ""


def retarget_objection(look: Look, run: RunState, kind: str, p: Mapping[str, Any]) -> str:
    """Return why a move in flight is not to be taken elsewhere, or "": first its copy is lost.

    What cannot be asked is no yes: requests that wait behind this one are not kept waiting.
    """
    m = run.moves[p["move"]] if kind == "retarget" else None
    if m is None or not m.phase.in_flight:
        return ""
    move, allowed = m.move.with_replicas(tuple(p["after"])), run.allowed.union(p.get("allow", ()))
    try:
        return objection(look, move, allowed, OWN_RUN_CHECKS)
    except (AccessDeniedError, UnreachableError) as error:
        return f"whether {m.move.tp} may go there cannot be asked: {error.title}"


def _min_insync(client: ClusterClient, topics: Iterable[str]) -> dict[str, int]:
    """Return min.insync.replicas of those topics of which it may be read."""
    resources = [Resource.topic(t) for t in sorted(topics)]
    answers = with_denials_as_faults(client).describe_configs(resources, [MIN_INSYNC])
    min_insync = {}
    for resource, answer in answers.items():
        value = None if isinstance(answer, Fault) else answer.get(MIN_INSYNC)
        if value is not None and value.value:
            min_insync[resource.name] = int(value.value)
    return min_insync


def _with_min_insync(state: ClusterState, min_insync: Mapping[str, int]) -> ClusterState:
    known = [topic for topic in state.topics if topic.name in min_insync]
    return state.with_topics({t.name: replace(t, min_insync=min_insync[t.name]) for t in known})


Learned = Callable[[], Calibration]
"""Asks what earlier runs on the cluster have taught about times."""
Loaded = Callable[[ClusterState], Load]
"""Asks for the newest load, laid upon a state."""

log = logging.getLogger(__name__)


def load_as_known(state: ClusterState, snapshots_path: str | None = None) -> Load:
    """Return the newest load; all unknown where it is damaged, or gone: that fails no run."""
    try:
        return newest_load(state, snapshots_path)
    except (UsageError, StoreError, OSError) as error:
        log.warning("the load is not known: %s", error)
        return Load.unknown(state)


def estimate_of_start(
    state: ClusterState, run: RunState, learned: Learned, known: Loaded
) -> dict[str, Any] | None:
    """Return the document of the estimate for what is queued, at the run's rates.

    None of a run that was made without one.
    """
    if run.estimate is None:
        return None
    queued = [run.moves[index] for index in run.queued]
    plan = Plan(run.cluster_id, tuple(m.move for m in queued))
    produced = {m.move.tp: m.produced_bytes_per_s for m in queued}
    rows = {row: rate for tp, rate in produced.items() if (row := state.find(tp)) is not None}
    load = known(state) if has_capacities(state) else Load.unknown(state)
    rates = load.in_bytes_per_s.copy()
    for row, rate in rows.items():
        if np.isnan(rates[row]):  # of what nothing is known, what the run was told of it holds
            rates[row] = rate
    load = replace(load, in_bytes_per_s=rates)
    per_side_rates = {
        BrokerSide(*key): rate for key, rate in run.rate_control.per_side_rates.items()
    }
    task = Task.of(state, load, plan, run.max_extra_bytes)
    return format_estimate(
        estimate_task(task, run.rate_bytes_per_s, learned(), per_side_rates=per_side_rates)
    )
