"""`trimtab replicas`: how far behind replicas are, and whether they hold the same records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from core.cli.common.context import Context, report_unknown
from core.cli.common.options import Group, answer_options
from core.cli.common.output import Answer, StatusLine, say
from core.cli.topics.topic_data import matching_topics
from core.errors import ExitCode, UsageError
from core.text.tables import text_table
from core.units import counted, format_bytes, format_duration, id_list, parse_duration, parse_size
from core.watch.replicas.compare import (
    Difference,
    DifferenceKind,
    PartitionResult,
    ReplicaStatus,
    Verification,
)
from core.watch.replicas.verify import Verifier, VerifyLimits

ROWS = 50
"""Partitions that are printed one by one; --json has them all."""
PROGRESS_SECONDS = 0.2


@click.group(cls=Group)
def replicas() -> None:
    """Compare the replicas of partitions."""


@replicas.command()
@click.option(
    "--topics", metavar="REGEX", required=True, help="Compare the topics whose whole name matches."
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    default="100GB",
    show_default=True,
    help="Stop after reading this many bytes.",
)
@click.option(
    "--for",
    "time_limit",
    metavar="TIME",
    default="10m",
    show_default=True,
    help="Stop after this time.",
)
@answer_options
@click.pass_obj
def verify(context: Context, topics: str, max_bytes: str, time_limit: str, answer: Answer) -> int:
    """Read all replicas and check that they hold the same records.

    Prints the largest lag of each partition, and corrupt, missing or different records with their
    broker, by majority. Compares up to the high watermarks at the start. Exit code 6 when replicas
    differ, 5 when something was not compared.
    """
    bounds = VerifyLimits(parse_duration(time_limit), parse_size(max_bytes))
    if not bounds.seconds:
        raise UsageError(
            "--for 0s leaves no time to compare.", next="Give a longer time, like --for 10m."
        )
    with context.connected() as connection:
        state = report_unknown(connection.client.describe_cluster())
        names = matching_topics(connection.client, state, topics, "--topics")
        rows = [row for name in names for row in state.partitions_of(name)]
        line = StatusLine(seconds=PROGRESS_SECONDS)

        def show(share: float, read_bytes: int) -> None:
            line.say(f"comparing: {share:.0%}, {format_bytes(read_bytes)} read")

        try:
            outcome = Verifier(connection.client, state, rows, bounds, connection.clock, show).run()
        finally:
            line.end()
    for note in outcome.notes:
        say(note)
    answer.write(lambda: _document(outcome), lambda: _text(outcome))
    if outcome.count(ReplicaStatus.DIFFERENT):
        return ExitCode.NO
    return ExitCode.INCOMPLETE if outcome.count(ReplicaStatus.INCOMPLETE) else ExitCode.DONE


def _document(outcome: Verification) -> dict[str, Any]:
    return {
        "same": outcome.count(ReplicaStatus.SAME) == len(outcome.verdicts),
        "different": outcome.count(ReplicaStatus.DIFFERENT),
        "incomplete": outcome.count(ReplicaStatus.INCOMPLETE),
        "compared_bytes": outcome.compared_bytes,
        "read_bytes": outcome.read_bytes,
        "seconds": round(outcome.seconds, 3),
        "ended": outcome.ended or None,
        "notes": list(outcome.notes),
        "partitions": [_verdict_json(verdict) for verdict in outcome.verdicts],
    }


def _verdict_json(verdict: PartitionResult) -> dict[str, Any]:
    largest = verdict.largest_lag
    return {
        **verdict.tp._asdict(),
        "standing": verdict.status.value,
        "leader": verdict.leader,
        "largest_lag": None if largest is None else largest[0],
        "replicas": [
            {
                "broker": broker,
                "lag": verdict.lags.get(broker),
                "high_watermark": verdict.high_watermarks.get(broker),
                "not_compared": verdict.left_out.get(broker, verdict.left_out.get(None)),
            }
            for broker in verdict.replicas
        ],
        "start": verdict.start,
        "until": verdict.until,
        "end": verdict.end,
        "compared_bytes": verdict.size_bytes,
        "differences": [_difference_json(diff) for diff in verdict.differences],
        "difference_count": verdict.different,
    }


def _difference_json(diff: Difference) -> dict[str, Any]:
    return {
        "what": diff.what.value,
        "first_offset": diff.first,
        "last_offset": diff.last,
        "offset": diff.offset,
        "brokers": list(diff.brokers),
        "others": list(diff.intact),
    }


def _text(outcome: Verification) -> str:
    order = (ReplicaStatus.DIFFERENT, ReplicaStatus.INCOMPLETE, ReplicaStatus.SAME)
    ordered = sorted(
        outcome.verdicts,
        key=lambda v: (order.index(v.status), -(v.largest_lag or (0, 0))[0], v.tp),
    )
    header = ("PARTITION", "LEADER", "REPLICAS", "LAG", "HIGH WATERMARK", "COMPARED", "")
    parts = [text_table(header, [_row(verdict) for verdict in ordered], " >", ROWS)]
    parts += ["\n" + "".join(lines) for lines in map(_lines, ordered[:ROWS]) if lines]
    return "".join(parts) + "\n" + _end(outcome)


def _row(verdict: PartitionResult) -> tuple[str, ...]:
    lag = verdict.largest_lag
    high = sorted(set(verdict.high_watermarks.values()))
    return (
        str(verdict.tp),
        "-" if verdict.leader is None else str(verdict.leader),
        id_list(verdict.replicas),
        "-" if lag is None else f"{lag[0]:,} on {lag[1]}" if lag[0] else "0",
        "-" if not high else f"{high[0]:,}" if len(high) == 1 else f"{high[0]:,} to {high[-1]:,}",
        format_bytes(verdict.size_bytes) if len(verdict.replicas) > 1 else "one replica",
        "DIFFERENT" if verdict.different else verdict.status.value,
    )


def _lines(verdict: PartitionResult) -> list[str]:
    lines = [f"{verdict.tp}: {_difference_sentence(diff)}\n" for diff in verdict.differences]
    if verdict.different > len(verdict.differences):
        lines.append(f"{verdict.tp}: {verdict.different - len(verdict.differences)} more\n")
    for broker, why in verdict.left_out.items():
        if broker is not None:
            lines.append(f"{verdict.tp}: broker {broker} is not compared: {why}\n")
        elif verdict.until is None or verdict.end is None:
            lines.append(f"{verdict.tp}: not compared: {why}\n")
        else:
            compared = f"compared below offset {verdict.until:,} of {verdict.end:,}"
            lines.append(f"{verdict.tp}: {compared}: {why}\n")
    return lines


def _difference_sentence(diff: Difference) -> str:
    where = f"offset {diff.first:,}" + (f" to {diff.last:,}" if diff.last > diff.first else "")
    record = ""
    if (
        diff.offset is not None
        and diff.last > diff.first
        and diff.what is not DifferenceKind.MISSING
    ):
        record = f", first at {diff.offset:,}"
    who, others = _named(diff.brokers), _named(diff.intact)
    match diff.what:
        case DifferenceKind.CORRUPT:
            agree = f"; {others} {_verb(diff.intact)}" if diff.intact else "; on no replica sound"
            return f"{where}: corrupt on {who}{record}{agree}"
        case DifferenceKind.MISSING:
            have = "have" if len(diff.intact) > 1 else "has"
            return f"{where}: missing on {who}; {others} {have} it"
        case DifferenceKind.UNREADABLE:
            can = f"; {others} can" if diff.intact else ""
            return f"from {where} on: {who} cannot be read{can}"
        case DifferenceKind.EPOCH if diff.intact:
            return f"{where}: another leader epoch on {who}; {others} {_verb(diff.intact)}"
        case DifferenceKind.EPOCH:
            return f"{where}: another leader epoch on each of {who}; there is no majority"
        case DifferenceKind.OTHER if diff.intact:
            return f"{where}: other records on {who}{record}; {others} {_verb(diff.intact)}"
        case _:
            return f"{where}: other records on each of {who}{record}; there is no majority"


def _named(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


def _verb(brokers: Sequence[int]) -> str:
    return "agree" if len(brokers) > 1 else "is sound"


def _end(outcome: Verification) -> str:
    different = outcome.count(ReplicaStatus.DIFFERENT)
    open_ones = [v.compared for v in outcome.verdicts if v.status is ReplicaStatus.INCOMPLETE]
    count = len(outcome.verdicts)
    parts = [f"{different:,} of {count:,} different"] if different else []
    if any(open_ones):
        parts.append(f"{sum(open_ones):,} of {count:,} the same as far as they were compared")
    if not all(open_ones):
        parts.append(f"{open_ones.count(False):,} of {count:,} not compared")
    whole = f"{counted(count, 'partition')} the same on all replicas"
    ended = f"; it ended early: {outcome.ended}" if outcome.ended else ""
    return (
        f"{', '.join(parts) or whole}: {format_bytes(outcome.compared_bytes)} compared, "
        f"{format_bytes(outcome.read_bytes)} read in {format_duration(outcome.seconds)}{ended}.\n"
    )
