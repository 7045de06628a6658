"""`trimtab plan suggest`: a whole plan for what is wanted, with the reason for every move."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core import files
from core.cli.context import Context, emit, json_option, output_option, say, write_text
from core.cli.table import brokers as broker_list
from core.cli.table import table
from core.errors import ExitCode, UsageError
from core.plan.check import Severity, check_plan
from core.plan.estimate import Estimate
from core.plan.plan import Move
from core.plan.reassignment import dump, to_document
from core.plan.topics_to_move import read_topics, refuse_unknown
from core.units import (
    format_bytes,
    format_duration,
    format_rate,
    parse_duration,
    parse_size,
)

if TYPE_CHECKING:
    from core.cluster.state import ClusterState, TopicPartition
    from core.load.snapshot import Load
    from core.plan.planner.told import Suggested
    from core.plan.planner.wanted import Wanted

ROWS = 15
"""Moves that are printed, those that help most for their bytes first."""


@click.command()
@click.option("--leaders", is_flag=True, help="Only choose leaders anew; nothing is copied.")
@click.option("--drain", metavar="IDS", help="Take everything off these brokers.")
@click.option("--add", metavar="IDS", help="Fill these brokers, and move nothing elsewhere.")
@click.option("--replace", metavar="OLD:NEW", help="Put all that one broker holds on another.")
@click.option("--racks", is_flag=True, help="Only repair replicas that share a rack needlessly.")
@click.option("--rf", metavar="N", type=click.IntRange(1), help="Give partitions N replicas.")
@click.option("--disks", is_flag=True, help="Even out log dirs; move nothing between brokers.")
@click.option("--topics", metavar="REGEX", help="Touch only these topics.")
@click.option(
    "--topics-to-move",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Touch only the topics that Kafka's topics-to-move JSON names.",
)
@click.option("--brokers", metavar="IDS", help="Have those topics on these brokers only, evenly.")
@click.option("--ignore-racks", is_flag=True, help="Plan as if brokers had no racks.")
@click.option("--keep", metavar="REGEX", help="Leave these topics as they are.")
@click.option("--exclude", metavar="IDS", help="Leave these brokers as they are.")
@click.option("--band", metavar="PERCENT", type=click.FloatRange(1, 50), default=10.0)
@click.option("--max-bytes", metavar="SIZE", help="Copy no more than this.")
@click.option("--max-moves", metavar="N", type=click.IntRange(1), help="Move no more replicas.")
@click.option(
    "--max-per-broker",
    metavar="N",
    type=click.IntRange(1),
    help="Let no broker give and take more replicas than this in all.",
)
@click.option("--within", metavar="TIME", help="Say which throttle ends it in this time.")
@click.option("--time-budget", metavar="TIME", help="Plan no longer than this; the best so far.")
@json_option
@output_option
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
    within: str | None,
    time_budget: str | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Suggest a plan that evens the brokers out, with as few bytes as can be.

    Without options: disk, in, out, replicas and leaders of every broker within 10 % of its fair
    share, racks kept. Leaders are chosen anew first; data move only where that is not enough.
    What is asked for together is done together: --drain 3 --add 7,8 takes all off 3, to 7 and 8
    first.
    -o FILE writes the plan. Exit 6 when the goal cannot be reached; the plan is then the best
    there is.
    """
    from core.plan.planner.limits import Limits
    from core.plan.planner.outcome import is_reached, time_of
    from core.plan.planner.planner import suggest as find_plan
    from core.plan.planner.wanted import Wanted
    from core.plan.planner.wishes import broker_ids, broker_pairs

    if topics is not None and topics_to_move is not None:
        raise UsageError(
            "--topics and --topics-to-move exclude each other.", next="Give one of the two."
        )
    if topics_to_move == context.target.from_file == files.STDIN:
        raise UsageError(
            "The topics and the cluster cannot both come from stdin.",
            next="Name a file for one of them.",
        )
    named = read_topics(topics_to_move) if topics_to_move is not None else ()
    wanted = Wanted(
        leaders_only=leaders,
        drain=broker_ids(drain, "--drain"),
        fill=broker_ids(add, "--add"),
        replace=broker_pairs(replace, "--replace"),
        racks_only=racks,
        replicas=rf,
        brokers=broker_ids(brokers, "--brokers"),
        ignore_racks=ignore_racks,
        exclude=broker_ids(exclude, "--exclude"),
        topics="|".join(map(re.escape, named)) or topics,
        keep=keep,
        band=band / 100,
        limits=Limits(
            most_bytes=parse_size(max_bytes) if max_bytes else float("inf"),
            most_moves=max_moves or float("inf"),
            most_per_broker=max_per_broker or float("inf"),
            seconds_left=_until(time_budget),
        ),
    )
    seconds = parse_duration(within) if within else None
    state, load = context.picture()
    refuse_unknown(state, named)
    if disks:
        return _even_dirs(state, load, wanted, seconds, as_json=as_json, output=output)
    found = find_plan(state, load, wanted)
    estimate = time_of(state, load, found.plan, seconds)
    reached = is_reached(found, wanted)
    doubts = check_plan(state, load, found.plan)
    allow = list(dict.fromkeys(f.id for f in doubts if f.severity is Severity.UNSAFE))
    if as_json:
        emit(_document(found, estimate, reached) | {"allow": allow}, output)
    else:
        write_text(_text(found, wanted, estimate, reached, seconds), None)
        if output is not None and found.plan.moves:
            write_text(dump(found.plan), output)
        if found.plan.moves:
            say(_next(output, allow))
    return ExitCode.DONE if reached and not (estimate and estimate.never) else ExitCode.NO


