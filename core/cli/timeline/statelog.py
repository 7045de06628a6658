"""`trimtab statelog`: brokers' state-change logs, merged by time."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO

import click

from core.cli.common.options import Group, answer_options
from core.cli.common.output import Answer, StatusLine, say, write_stream
from core.errors import ExitCode, UsageError
from core.patterns import nearly, pattern
from core.text.json_text import json_line
from core.text.terminal import printable
from core.units import format_bytes
from core.watch.statelog.event import to_milliseconds
from core.watch.statelog.files import LogFile, LogFiles, find_log_files
from core.watch.statelog.merge import EventFilter, Merge, MergeTally
from core.watch.statelog.output import is_incomplete, summary_document, summary_lines
from core.watch.statelog.parallel import merge_lines
from core.watch.statelog.timestamps import TimeZones, parse_zones

PROGRESS_SECONDS = 0.5
NOTHING = "Nothing matched."
_LOOKED_AT = 4096
"""Events between two looks at the clock."""


@click.group(cls=Group)
def statelog() -> None:
    """Merge the state-change logs of brokers."""


@statelog.command()
@click.argument(
    "files", metavar="FILE|DIR…", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--from",
    "since",
    metavar="TIME",
    help="Only events since this time, in UTC or with an offset (default: all).",
)
@click.option("--to", "until", metavar="TIME", help="Only events before this time.")
@click.option(
    "--topic", metavar="REGEX", help="Only topics whose whole name matches (default: all)."
)
@click.option("--partitions", metavar="0,3-5", help="Only these partitions (default: all).")
@click.option(
    "--zone",
    "zone_names",
    metavar="ZONE",
    multiple=True,
    help=(
        "Time zone of the logs, like +02:00 or Europe/Berlin (default: UTC), or 3=ZONE for broker "
        "3; may be repeated."
    ),
)
@click.option(
    "--align", is_flag=True, help="Correct the brokers' clock offsets; reads the logs twice."
)
@click.option("--all", "everything", is_flag=True, help="Include records of unknown form.")
@answer_options
def merge(
    files: tuple[Path, ...],
    since: str | None,
    until: str | None,
    topic: str | None,
    partitions: str | None,
    zone_names: tuple[str, ...],
    align: bool,
    everything: bool,
    answer: Answer,
) -> int:
    """Merge state-change logs of brokers by time, one line for each event.

    Reads plain, rotated and gzipped logs, and searches folders. With --json, prints one document a
    line, the summary last. Exit code 5 when a log could not be read to its end or more than 1 % of
    the lines have an unknown form, 6 when no event matches --topic.
    """
    zones = parse_zones(zone_names)
    chosen = _parse_filter(since, until, topic, partitions, everything)
    log_files = find_log_files(files, zones)
    shifts = _find_clock_shifts(log_files, answer) if align else {}
    tally = MergeTally()
    merged = partial(_write_merged, log_files, zones, chosen, shifts, tally, answer)
    write_stream(merged, answer.output)
    if not tally.events:
        say(_nothing(chosen, tally.topics))
    is_whole = all(source.whole for source in log_files.sources)
    if log_files.left_out or not is_whole or is_incomplete(tally, log_files):
        return ExitCode.INCOMPLETE
    return ExitCode.DONE if tally.events or topic is None else ExitCode.NO


def _parse_filter(
    since: str | None, until: str | None, topic: str | None, partitions: str | None, all_: bool
) -> EventFilter:
    from_ms, to_ms = _moment(since), _moment(until)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise UsageError(f"--from {since} is not before --to {until}.", next="Swap the two.")
    return EventFilter(
        from_ms=from_ms,
        to_ms=to_ms,
        topic=None if topic is None else pattern(topic, "--topic"),
        partitions=None if partitions is None else parse_numbers(partitions),
        unknown=all_,
    )


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        # As copied from a log: with a comma before the milliseconds.
        moment = datetime.fromisoformat(text.strip("[] ").replace(",", "."))
    except ValueError as error:
        raise UsageError(
            f"Not a time: {text!r}.", next="Write it like 2026-01-31T02:00Z or 2026-01-31 02:00."
        ) from error
    return to_milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def parse_numbers(text: str) -> frozenset[int]:
    """Return the numbers of `0,3-5`; raises UsageError for anything else."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"Not partitions: {text!r}.", next="Write them like 0,3-5.")
        low, high = int(first), int(last or first)
        if high < low or high - low > 1_000_000:
            raise UsageError(f"Not a range of partitions: {part}.", next="Write it like 3-5.")
        numbers.update(range(low, high + 1))
    return frozenset(numbers)


def _find_clock_shifts(log_files: LogFiles, answer: Answer) -> dict[int, int]:
    """Return by how much each broker's times are to be shifted, as far as that is sure."""
    first = Merge(log_files.sources)
    progress = Progress(log_files.sources, answer.output, "comparing clocks")
    for number, _ in enumerate(first):
        progress.at(number)
    progress.end()
    for source in log_files.sources:
        source.lines = source.headless = source.strange = source.read_bytes = 0
    return {
        offset.broker: -offset.ahead_ms
        for offset in first.tally.clocks.offsets()
        if offset.sure and offset.ahead_ms
    }


def _write_merged(
    log_files: LogFiles,
    zones: TimeZones,
    chosen: EventFilter,
    shifts: dict[int, int],
    tally: MergeTally,
    answer: Answer,
    out: IO[str],
) -> None:
    progress = Progress(log_files.sources, answer.output, "merging")
    lines = merge_lines(
        *(log_files.sources, chosen, shifts, tally),
        as_json=answer.as_json,
        processes=os.cpu_count() or 1,
    )
    with closing(lines):
        for number, line in enumerate(lines):
            out.write(line)
            progress.at(number)
    progress.end()
    if answer.as_json:
        summary = summary_document(tally, log_files, zones, shifts)
        out.write(json_line(summary) + "\n")
        return
    out.write("\n" if tally.events else f"# {NOTHING}\n")
    for line in summary_lines(tally, log_files, zones, shifts, chosen.unknown):
        out.write(f"# {printable(line)}\n")


def _nothing(chosen: EventFilter, topics: set[str]) -> str:
    sentence = f"{NOTHING[:-1]}, of {len(topics):,} topics in the wanted time."
    if chosen.topic is None or any(chosen.topic.fullmatch(topic) for topic in topics):
        return sentence
    return f"{sentence} {nearly(chosen.topic.pattern, topics)}".rstrip()


class Progress:
    """How far a merge is, on a terminal that nothing else is printed to."""

    def __init__(self, sources: tuple[LogFile, ...], output: Path | None, doing: str) -> None:
        self._sources, self._doing = sources, doing
        self._total = sum(source.size_bytes for source in sources)
        answers_elsewhere = output is not None or not sys.stdout.isatty()
        shown = answers_elsewhere and self._total > 0
        self._line = StatusLine(shown=shown, seconds=PROGRESS_SECONDS)
        self.end = self._line.end

    def at(self, number: int) -> None:
        if not self._line.shown or number % _LOOKED_AT:
            return
        part = min(sum(source.read_bytes for source in self._sources) / self._total, 1.0)
        self._line.say(f"{self._doing}: {part:.0%} of {format_bytes(self._total)}")
