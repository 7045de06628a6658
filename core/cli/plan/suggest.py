"""`trimtab plan suggest`: a whole plan for a goal, with the reason for every move."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import click

from core import files
from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options, refuse_together
from core.cli.common.output import Answer, emit, say, write_text
from core.cli.plan import suggest_output
from core.cli.plan.estimate import format_exact_rate
from core.cli.plan.plan_file import apply_command
from core.cluster.state import ClusterState
from core.errors import ExitCode, UsageError
from core.load.load import Load
from core.patterns import matching
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import CheckedPlan, in_flight
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.plan_over_time import PeakUsage, estimate_peak_usage
from core.plan.estimate.rate_table import estimate_plan_time, simulated_seconds
from core.plan.formats.plan_document import read_topics_to_move
from core.plan.formats.plan_file import format_plan_file, refuse_unknown_topics
from core.plan.plan import Plan
from core.plan.planner.log_dir_balancing import LogDirPlan, balance_log_dirs
from core.plan.planner.plan_request import (
    NO_LIMITS,
    Limits,
    PlanRequest,
    parse_broker_ids,
    parse_broker_pairs,
)
from core.plan.planner.plan_result import PlanResult, is_reached
from core.plan.planner.planner import suggest_plan as find_plan
from core.run.reporting.runs import calibration
from core.units import parse_deadline, parse_duration, parse_size

STEADY_SECONDS = 0.1
"""The pace counts from the first look on as if so much had been worked alone before."""


class TimeBudget:
    """So many seconds from `began` (monotonic); each call says how many are left to work with.

    In seconds of this thread's processor time, as what is still to be done is known in those: who
    shares the processor with others gets as much less done until the end.
    """

    def __init__(
        self,
        seconds: float,
        began: float,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        self._end, self._now, self._used = began + seconds, now, used
        self._first: tuple[float, float] | None = None

    def __call__(self) -> float:
        now, used = self._now(), self._used()
        if self._first is None:
            self._first = now, used
        since, before = self._first
        pace = (now - since + STEADY_SECONDS) / (used - before + STEADY_SECONDS)
        return (self._end - now) / max(1.0, pace)


@click.command(cls=Command)
@click.option("--leaders", is_flag=True, help="Only change preferred leaders; no data moves.")
@click.option("--drain", metavar="IDS", help="Move all replicas off these brokers, like 3 or 3,5.")
@click.option("--add", metavar="IDS", help="Move replicas to these new brokers only, like 7,8.")
@click.option(
    "--replace", metavar="OLD:NEW", help="Move all replicas of one broker to another, like 3:7."
)
@click.option(
    "--racks",
    is_flag=True,
    help="Only move replicas that share a rack although another one is free.",
)
@click.option(
    "--rf",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    help="Change the replication factor to N.",
)
@click.option(
    "--disks",
    is_flag=True,
    help="Balance the log dirs of each broker; without another goal, only those.",
)
@click.option(
    "--balance", is_flag=True, help="Balance the brokers; the default without another goal."
)
@click.option(
    "--topics", metavar="REGEX", help="Only move topics whose whole name matches (default: all)."
)
@click.option(
    "--topics-to-move",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Only move the topics in this file, JSON as for Kafka's --topics-to-move-json-file.",
)
@click.option("--brokers", metavar="IDS", help="Place these topics on these brokers only, evenly.")
@click.option("--ignore-racks", is_flag=True, help="Ignore the racks of brokers.")
@click.option("--keep", metavar="REGEX", help="Do not move topics whose whole name matches.")
@click.option("--exclude", metavar="IDS", help="Do not change these brokers.")
@click.option(
    "--band",
    metavar="PERCENT",
    type=click.FloatRange(1, 50),
    default=10.0,
    show_default=True,
    help="Allowed deviation of a broker from its fair share.",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Maximum number of bytes to copy, like 500GB (default: no limit).",
)
@click.option(
    "--max-moves",
    metavar="N",
    type=click.IntRange(1),
    help="Maximum number of replicas to move (default: no limit).",
)
@click.option(
    "--max-per-broker",
    metavar="N",
    type=click.IntRange(1),
    help="Maximum number of replicas that a broker may give and receive (default: no limit).",
)
@click.option(
    "--max-replicas",
    metavar="N",
    type=click.IntRange(1),
    help="Maximum number of replicas on a broker (default: no limit).",
)
@click.option(
    "--within",
    metavar="TIME",
    help="Also find the throttle with which the plan ends in this time, like 30m.",
)
@click.option(
    "--time-budget",
    metavar="TIME",
    help=(
        "Maximum time to search for a plan, like 20s; the best one found is printed (default: no "
        "limit)."
    ),
)
@answer_options
@click.pass_obj
def suggest(
    context: Context,
    leaders: bool,
    drain: str | None,
    add: str | None,
    replace: str | None,
    racks: bool,
    rf: int | None,
    disks: bool,
    balance: bool,
    topics: str | None,
    topics_to_move: Path | None,
    brokers: str | None,
    ignore_racks: bool,
    keep: str | None,
    exclude: str | None,
    band: float,
    max_bytes: str | None,
    max_moves: int | None,
    max_per_broker: int | None,
    max_replicas: int | None,
    within: str | None,
    time_budget: str | None,
    answer: Answer,
) -> int:
    """Suggest a plan that balances the brokers with as few bytes as possible.

    Without options, disk, bytes in, bytes out, replicas and leaders of every broker come within 10
    % of its fair share. Preferred leaders change first; data moves only where that is not enough.
    Goals combine: --drain 3 --add 7,8 moves all replicas off 3, to 7 and 8 first. With --disks,
    brokers are balanced first, then their log dirs.

    -o FILE writes the plan. Exit code 6 when the goal cannot be reached; the plan is then the best
    one found.
    """
    refuse_together({"--topics": topics, "--topics-to-move": topics_to_move})
    if topics_to_move == context.target.from_file == files.STDIN:
        raise UsageError(
            "The topics and the cluster cannot both come from stdin.",
            next="Name a file for one of them.",
        )
    named = read_topics_to_move(topics_to_move) if topics_to_move is not None else ()
    request = PlanRequest(
        leaders_only=leaders,
        drain=parse_broker_ids(drain, "--drain"),
        fill=parse_broker_ids(add, "--add"),
        replace=parse_broker_pairs(replace, "--replace"),
        racks_only=racks,
        disks=disks,
        balance=balance,
        replicas=rf,
        brokers=parse_broker_ids(brokers, "--brokers"),
        ignore_racks=ignore_racks,
        exclude=parse_broker_ids(exclude, "--exclude"),
        topics="|".join(map(re.escape, named)) or topics,
        keep=keep,
        max_replicas=max_replicas or float("inf"),
        band=band / 100,
        limits=Limits(
            max_bytes=float("inf") if max_bytes is None else parse_size(max_bytes),
            max_moves=max_moves or float("inf"),
            max_per_broker=max_per_broker or float("inf"),
            seconds_left=NO_LIMITS.seconds_left
            if time_budget is None
            else TimeBudget(parse_duration(time_budget), context.began),
        ),
    )
    seconds = None if within is None else parse_deadline(within)
    state, load = context.picture()
    refuse_unknown_topics(state, named)
    if keep is not None:
        matching(keep, "--keep", [topic.name for topic in state.topics], "topic")
    suggestion: PlanResult | LogDirPlan
    if request.only_dirs:
        suggestion = balance_log_dirs(state, request)
        reached = suggestion.reached
    else:
        suggestion = find_plan(state, load, request)
        reached = is_reached(suggestion, request)
    estimate, usage, allow = _estimate_effects(state, load, suggestion.plan, request, seconds)
    if answer.as_json:
        document = suggest_output.document(suggestion, estimate, usage, reached, state.hidden)
        emit(document | {"allow": allow}, answer.output)
    else:
        text = suggest_output.text(suggestion, request, estimate, usage, seconds)
        _write(text, state, suggestion.plan, answer.output, allow, estimate)
    never = estimate is not None and estimate.never
    return ExitCode.DONE if reached and not never else ExitCode.NO


def _estimate_effects(
    state: ClusterState, load: Load, plan: Plan, request: PlanRequest, seconds: float | None
) -> tuple[Estimate | None, PeakUsage, list[str]]:
    """Return how long a plan takes, what brokers bear, and the checks to allow for `apply`."""
    known, left = calibration(state.cluster_id), request.limits.seconds_left
    estimate = estimate_plan_time(state, load, plan, seconds, known, left)
    usage = PeakUsage() if estimate is None else estimate_peak_usage(state, load, plan, estimate)
    findings = CheckedPlan(state, load, plan, in_flight(state)).after(simulated_seconds(estimate))
    unsafe = dict.fromkeys(f.id for f in findings if f.severity is Severity.UNSAFE)
    return estimate, usage, list(unsafe)


def _write(
    text: str,
    state: ClusterState,
    plan: Plan,
    output: Path | None,
    allow: list[str],
    estimate: Estimate | None,
) -> None:
    """Print the suggestion, write its plan, and say how to apply it."""
    write_text(text, None)
    if output is not None:  # an empty one, too: a file that kept an older plan would be applied
        write_text(format_plan_file(plan), output)
    if not plan.moves:
        if output is not None:
            say(f"Written to {output}: an empty plan; there is nothing to apply.")
        return
    apply = apply_command(output or Path("plan.json"), state, plan)
    if estimate is not None and estimate.recommended_bytes_per_s is not None:
        apply += f" --throttle {format_exact_rate(estimate.recommended_bytes_per_s)}"
    if allow:
        apply += f" --allow {','.join(allow)}"
    say(f"Written to {output}: {apply}" if output else f"Keep it with -o plan.json, then: {apply}")