def _even_dirs(
    state: ClusterState,
    load: Load,
    wanted: Wanted,
    seconds: float | None,
    *,
    as_json: bool,
    output: Path | None,
) -> int:
    """Suggest a plan between the log dirs of each broker."""
    from core.cli import suggest_disks
    from core.plan.planner.disks import even_dirs
    from core.plan.planner.outcome import time_of

    found = even_dirs(state, wanted)
    estimate = time_of(state, load, found.plan, seconds)
    doubts = check_plan(state, load, found.plan)
    allow = list(dict.fromkeys(f.id for f in doubts if f.severity is Severity.UNSAFE))
    if as_json:
        emit(suggest_disks.document(found, estimate) | {"allow": allow}, output)
    else:
        write_text(suggest_disks.text(found, wanted.band, estimate), None)
        if found.plan.moves:
            if output is not None:
                write_text(dump(found.plan), output)
            say(_next(output, allow))
    never = estimate is not None and bool(estimate.never)
    return ExitCode.DONE if found.reached and not never else ExitCode.NO


def _next(output: Path | None, allow: list[str]) -> str:
    """Say what is done with the plan: kept, and applied."""
    apply = f"trimtab apply {output or 'plan.json'}"
    if allow:
        apply += f" --allow {','.join(allow)}"
    return (
        f"Written to {output}: {apply}" if output else f"Keep it with -o plan.json, then: {apply}"
    )


def _until(time_budget: str | None) -> Callable[[], float]:
    """Return what says how many seconds are left of a budget that begins now."""
    if time_budget is None:
        return lambda: float("inf")
    end = time.monotonic() + parse_duration(time_budget)
    return lambda: end - time.monotonic()


# -- as JSON -------------------------------------------------------------------------------------


def _document(found: Suggested, estimate: Estimate | None, reached: bool) -> dict[str, Any]:
    rate = None
    if estimate is not None:
        rate = estimate.recommended_bytes_per_s or estimate.rate_bytes_per_s
    return {
        "moves": found.moves,
        "leader_moves": found.leader_moves,
        "bytes": found.bytes,
        "before": _shares(found, found.before),
        "after": _shares(found, found.after),
        "seconds": None if estimate is None or estimate.seconds is None else estimate.seconds,
        "rate_bytes_per_s": rate,
        "never": estimate.never if estimate else None,
        "reached": reached,
        "notes": list(found.notes),
        "reasons": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "broker": why.broker,
                "measure": why.measure.name.lower(),
                "before": round(max(why.before, 0.0), 4),
                "after": round(max(why.after, 0.0), 4),
            }
            for tp, why in sorted(found.because.items())
        ],
        "plan": to_document(found.plan),
    }


