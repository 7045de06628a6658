"""`trimtab estimate PLAN`: how long at a rate, how fast for a deadline, a table or chart."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import (
    Command,
    answer_options,
    plan_argument,
    refuse_together,
)
from core.cli.common.output import Answer, emit, write_text
from core.cli.plan.plan_file import bind_plan, read_plan_document
from core.errors import ExitCode
from core.load.view.verdicts import DISK_LOOK
from core.plan.copies import Side
from core.plan.estimate.calibration import NOTHING_LEARNED
from core.plan.estimate.estimate import Estimate, SideRow, estimate_at, estimate_within
from core.plan.estimate.estimate_json import format_estimate, format_peak_usage, format_timeline
from core.plan.estimate.estimate_text import format_per_side_rates
from core.plan.estimate.near_capacity import NEAR_CAPACITY
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
@answer_options
@click.pass_obj
def estimate(
    context: Context,
    plan_file: Path,
    throttle: str | None,
    within: str | None,
    max_extra: str | None,
    no_calibration: bool,
    answer: Answer,
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
        projection = estimate_at(state, load, plan, rate, max_extra_bytes=extra, calibration=known)
        answers: tuple[Estimate, ...] = (projection,)
    elif seconds is not None:
        projection = estimate_within(
            state, load, plan, seconds, max_extra_bytes=extra, calibration=known
        )
        answers = (projection,)
    else:
        answers = rate_table(state, load, plan, max_extra_bytes=extra, calibration=known) or (
            estimate_at(state, load, plan, UNLIMITED, max_extra_bytes=extra, calibration=known),
        )
    chosen = default_rate(answers) if is_table else None
    usages = [estimate_peak_usage(state, load, plan, row) for row in answers]
    at = next((i for i, row in enumerate(answers) if row.rate_bytes_per_s == chosen), 0)
    timeline = build_timeline(state, load, answers[at], usages[at].extra)
    if answer.as_json:
        # How much is copied is not known where a size is not.
        total = {"total_bytes": None} if unsized else {}
        rows = [
            format_estimate(answer) | total | format_peak_usage(usage)
            for answer, usage in zip(answers, usages, strict=True)
        ]
        document: dict[str, Any] = (
            {"rates": rows, "default_bytes_per_s": chosen} if is_table else rows[0]
        )
        emit(document | {"timeline": format_timeline(timeline)}, answer.output)
    elif is_table:
        write_text(_rates_text(answers, usages, chosen, timeline, unsized), answer.output)
    else:
        write_text(_text(answers[0], usages[0], seconds, timeline, unsized), answer.output)
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
            f"which takes {calibrated_range(answer)}."
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
            _minimum_text(row.bytes, format_bytes, row.sizes_unknown),
            _minimum_text(row.background_bytes_per_s, format_rate, row.rates_unknown),
            _minimum_text(
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


def _minimum_text(amount: float | None, shown: Callable[[float | None], str], unknown: bool) -> str:
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
    usage = "".join(wrapped(sentence) for sentence in _usage_sentences(rates, usages, chosen))
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


def _usage_sentences(
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


def time_range(answer: Estimate) -> str:
    """Return `about 44 s (41 s to 48 s)`."""
    if answer.range_seconds is None:
        return "time unknown"
    low, high = map(format_duration, answer.range_seconds)
    return f"about {format_duration(answer.seconds)} ({low} to {high})"


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


LANES = 8
DISKS = 4
COLUMNS = 20
QUARTERS = " .:+#"
NEAR = "!"

SIDES = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}


def chart_text(timeline: PlanTimeline | None) -> str:
    """Return the lanes of the worst brokers at most 80 columns wide; "" where there are none."""
    if timeline is None:
        return ""
    shown = timeline.lanes[:LANES]
    rows = [
        (
            str(lane.broker),
            SIDES[lane.side],
            format_rate(lane.max_bytes_per_s),
            format_rate(lane.besides_bytes_per_s),
            "" if lane.max_fraction is None else f"{lane.max_fraction:.0%}",
            f"|{_drawn(lane.columns(COLUMNS, timeline.ends), timeline.max_bytes_per_s)}|",
            format_duration(lane.ends),
        )
        for lane in shown
    ]
    disks = timeline.disks[:DISKS]
    rows += [
        (
            str(disk.broker),
            "disk",
            f"+{format_bytes(disk.max_bytes)}",
            format_bytes(disk.used_bytes),
            "" if disk.max_fraction is None else f"{disk.max_fraction:.0%}",
            f"|{_drawn(disk.columns(COLUMNS, timeline.ends), timeline.max_disk_bytes)}|",
            format_duration(disk.ends),
        )
        for disk in disks
    ]
    marked = []
    if any(lane.is_near(lane.max_bytes_per_s) for lane in shown):
        marked.append(f"{NEAR_CAPACITY:.0%} of capacity")
    if any(disk.is_near(disk.max_bytes) for disk in disks):
        marked.append(f"{DISK_LOOK:.0%} of a disk")
    legend = (
        f"Over time: a column is {format_duration(timeline.ends / COLUMNS)}, "
        f". : + # are quarters of {format_rate(timeline.max_bytes_per_s)}"
        + (f", on disks of {format_bytes(timeline.max_disk_bytes)} more" if disks else "")
        + (f", and {NEAR} is {' or '.join(marked)} or more." if marked else ".")
    )
    header = ("broker", "", "at most", "besides", "in use", "", "until")
    text = textwrap.fill(legend, 79) + "\n\n"
    text += text_table(header, rows, right="> >>> >")
    if more := len(timeline.lanes) - len(shown):
        last = max(lane.ends for lane in timeline.lanes[LANES:])
        text += f"{more} more, the last of them until {format_duration(last)}.\n"
    if more := len(timeline.disks) - len(disks):
        highest = max(disk.max_bytes for disk in timeline.disks[DISKS:])
        text += f"The disks of {more} more, at most +{format_bytes(highest)}.\n"
    if len(timeline.batches) > 1:
        text += (
            f"Batches: {len(timeline.batches)}, "
            f"the last begins after {format_duration(timeline.batches[-1])}.\n"
        )
    return text


def _drawn(columns: Iterable[tuple[float, bool]], highest: float) -> str:
    """Return a character for each part of the whole time: its amount, or that it is too much."""
    quarters = ((math.ceil(4 * amount / highest - 0.001), near) for amount, near in columns)
    return "".join(NEAR if near else QUARTERS[min(quarter, 4)] for quarter, near in quarters)
