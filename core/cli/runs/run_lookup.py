"""Finds the run that a command names, in full or in part; without a name the one in progress."""

from __future__ import annotations

from core.cli.common.context import Context
from core.cluster.known_names import display_name, known_names, own_name
from core.errors import RefusedError, UnreachableError, UsageError
from core.run.journal.journal import JournalError
from core.run.journal.run_state import RunState
from core.run.reporting.runs import (
    RunReading,
    clusters_with_runs,
    find_run,
    list_runs,
    read_journal,
    runs_named,
    unfinished,
    unreadable,
)
from core.settings import load_settings


def resolve_clusters(context: Context) -> tuple[str, ...]:
    """Return the cluster that was named, asked for its id; else all that have runs here."""
    if context.target.address is None:
        return clusters_with_runs()
    return (context.fetch_cluster_id(),)


def resolve_run(context: Context, run: str | None) -> tuple[str, str]:
    """Return (cluster id, run id) of the run that `run` names or begins; None: in progress."""
    if run is None:
        return _find_run_in_progress(_candidate_clusters(context))
    if not run.strip():
        raise UsageError("No run is given.", next="`trimtab runs ls` lists them.")
    matches = [(c, r) for c in clusters_with_runs() for r in runs_named(c, run)]
    matches = [(c, r) for c, r in matches if r == run] or matches
    if len(matches) == 1:
        _refuse_other_cluster(context, *matches[0])
        return matches[0]
    address = context.target.address
    if len(matches) > 1 and address is None:
        raise _ambiguity_error(run, matches)
    try:
        cluster_id = resolve_clusters(context)[0] if matches else ""
    except UnreachableError as error:
        there = [match for match in matches if address and _bootstrap(*match) == address.bootstrap]
        if len(there) == 1:
            return there[0]
        raise _ambiguity_error(run, there or matches) from error
    return cluster_id, find_run(cluster_id, run)


def _refuse_other_cluster(context: Context, cluster_id: str, run: str) -> None:
    """Refuse a run of another cluster than that of the name which the command line gives."""
    target = context.target
    named = known_names().get(target.name or "", cluster_id)
    if target.named and named != cluster_id:
        raise UsageError(
            f"Run {run} is on {display_name(cluster_id)}, and not on {target.name}.",
            next="Name its own cluster, or leave --cluster out.",
        )


def read_named_run(context: Context, run: str | None) -> RunReading:
    """Return what the journal of that one run tells."""
    return read_journal(*resolve_run(context, run))


def resolve_run_or_latest(context: Context, run: str | None) -> tuple[str, str]:
    """Return the same of what is only to be told: without one in progress, of the newest."""
    if run is not None:
        return resolve_run(context, run)
    there = _candidate_clusters(context)
    known = [summary for cluster_id in there for summary in list_runs(cluster_id)]
    if not known or any(unfinished(cluster_id) for cluster_id in there):
        return _find_run_in_progress(there)
    newest = max(known, key=lambda summary: summary.started_at)
    return newest.cluster_id, newest.run


def _find_run_in_progress(there: list[str]) -> tuple[str, str]:
    runs = [(cluster_id, run) for cluster_id in there for run in unfinished(cluster_id)]
    if len(runs) == 1:
        return runs[0]
    if runs:
        names = ", ".join(f"{run} on {_place(cluster_id, run)}" for cluster_id, run in runs)
        raise UsageError(
            f"{len(runs):,} runs are in progress: {names}.", next="Give the ID of one."
        )
    wrong = [problem for cluster_id in there for problem in unreadable(cluster_id)]
    raise UsageError(
        " ".join(["No run is in progress here.", *wrong[:1]]),
        next="Give an ID; `trimtab runs ls` lists all runs.",
    )


def _candidate_clusters(context: Context) -> list[str]:
    address = context.target.address
    try:
        return list(resolve_clusters(context))
    except UnreachableError:
        if address is None:
            raise
        return [
            cluster_id
            for cluster_id in clusters_with_runs()
            if any(
                _bootstrap(cluster_id, r) == address.bootstrap for r in runs_named(cluster_id, "")
            )
        ]


def _ambiguity_error(run: str, matches: list[tuple[str, str]]) -> UsageError:
    names = ", ".join(f"{r} on {_place(c, r)}" for c, r in matches[:5])
    alike = len({r for _, r in matches}) == 1
    own = own_name(matches[0][0])
    which = "-b HOST:PORT" if own == matches[0][0] else f"--cluster {own}"
    more = f"Name its cluster as well: `trimtab {which} runs … {run}`."
    return UsageError(
        f"Several runs match {run!r}: {names}.",
        next=more if alike else "Several runs match; give more of the ID.",
    )


def _place(cluster_id: str, run: str) -> str:
    """Return what a run's cluster is called; without a name, by which address it was reached."""
    own = own_name(cluster_id)
    return _bootstrap(cluster_id, run) if own == cluster_id else own


def _bootstrap(cluster_id: str, run: str) -> str:
    """Return by which address a run's cluster was reached; its id where that cannot be read."""
    try:
        return read_journal(cluster_id, run).state.bootstrap
    except JournalError:
        return cluster_id


def require_writable(context: Context, history: RunState) -> None:
    """Raise RefusedError where config.toml marks the cluster read_only that the run knows."""
    context.require_writable()
    about = load_settings().about(history.cluster_name, history.bootstrap)
    for name, cluster in about.items():
        if cluster.read_only:
            raise RefusedError(f"{name} is marked read_only.", next="Change that in config.toml.")