def _shares(found: Suggested, loads: Any) -> dict[str, Any]:
    """Return every broker's measures in fair shares, 1 is even; unknown measures are null."""
    from core.plan.planner.measures import SHOWN

    return {
        "brokers": [
            {
                "broker": broker,
                **{
                    measure.name.lower(): round(max(float(loads[row, measure]), 0.0), 4)
                    if found.active[measure]
                    else None
                    for measure in SHOWN
                },
            }
            for row, broker in enumerate(found.brokers)
            if found.counts[row]
        ]
    }


# -- as text -------------------------------------------------------------------------------------


def _text(
    found: Suggested,
    wanted: Wanted,
    estimate: Estimate | None,
    reached: bool,
    within: float | None,
) -> str:
    lines = [f"{note}\n" for note in found.notes]
    if not found.plan.moves:
        why = (
            "Nothing to do: it is so already." if reached else "No move helps within these limits."
        )
        return "".join(lines) + why + "\n"
    lines.append(_measures_text(found))
    lines.append("\n")
    lines.append(_moves_text(found))
    copies = f"{found.moves} {'partition' if found.moves == 1 else 'partitions'} to copy"
    lines.append(
        f"{copies} ({format_bytes(found.bytes)}), {found.leader_moves} with another preferred "
        f"leader{_time_text(estimate)}.\n"
    )
    if estimate is not None and estimate.never:
        lines.append(
            f"{estimate.never}\nGive --within longer, or --max-bytes to plan a part of it.\n"
            if within is not None
            else f"{estimate.never}\n"
        )
    if not reached and not found.undone:
        who = "Not every broker that is added" if wanted.fill else "Not every broker"
        lines.append(
            f"{who} gets within {wanted.band:.0%} of its share; "
            "this is the best within the limits.\n"
        )
    return "".join(lines)


def _time_text(estimate: Estimate | None) -> str:
    if estimate is None or estimate.never:
        return ""
    if estimate.seconds is None:
        return "; how long it takes is not known"
    rate = estimate.recommended_bytes_per_s or estimate.rate_bytes_per_s
    about = "about" if estimate.range_seconds else "at least"
    return f"; {about} {format_duration(estimate.seconds)} at {format_rate(rate)}"


def _measures_text(found: Suggested) -> str:
    """Return for each measure the emptiest and the fullest broker, now and then."""
    from core.plan.planner.measures import SHOWN

    rows = []
    for measure in SHOWN:
        if not found.active[measure]:
            rows.append((measure.words, "unknown", ""))
            continue
        now, then = (loads[found.counts, measure] for loads in (found.before, found.after))
        rows.append(
            (
                measure.words,
                f"{now.min():.0%} … {now.max():.0%}",
                f"{then.min():.0%} … {then.max():.0%}",
            )
        )
    return table(("of a fair share", "now", "planned"), rows, right=" >>")


def _moves_text(found: Suggested) -> str:
    moves = sorted(found.plan, key=lambda move: _worth(found, move))
    rows = [
        (
            str(move.tp),
            broker_list(move.before),
            broker_list(move.after),
            found.because[move.tp].words,
        )
        for move in moves[:ROWS]
    ]
    more = len(moves) - len(rows)
    text = table(("partition", "now", "planned", "for"), rows)
    return text + (f"… and {more} more; --json has them all.\n" if more else "")


def _worth(found: Suggested, move: Move) -> tuple[bool, float, TopicPartition]:
    """Sort leader changes before copies, and first what helps the broker that is furthest off."""
    return (move.moves_data, -abs(found.because[move.tp].before - 1), move.tp)
