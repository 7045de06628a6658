"""Which run a command means: by its name in full or in part, on the cluster that was named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.cli.context import Context
from core.cluster.connect import short_name
from core.errors import RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from core.run.record.history import History


def clusters(context: Context) -> tuple[str, ...]:
    """Return the cluster that was named, asked for its id; else all that have runs here."""
    from core.run.tell.runs import clusters_with_runs

    if context.target.address is None:
        return clusters_with_runs()
    with context.connected() as connection:
        return (connection.client.describe().cluster_id,)


def which_run(context: Context, run: str) -> tuple[str, str]:
    """Return (cluster id, run id) of the one run that `run` names, in full or in part."""
    from core.run.tell.runs import clusters_with_runs, find_run, runs_named

    if not run.strip():
        raise UsageError("Which run?", next="`trimtab runs ls` lists them.")
    everywhere = [(c, r) for c in clusters_with_runs() for r in runs_named(c, run)]
    if len(everywhere) == 1:
        return everywhere[0]
    if len(everywhere) > 1 and context.target.address is None:
        names = ", ".join(f"{r} on {short_name(c)}" for c, r in everywhere[:5])
        raise UsageError(f"Several runs match {run!r}: {names}.", next="Say more of its name.")
    try:
        cluster_id = clusters(context)[0] if everywhere else ""
    except UnreachableError as error:
        raise UsageError(f"Several runs match {run!r}.", next="Say its whole name.") from error
    return cluster_id, find_run(cluster_id, run)


def require_writable(context: Context, history: History) -> None:
    """Raise RefusedError for a run on a cluster that config.toml marks read_only.

    Also where no cluster was named: the run knows its own.
    """
    from core.settings import load_settings

    context.require_writable()
    about = load_settings().about(history.cluster_name, history.bootstrap)
    for name, cluster in about.items():
        if cluster.read_only:
            raise RefusedError(f"{name} is marked read_only.", next="Change that in config.toml.")
