"""Does what was decided: starts the run of a plan, or elects preferred leaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from core.autopilot.history import Situation
from core.autopilot.plan_choice import estimate_run
from core.autopilot.switch import Switch
from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_leader_elected
from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError
from core.plan.checks.catalogue import refuse
from core.plan.checks.check_plan import CheckedPlan
from core.plan.plan import Plan
from core.run.audited_client import audited
from core.run.engine.mover import BETWEEN_ELECTIONS_SECONDS
from core.run.engine.run_completion import MAX_ELECTED_AT_ONCE
from core.run.launch import launch
from core.run.options import RunOptions
from core.units import counted

NOTE = "by the autopilot"


def start_plan(switch: Switch, situation: Situation, plan: Plan) -> str:
    """Start a run that adapts its rate to how producers fare; return its id.

    Raises RefusedError for what a check says, BusyError beside another run, and TrimtabError when
    the run does not come up.
    """
    state, load = situation.state, situation.load_view.load
    bounds, estimate = estimate_run(situation, plan)
    in_flight = situation.observed.reassignments
    refuse(CheckedPlan(state, load, plan, in_flight).after(estimate.seconds, estimate.never))
    options = RunOptions(
        rate_bytes_per_s=estimate.rate_bytes_per_s,
        cluster_name=switch.name,
        auto=bounds,
        elect=True,
    )
    noted = replace(plan, notes=(*plan.notes, NOTE))
    return launch(switch.address, state, noted, options, estimate, load=load)


def elect_leaders(
    client: ClusterClient,
    clock: Clock,
    cluster_id: str,
    partitions: Sequence[TopicPartition],
    goes_on: Callable[[], bool],
) -> str:
    """Elect preferred leaders, some at a time as a run does, while it `goes_on`; say what came.

    Raises TrimtabError when not even the first could be asked for.
    """
    writer = audited(client, cluster_id, None)
    answers: dict[TopicPartition, Fault | None] = {}
    ended = ""
    for first in range(0, len(partitions), MAX_ELECTED_AT_ONCE):
        if first:
            clock.sleep(BETWEEN_ELECTIONS_SECONDS)
            if not goes_on():
                ended = " It was turned off then."
                break
        try:
            answers |= writer.elect_leaders(partitions[first : first + MAX_ELECTED_AT_ONCE])
        except TrimtabError as error:
            if not answers:
                raise
            ended = f" {error.title}"
            break
    left = {tp: fault for tp, fault in answers.items() if not is_leader_elected(fault)}
    many = counted(len(answers) - len(left), "partition")
    of = f" of {len(partitions)}" if len(answers) - len(left) < len(partitions) else ""
    why = "".join(f" {tp} was not: {fault}." for tp, fault in [*left.items()][:1])
    return f"{many}{of} given back.{why}{ended}"
