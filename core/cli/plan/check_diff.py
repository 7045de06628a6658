"""`trimtab plan check | diff | inverse | rebase`: plan files against a cluster or each other."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click

from core.cli.common.context import Context
from core.cli.common.options import Group, allow_option, answer_options, plan_argument
from core.cli.common.output import Answer, emit, say, write_data, write_text
from core.cli.plan.impact import impact
from core.cli.plan.place import place
from core.cli.plan.plan_file import (
    apply_command,
    fetch_if_named,
    read_plan_document,
    with_dirs,
)
from core.cli.plan.show import show
from core.cli.plan.suggest import suggest
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import ExitCode
from core.plan.checks.brokers import find_skipped, skipped_sentences
from core.plan.checks.catalogue import Finding, Severity, parse_allow
from core.plan.checks.check_plan import CheckedPlan, in_flight
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.rate_table import estimate_plan_time, simulated_seconds
from core.plan.formats.plan_document import PlanDocument
from core.plan.formats.plan_file import (
    bind_document,
    format_plan_file,
    refuse_other_cluster,
    to_document,
)
from core.plan.plan import Plan
from core.plan.rebase import RebasedPlan, rebase
from core.plan.verify import VerifyStatus, verify
from core.run.reporting.runs import calibration
from core.text.tables import text_table
from core.units import counted, format_duration, format_rate, id_list, parse_rate


class Target(NamedTuple):
    """Replicas, and a log dir for each; empty where a plan does not name them."""

    replicas: tuple[int, ...]
    log_dirs: tuple[str | None, ...]


class Difference(NamedTuple):
    tp: TopicPartition
    first: Target
    second: Target
    status: VerifyStatus | None = None


@click.group(cls=Group)
def plan() -> None:
    """Suggest, check, compare and convert plans.

    A plan is a Kafka reassignment JSON file; - for stdin.
    """


plan.add_command(suggest)
plan.add_command(place)
plan.add_command(impact)
plan.add_command(show)


@plan.command()
@plan_argument
@click.option(
    "--throttle",
    metavar="RATE",
    help=(
        "Check the plan at this throttle, like 50MB/s (default: the rate that `apply` would "
        "choose)."
    ),
)
@allow_option
@answer_options
@click.pass_obj
def check(
    context: Context, plan_file: Path, throttle: str | None, allow: str | None, answer: Answer
) -> int:
    """Check a plan against the cluster and print findings, worst first.

    Exit code 6 when `apply` would refuse it, 2 when it names topics or brokers that do not exist.
    """
    allowed = parse_allow(allow)
    rate = None if throttle is None else parse_rate(throttle)
    document = read_plan_document(context, plan_file)
    state, load = context.picture()
    state.require_known_moves()
    plan = bind_document(document, state)
    known = calibration(state.cluster_id)
    if rate is None:
        estimate = estimate_plan_time(state, load, plan, None, known)
    else:
        estimate = estimate_at(state, load, plan, rate, calibration=known)
    seconds = simulated_seconds(estimate)
    never = None if estimate is None else estimate.never
    findings = CheckedPlan(state, load, plan, in_flight(state)).after(seconds, never)
    if seconds is None and not never:
        estimate = None
    refused = [f for f in findings if _is_forbidden(f, allowed)]
    blind = find_skipped(state, plan.moves)
    if answer.as_json:
        emit(
            {
                "ok": not refused,
                "not_compared": [
                    {"id": id, "brokers": list(brokers)} for id, brokers in blind.items()
                ],
                "rate_bytes_per_s": None if estimate is None else estimate.timed_bytes_per_s,
                "seconds": None if seconds is None else round(seconds, 1),
                "findings": [
                    {
                        "id": f.id,
                        "severity": f.severity.name.lower(),
                        "sentence": f.sentence,
                        "allowed": not _is_forbidden(f, allowed),
                        "partitions": [tp._asdict() for tp in f.partitions],
                    }
                    for f in findings
                ],
            },
            answer.output,
        )
    else:
        text = _findings_text(plan, findings, allowed)
        text += "".join(
            textwrap.fill(sentence, 79) + "\n" for sentence in skipped_sentences(state, blind)
        )
        write_text(text + _rate_text(estimate, is_given=rate is not None), answer.output)
    return ExitCode.NO if refused else ExitCode.DONE


def _rate_text(estimate: Estimate | None, *, is_given: bool) -> str:
    """Say at which rate it was checked: that decides how much grows until it has ended."""
    if estimate is None or not estimate.rows:
        return ""
    bytes_per_s = estimate.timed_bytes_per_s
    rate = "no throttle" if bytes_per_s < 0 else format_rate(bytes_per_s)
    chosen = "" if is_given else ", the rate that apply chooses"
    takes = "never ends" if estimate.never else format_duration(estimate.seconds)
    return f"Checked at {rate}{chosen}: {takes}.\n"


def _is_forbidden(finding: Finding, allowed: frozenset[str]) -> bool:
    if finding.severity is Severity.UNSAFE:
        return finding.id not in allowed
    return finding.severity is Severity.ILLEGAL


def _findings_text(plan: Plan, findings: tuple[Finding, ...], allowed: frozenset[str]) -> str:
    moves = counted(len(plan), "move")
    if not findings:
        return f"{moves}, no findings.\n"
    lines = [
        f"{f.severity.name.lower():8}{f.id}"
        f"{' (allowed)' if f.id in allowed else ''}\n"
        f"{textwrap.indent(textwrap.fill(f.sentence, 71), ' ' * 8)}\n"
        for f in findings
    ]
    stop = [f.id for f in findings if _is_forbidden(f, allowed)]
    if any(f.severity is Severity.ILLEGAL for f in findings):
        end = f"{moves}: cannot be applied.\n"
    elif stop:
        end = f"{moves}: refused, unless --allow {','.join(dict.fromkeys(stop))}\n"
    else:
        end = f"{moves}: can be applied.\n"
    return "".join(lines) + end


@plan.command()
@plan_argument
@click.argument("other", required=False, type=click.Path(path_type=Path, allow_dash=True))
@answer_options
@click.pass_obj
def diff(context: Context, plan_file: Path, other: Path | None, answer: Answer) -> None:
    """Compare a plan with the cluster, or with OTHER, another plan."""
    document = read_plan_document(context, plan_file, other)
    if other is not None:
        second = read_plan_document(context, other)
        every = sorted(document.targets.keys() | second.targets.keys())
        both = (Difference(tp, _target(document, tp), _target(second, tp)) for tp in every)
        rows = [row for row in both if row.first != row.second]
    else:
        state, _ = context.picture()
        refuse_other_cluster(document, state)
        rows = [
            Difference(
                v.tp,
                Target(v.replicas, v.log_dirs),
                Target(v.expected, v.expected_log_dirs or ()),
                v.status,
            )
            for v in verify(state, document.targets, document.log_dirs)
            if v.status is not VerifyStatus.DONE
        ]
    if answer.as_json:
        emit({"differences": [_difference_document(row) for row in rows]}, answer.output)
        return
    names = ("now", "planned") if other is None else (plan_file.name, other.name)
    lines = [
        (
            str(r.tp),
            with_dirs(*r.first) or "-",
            with_dirs(*r.second) or "-",
            r.status.value if r.status else "",
        )
        for r in rows
    ]
    count = f"{len(rows):,} {'partition differs' if len(rows) == 1 else 'partitions differ'}.\n"
    table = text_table(("partition", *names, ""), lines)
    write_text(table + count if rows else "No difference.\n", answer.output)


@plan.command()
@plan_argument
@answer_options
@click.pass_obj
def inverse(context: Context, plan_file: Path, answer: Answer) -> None:
    """Write the plan that undoes a plan."""
    there = fetch_if_named(context)
    plan = bind_document(read_plan_document(context, plan_file), there[0] if there else None)
    if not answer.as_json:
        say(f"{counted(len(plan), 'partition')} back.")
    write_data(format_plan_file(plan.inverse()), answer.output)


def _target(plan: PlanDocument, tp: TopicPartition) -> Target:
    return Target(plan.targets.get(tp, ()), plan.log_dirs.get(tp, ()))


def _difference_document(row: Difference) -> dict[str, Any]:
    first, second = row.first, row.second
    dirs = {"first_log_dirs": list(first.log_dirs), "second_log_dirs": list(second.log_dirs)}
    return {
        **row.tp._asdict(),
        "first": list(first.replicas),
        "second": list(second.replicas),
        "standing": row.status.value if row.status else None,
        **(dirs if first.log_dirs or second.log_dirs else {}),
    }


@plan.command("rebase")
@plan_argument
@answer_options
@click.pass_obj
def rebase_plan(context: Context, plan_file: Path, answer: Answer) -> int:
    """Rebase a plan on the present state of the cluster.

    Keeps the moves that still apply, drops those that are done or in flight, and lists those that
    have become impossible with the reason. -o FILE writes the new plan. Exit code 6 when a move was
    lost.
    """
    document = read_plan_document(context, plan_file)
    state, _ = context.picture()
    plan = bind_document(document, state, loosely=True)
    outcome = rebase(state, plan)
    output = answer.output
    if answer.as_json:
        emit(_rebase_document(outcome), output)
    else:
        write_text(_rebase_text(outcome, plan), None)
        if output is not None:
            write_text(format_plan_file(outcome.plan), output)
        say(_next(outcome, state, output, plan_file))
    return ExitCode.NO if outcome.lost else ExitCode.DONE


def _rebase_text(outcome: RebasedPlan, plan: Plan) -> str:
    """Return what became of the moves that did not stay as they were, the lost ones first."""
    plans = outcome.plan.by_partition
    rows = [
        *(
            (str(lost.tp), _replicas_before(plan, lost.tp), "", f"lost: it {lost.why}")
            for lost in outcome.lost
        ),
        *(
            (str(tp), id_list(plans[tp].before), id_list(plans[tp].after), "kept on a new base")
            for tp in outcome.moved
        ),
        *((str(tp), _replicas_before(plan, tp), "", "done, or on its way") for tp in outcome.done),
    ]
    moves = counted(len(plan), "move")
    if not rows:
        return f"{moves}: all of it holds as it is.\n"
    return text_table(("partition", "from", "to", ""), rows) + f"{moves}: {outcome.words}.\n"


def _replicas_before(plan: Plan, tp: TopicPartition) -> str:
    return id_list(plan.by_partition[tp].before)


def _next(outcome: RebasedPlan, state: ClusterState, output: Path | None, plan_file: Path) -> str:
    if not outcome.plan.moves:
        return "Nothing of it is left to apply."
    if output is not None:
        return f"Written to {output}: {apply_command(output, state, outcome.plan)}"
    if not outcome.changes:
        return f"Nothing to write: {apply_command(plan_file, state, outcome.plan)}"
    kept = Path("plan.json")
    return f"Keep it with -o {kept}, then: {apply_command(kept, state, outcome.plan)}"


def _rebase_document(outcome: RebasedPlan) -> dict[str, Any]:
    return {
        "kept": len(outcome.plan),
        "moved": [tp._asdict() for tp in outcome.moved],
        "done": [tp._asdict() for tp in outcome.done],
        "lost": [lost.tp._asdict() | {"why": lost.why} for lost in outcome.lost],
        "plan": to_document(outcome.plan),
    }
