"""`trimtab verify PLAN`: is the cluster as the plan says? Exit 6 when it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options, plan_argument
from core.cli.common.output import Answer
from core.cli.plan.plan_file import read_plan_document
from core.cluster.client import ClusterClient
from core.cluster.log_dirs import with_log_dirs
from core.cluster.state import ClusterState
from core.errors import ExitCode
from core.plan.formats.plan_document import PlanDocument
from core.plan.formats.plan_file import refuse_other_cluster
from core.plan.verify import Verification, VerifyStatus
from core.plan.verify import verify as verify_targets
from core.units import counted


@click.command(cls=Command)
@plan_argument
@answer_options
@click.pass_obj
def verify(context: Context, plan_file: Path, answer: Answer) -> int:
    """Check that the cluster matches a plan.

    Every partition must have the planned replicas, in order, in sync, and in the log dirs that the
    plan names. Nothing is changed: unlike Kafka's --verify, it removes no throttle. Exit code 6
    when a partition does not match.
    """
    document = read_plan_document(context, plan_file)
    context.require_target()
    if context.target.from_file is not None:
        state, _ = context.picture()
        state.require_known_moves()
    else:
        with context.connected() as connection:
            state = _fetch_state(connection.client, document)
    refuse_other_cluster(document, state)
    verifications = verify_targets(state, document.targets, document.log_dirs)
    open_ones = [v for v in verifications if v.status is not VerifyStatus.DONE]
    count = counted(len(verifications), "partition")
    end = f"{len(open_ones):,} of {count} not as planned.\n"
    answer.write(
        lambda: {"verified": not open_ones, "partitions": [_document(v) for v in verifications]},
        lambda: (
            "".join(f"{v.sentence}\n" for v in open_ones) + end
            if open_ones
            else f"{count} as planned, all in sync.\n"
        ),
    )
    return ExitCode.NO if open_ones else ExitCode.DONE


def _document(verification: Verification) -> dict[str, Any]:
    expected = verification.expected_log_dirs
    dirs: dict[str, Any] = {}
    if expected is not None:
        dirs = {"expected_log_dirs": list(expected), "log_dirs": list(verification.log_dirs)}
    return {
        **verification.tp._asdict(),
        "standing": verification.status.value,
        "expected": list(verification.expected),
        "replicas": list(verification.replicas),
        "isr": list(verification.isr),
        **dirs,
    }


def _fetch_state(client: ClusterClient, document: PlanDocument) -> ClusterState:
    """Return the cluster, with log dirs where the plan names any."""
    state = client.describe_cluster()
    state.require_known_moves()
    named = {b for tp in document.log_dirs for b in document.targets[tp]}
    alive = sorted(b.id for b in state.brokers if b.alive and b.id in named)
    return with_log_dirs(state, client.describe_log_dirs(alive)) if alive else state
