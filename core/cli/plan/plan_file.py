"""The argument PLAN: a plan file, or stdin, as every command takes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core import files
from core.cli.common.context import Context
from core.cli.common.output import say
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load import Load
from core.plan.checks.catalogue import REBASE
from core.plan.checks.moves import check_base
from core.plan.formats.plan_document import PlanDocument, read_document
from core.plan.formats.plan_file import bind_document
from core.plan.impact.clients import count_waiting_for_election
from core.plan.plan import ANY, Plan
from core.units import id_list


def fetch_if_named(context: Context) -> tuple[ClusterState, Load] | None:
    """Return the cluster and its load when one was named; our own plan files can do without."""
    if context.target.address is None and context.target.from_file is None:
        return None
    return context.picture()


def bind_plan(document: PlanDocument, state: ClusterState) -> Plan:
    """Return the plan for this cluster; says what of it no longer holds. Raises DocumentError."""
    plan = bind_document(document, state)
    findings = check_base(state, plan)
    for finding in findings:
        say(f"{finding.id}: {finding.sentence}")
    if findings:
        say(REBASE)
    return plan


def read_plan_document(context: Context, path: Path, other: Path | None = None) -> PlanDocument:
    """Return a plan file's content; `-` reads stdin, which can be only one of all that is read."""
    if files.STDIN == path in (context.target.from_file, other):
        what = "Two plans" if path == other else "The plan and the cluster"
        raise UsageError(
            f"{what} cannot both come from stdin.", next="Name a file for one of them."
        )
    return read_document(path)


def apply_command(file: Path, state: ClusterState, plan: Plan) -> str:
    """Return the command that applies a file of this plan, with the leaders that it names."""
    # Without an election who leads now goes on leading.
    elects = " --elect" if count_waiting_for_election(state, plan) else ""
    return f"trimtab apply {file}{elects}"


def with_dirs(ids: Sequence[int], log_dirs: Sequence[str | None]) -> str:
    """Return broker ids as 1,2:/disk-2,3, with the log dirs that are named or known."""
    if len(log_dirs) != len(ids):
        return id_list(ids)
    pairs = zip(ids, log_dirs, strict=True)
    return ",".join(f"{b}:{path}" if path not in (None, ANY) else str(b) for b, path in pairs)
