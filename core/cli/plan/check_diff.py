"""`trimtab plan check | diff | inverse`: plan files against a cluster, each other, and undone."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click

from core.cli.common.context import Context
from core.cli.common.options import Group, allow_option, json_option, output_option, plan_argument
from core.cli.common.output import emit, say, write_data, write_text
from core.cli.plan.impact import impact
from core.cli.plan.place import place
from core.cli.plan.plan_file import fetch_if_named, read_plan_document, with_dirs
from core.cli.plan.rebase import rebase
from core.cli.plan.show import show
from core.cli.plan.suggest import suggest
from core.cluster.metadata import TopicPartition
from core.errors import ExitCode
from core.plan.checks.brokers import find_skipped, skipped_sentences
from core.plan.checks.catalogue import Finding, Severity, parse_allow
from core.plan.checks.check_plan import CheckedPlan, in_flight
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.rate_table import estimate_plan_time, simulated_seconds
from core.plan.formats.plan_file import (
    PlanDocument,
    bind_document,
    format_plan_file,
    refuse_other_cluster,
)
from core.plan.plan import Plan
from core.plan.verify import VerifyStatus, verify
from core.run.reporting.runs import calibration
from core.text.tables import text_table
from core.units import counted, format_duration, format_rate, parse_rate


class Difference(NamedTuple):
    """Replicas in the one and in the other; empty where one does not name the partition.

    Log dirs are one for each replica, empty where none is asked for.
    """

    tp: TopicPartition
    first: tuple[int, ...]
    second: tuple[int, ...]
    status: VerifyStatus | None = None
    first_dirs: tuple[str | None, ...] = ()
    second_dirs: tuple[str, ...] = ()


@click.group(cls=Group)
def plan() -> None:
    """Suggest, check, compare and convert plans.

    A plan is a Kafka reassignment JSON file; - for stdin.
    """


plan.add_command(suggest)
plan.add_command(place)
plan.add_command(impact)
plan.add_command(rebase)
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
@json_option
@output_option
@click.pass_obj
def check(
    context: Context,
    plan_file: Path,
    throttle: str | None,
    allow: str | None,
    as_json: bool,
    output: Path | None,
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
        at = estimate_plan_time(state, load, plan, None, known)
    else:
        at = estimate_at(state, load, plan, rate, calibration=known)
    seconds = simulated_seconds(at)
    checked = CheckedPlan(state, load, plan, in_flight(state))
    findings = checked.after(seconds, None if at is None else at.never)
    reckoned = at if seconds is not None or (at is not None and at.never) else None
    refused = [f for f in findings if _forbids(f, allowed)]
    blind = find_skipped(state, plan.moves)
    if as_json:
        emit(
            {
                "ok": not refused,
                "not_compared": [
                    {"id": id, "brokers": list(brokers)} for id, brokers in blind.items()
                ],
                "rate_bytes_per_s": None if reckoned is None else reckoned.timed_bytes_per_s,
                "seconds": None if seconds is None else round(seconds, 1),
                "findings": [
                    {
                        "id": f.id,
                        "severity": f.severity.name.lower(),
                        "sentence": f.sentence,
                        "allowed": not _forbids(f, allowed),
                        "partitions": [tp._asdict() for tp in f.partitions],
                    }
                    for f in findings
                ],
            },
            output,
        )
    else:
        text = _findings_text(plan, findings, allowed)
        text += "".join(textwrap.fill(one, 79) + "\n" for one in skipped_sentences(state, blind))
        write_text(text + _reckoned_text(reckoned, asked=rate is not None), output)
    return ExitCode.NO if refused else ExitCode.DONE


def _reckoned_text(at: Estimate | None, *, asked: bool) -> str:
    """Say at which rate it was checked: that decides how much grows until it has ended."""
    if at is None or not at.rows:
        return ""
    rate = "no throttle" if at.timed_bytes_per_s < 0 else format_rate(at.timed_bytes_per_s)
    begins = "" if asked else ", the rate that apply chooses"
    takes = "never ends" if at.never else format_duration(at.seconds)
    return f"Checked at {rate}{begins}: {takes}.\n"


def _forbids(found: Finding, allowed: frozenset[str]) -> bool:
    if found.severity is Severity.UNSAFE:
        return found.id not in allowed
    return found.severity is Severity.ILLEGAL


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
    stop = [f.id for f in findings if _forbids(f, allowed)]
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
@json_option
@output_option
@click.pass_obj
def diff(
    context: Context, plan_file: Path, other: Path | None, as_json: bool, output: Path | None
) -> None:
    """Compare a plan with the cluster, or with OTHER, another plan."""
    document = read_plan_document(context, plan_file, other)
    if other is not None:
        second = read_plan_document(context, other)
        rows = [
            one
            for tp in sorted(document.targets.keys() | second.targets.keys())
            if _differs(one := _between(document, second, tp))
        ]
    else:
        state, _ = context.picture()
        refuse_other_cluster(document, state)
        rows = [
            Difference(
                v.tp, v.replicas, v.expected, v.status, v.log_dirs, v.expected_log_dirs or ()
            )
            for v in verify(state, document.targets, document.log_dirs)
            if v.status is not VerifyStatus.DONE
        ]
    if as_json:
        emit({"differences": [_difference_document(row) for row in rows]}, output)
        return
    names = ("now", "planned") if other is None else (plan_file.name, other.name)
    lines = [
        (
            str(r.tp),
            with_dirs(r.first, r.first_dirs) or "-",
            with_dirs(r.second, r.second_dirs) or "-",
            r.status.value if r.status else "",
        )
        for r in rows
    ]
    count = f"{len(rows):,} {'partition differs' if len(rows) == 1 else 'partitions differ'}.\n"
    write_text(
        text_table(("partition", *names, ""), lines) + count if rows else "No difference.\n", output
    )


@plan.command()
@plan_argument
@json_option
@output_option
@click.pass_obj
def inverse(context: Context, plan_file: Path, as_json: bool, output: Path | None) -> None:
    """Write the plan that undoes a plan."""
    there = fetch_if_named(context)
    plan = bind_document(read_plan_document(context, plan_file), there[0] if there else None)
    if not as_json:
        say(f"{counted(len(plan), 'partition')} back.")
    write_data(format_plan_file(plan.inverse()), output)


def _between(one: PlanDocument, other: PlanDocument, tp: TopicPartition) -> Difference:
    targets, log_dirs = (one.targets, other.targets), (one.log_dirs, other.log_dirs)
    first, second = (found.get(tp, ()) for found in targets)
    first_dirs, second_dirs = (found.get(tp, ()) for found in log_dirs)
    return Difference(tp, first, second, None, first_dirs, second_dirs)


def _differs(one: Difference) -> bool:
    return one.first != one.second or one.first_dirs != one.second_dirs


def _difference_document(row: Difference) -> dict[str, Any]:
    return {
        **row.tp._asdict(),
        "first": list(row.first),
        "second": list(row.second),
        "standing": row.status.value if row.status else None,
    } | (
        {"first_log_dirs": list(row.first_dirs), "second_log_dirs": list(row.second_dirs)}
        if row.first_dirs or row.second_dirs
        else {}
    )
