"""Starts the run of a plan that was decided on, as `apply` does: checked, estimated, adaptive."""

from __future__ import annotations

from dataclasses import replace

from core.auto.observed import Observed
from core.auto.reckoning import reckoned
from core.auto.switch import Switch
from core.plan.check import check_plan, never_finding, refuse
from core.plan.estimate_document import to_json
from core.plan.plan import Plan
from core.run.creation import RunOptions
from core.run.prepare import prepared
from core.run.service import start_run

NOTE = "by the autopilot"


def start(switch: Switch, observed: Observed, plan: Plan) -> str:
    """Start a run that adapts its rate to how producers fare; return its id.

    Raises RefusedError for what a check says, BusyError beside another run, and TrimtabError when
    the run does not come up.
    """
    assert observed.sight is not None
    state, load = observed.state, observed.sight.load
    bounds, estimate = reckoned(switch.settings, observed, plan)
    flying = observed.reassignments
    findings = [*check_plan(state, load, plan, reassignments=flying, seconds=estimate.seconds)]
    if estimate.never:
        findings.append(never_finding(estimate.never))
    refuse(findings)
    options = RunOptions(
        rate_bytes_per_s=estimate.rate_bytes_per_s,
        cluster_name=switch.name,
        auto=bounds,
        elect=True,
    )
    options = prepared(options, state, load, plan)
    noted = replace(plan, notes=(*plan.notes, NOTE))
    return start_run(switch.address, state.cluster_id, noted, options, to_json(estimate))
