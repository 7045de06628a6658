"""`trimtab estimate PLAN`: how long at a rate, how fast for a deadline, or a table of both."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import (
    Command,
    json_option,
    output_option,
    plan_argument,
    refuse_together,
)
from core.cli.common.output import emit, write_text
from core.cli.plan.estimate_chart import chart_text
from core.cli.plan.plan_file import bind_plan, read_plan_document
from core.errors import ExitCode
from core.plan.estimate.calibration import NOTHING_LEARNED
from core.plan.estimate.estimate import Estimate, SideRow, estimate_at, estimate_within
from core.plan.estimate.estimate_json import format_estimate, format_peak_usage, format_timeline
from core.plan.estimate.estimate_text import format_per_side_rates
from core.plan.estimate.plan_over_time import (
    PeakUsage,
    PlanTimeline,
    build_timeline,
    estimate_peak_usage,
)
from core.plan.estimate.rate_table import default_rate, rate_table, slower_reason
from core.run.reporting.runs import calibration
from core.text.tables import text_table
from core.units import (
    UNLIMITED,
    format_bytes,
    format_duration,
    format_rate,
    parse_deadline,
    parse_rate,
    parse_size,
)


def time_range(answer: Estimate) -> str:
    """Return `about 44 s (41 s to 48 s)`."""
    if answer.range_seconds is None:
        return "time unknown"
    low, high = answer.range_seconds
    return (
        f"about {format_duration(answer.seconds)} "
        f"({format_duration(low)} to {format_duration(high)})"
    )


ROWS = 15
"""Brokers and sides that are printed, those that need most first."""


@click.command(cls=Command)
@plan_argument
@click.option(
    "--throttle",
    metavar="RATE",
    help="Estimate the time at this throttle for each broker and side, like 50MB/s.",
)
@click.option(
    "--within", metavar="TIME", help="Find the throttle that ends in this time, like 10m."
)
@click.option(
    "--max-extra",
    metavar="SIZE",
    help="Estimate with this limit of `apply --max-extra`, like 50GB (default: no limit).",
)
@click.option(
    "--no-calibration",
    is_flag=True,
    help="Ignore what was learned from earlier runs on this cluster.",
)
@json_option
@output_option
@click.pass_obj
def estimate(
    context: Context,
    plan_file: Path,
    throttle: str | None,
    within: str | None,
    max_extra: str | None,
    no_calibration: bool,
    as_json: bool,
    output: Path | None,
) -> int:
    """Estimate how long a plan takes, or which throttle it needs.

    Without --throttle and --within, prints a table of rates. Exit code 6 when the plan never ends,
    5 when the time is unknown because a size is.
    """
    refuse_together(
        {"--throttle": throttle, "--within": within},
        "Give a throttle to get the time, or a time to get the throttle.",
    )
    rate = None if throttle is None else parse_rate(throttle)
    seconds = None if within is None else parse_deadline(within)
    extra = None if max_extra is None else parse_size(max_extra)
    planned = read_plan_document(context, plan_file)
    state, load = context.picture()
    plan = bind_plan(planned, state)
    unknown = state.partition_size_bytes < 0
    unsized = any(
        move.receiving and (row := state.find(move.tp)) is not None and unknown[row]
        for move in plan
    )
    known = NOTHING_LEARNED if no_calibration else calibration(state.cluster_id)
    is_table = rate is None and seconds is None
    if rate is not None:
        found = estimate_at(state, load, plan, rate, max_extra_bytes=extra, calibration=known)
        answers: tuple[Estimate, ...] = (found,)
    elif seconds is not None:
        found = estimate_within(
            state, load, plan, seconds, max_extra_bytes=extra, calibration=known
        )
        answers = (found,)
    else:
        answers = rate_table(state, load, plan, max_extra_bytes=extra, calibration=known) or (
            estimate_at(state, load, plan, UNLIMITED, max_extra_bytes=extra, calibration=known),
        )
    chosen = default_rate(answers) if is_table else None
    usages = [estimate_peak_usage(state, load, plan, row) for row in answers]
    at = next((i for i, row in enumerate(answers) if row.rate_bytes_per_s == chosen), 0)
    timeline = build_timeline(state, load, answers[at], usages[at].extra)
    if as_json:
        # How much is copied is not known where a size is not.
        total = {"total_bytes": None} if unsized else {}
        rows = [
            format_estimate(answer) | total | format_peak_usage(usage)
            for answer, usage in zip(answers, usages, strict=True)
        ]
        document: dict[str, Any] = (
            {"rates": rows, "default_bytes_per_s": chosen} if is_table else rows[0]
        )
        emit(document | {"timeline": format_timeline(timeline)}, output)
    elif is_table:
        write_text(_rates_text(answers, usages, chosen, timeline, unsized), output)
    else:
        write_text(_text(answers[0], usages[0], seconds, timeline, unsized), output)
    if all(row.never for row in answers):
        return ExitCode.NO
    return ExitCode.INCOMPLETE if unsized else ExitCode.DONE


def _text(
    answer: Estimate,
    usage: PeakUsage,
    within_seconds: float | None,
    timeline: PlanTimeline | None,
    unsized: bool,
) -> str:
    size = format_bytes(answer.total_bytes)
    if unsized:
        size = f"At least {size}" if answer.total_bytes else "How much is not known"
    if answer.never:
        first = f"Never. {answer.never}"
    elif answer.seconds is None:
        first = f"{size}, time unknown."
    elif within_seconds is not None and answer.recommended_bytes_per_s is not None:
        first = (
            f"{size} in {format_duration(within_seconds)}: throttle to "
            f"{format_exact_rate(answer.recommended_bytes_per_s)}, "
            f"which takes {calibrated_range(answer)}. "
            f"The closed form says {format_exact_rate(answer.rate_bytes_per_s)}."
        )
    elif not answer.rows:
        first = f"Nothing to copy: {time_range(answer)}."
    else:
        first = f"{size} at {format_rate(answer.rate_bytes_per_s)}: {calibrated_range(answer)}."
    lines = [first]
    if answer.limit and answer.rows:
        lines.append(f"The limit is what broker {answer.limit.broker} {answer.limit.side.does}.")
    if answer.per_side_rates:
        lines.append(format_per_side_rates(answer.per_side_rates))
    lines += usage.sentences
    if answer.note:
        lines.append(answer.note)
    lines = [wrapped(line) for line in lines]
    if not answer.rows:
        return "".join(lines)
    ordered = sorted(
        answer.rows, key=lambda row: (-(row.required_bytes_per_s or row.bytes), row.broker)
    )
    rows = [
        (
            str(row.broker),
            row.side.does,
            _at_least(row.bytes, format_bytes, row.sizes_unknown),
            _at_least(row.background_bytes_per_s, format_rate, row.rates_unknown),
            _at_least(
                row.required_bytes_per_s, format_rate, row.sizes_unknown or row.rates_unknown
            ),
            *(
                [format_rate(answer.limit_of(row.broker, row.side))]
                if answer.per_side_rates
                else ()
            ),
            format_duration(row.seconds),
        )
        for row in ordered[:ROWS]
    ]
    limits = ("limit",) if answer.per_side_rates else ()
    header = ("broker", "", "copies", "background", "needs", *limits, "done after")
    shown = text_table(header, rows, right="> >>>>" + ">" * len(limits)) + _more(ordered[ROWS:])
    return "\n".join(filter(None, ("".join(lines), shown, chart_text(timeline))))


def _at_least(amount: float | None, shown: Callable[[float | None], str], unknown: bool) -> str:
    if not unknown:
        return shown(amount)
    return f"at least {shown(amount)}" if amount else "?"


def _more(rows: Sequence[SideRow]) -> str:
    if not rows:
        return ""
    ends = [row.seconds for row in rows if row.seconds is not None]
    last = f"; done after {format_duration(max(ends))} at most" if len(ends) == len(rows) else ""
    return f"… and {len(rows)} more{last}; --json has them all.\n"


def _rates_text(
    rates: tuple[Estimate, ...],
    usages: Sequence[PeakUsage],
    chosen: int | None,
    timeline: PlanTimeline | None,
    unsized: bool,
) -> str:
    if len(rates) == 1:
        return _text(rates[0], usages[0], None, timeline, unsized)
    rows = [
        (
            "*" if row.rate_bytes_per_s == chosen else "",
            format_rate(row.rate_bytes_per_s),
            "never" if row.never else time_range(row),
            f"broker {row.limit.broker} {row.limit.side.does}" if row.limit else "",
        )
        for row in rates
    ]
    never = next((wrapped(row.never) for row in reversed(rates) if row.never), "")
    usage = "".join(wrapped(sentence) for sentence in _table_usage(rates, usages, chosen))
    note = wrapped(rates[0].note) if rates[0].note else ""
    sources = dict.fromkeys(row.calibration.words for row in rates if row.calibration is not None)
    words = " or ".join(sources)
    learned = wrapped(f"{words[0].upper()}{words[1:]}.") if words else ""
    why = slower_reason(rates)
    begin = f"* is where to begin{f', as {why}' if why else ''}"
    size = wrapped(f"{format_bytes(rates[0].total_bytes)} to copy; {begin}.") + "\n"
    times = text_table(("", "throttle", "takes", "limit"), rows, right=" >")
    over_time = chart_text(timeline)
    return size + times + learned + never + usage + note + (over_time and f"\n{over_time}")


def _table_usage(
    rates: Sequence[Estimate], usages: Sequence[PeakUsage], chosen: int | None
) -> Iterator[str]:
    """Yield from which rate on a broker comes near its capacity, and disks at the one to begin."""
    pairs = list(zip(rates, usages, strict=True))
    for row, usage in pairs:
        if usage.near_capacity is not None:
            yield (
                f"At {format_rate(row.rate_bytes_per_s)} {usage.near_capacity.words}; from there "
                "on clients there may wait longer."
            )
            break
    for row, usage in pairs:
        if row.rate_bytes_per_s == chosen:
            yield from replace(usage, near_capacity=None).sentences


def calibrated_range(answer: Estimate) -> str:
    """Return `about 44 s (41 s to 48 s), learned from 4 runs here: 3 % longer`."""
    learned = answer.calibration
    return time_range(answer) + (f", {learned.words}" if learned is not None else "")


def wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, 79) + "\n"


def format_exact_rate(rate: int) -> str:
    """Return a rate so that it can be typed back: three digits, rounded up."""
    for factor, unit in ((10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s")):
        if rate >= factor:
            return f"{-(-rate * 100 // factor) / 100:g}{unit}"
    return f"{rate}B/s"
