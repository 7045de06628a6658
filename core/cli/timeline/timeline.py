"""`trimtab timeline`: what happened in a cluster, and the cluster as it was."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from pathlib import Path

import click
import numpy as np

from core import paths
from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options, cluster_id_option
from core.cli.common.output import Answer, emit, say, write_text
from core.cli.common.times import (
    MOMENT_FORMS,
    next_time_of_day,
    parse_moment,
    parse_time_of_day,
)
from core.cli.timeline.record import event_document, kind_name, record_here
from core.clock import SystemClock
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.errors import ExitCode, UsageError
from core.patterns import matching, pattern
from core.text.terminal import printable
from core.units import format_time, parse_ids
from core.watch.statelog.files import LogFiles, find_log_files
from core.watch.statelog.output import doubt_lines, is_in_other_zone, zone_hint
from core.watch.statelog.timestamps import parse_zones
from core.watch.timeline.coverage import find_gaps, list_brokers, list_topics
from core.watch.timeline.events import KIND_FILTERS, Event, Kind
from core.watch.timeline.log_events import LogEvents
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event, group_events


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are asked for; None and empty are all."""

    since: datetime | None
    until: datetime | None
    kinds: Kind
    topics: re.Pattern[str] | None
    brokers: frozenset[int]

    def refuse_unknown(self, timeline: Timeline) -> None:
        """Raise UsageError for topics and brokers that the timeline has never known."""
        if self.topics is not None:
            matching(self.topics.pattern, "--topics", list_topics(timeline), "topic")
        if self.brokers:
            known = list_brokers(timeline)
            for broker in sorted(self.brokers.difference(known)):
                ids = ", ".join(map(str, known))
                raise UsageError(f"No broker {broker} was seen.", next=f"There were {ids}.")

    def has(self, event: Event) -> bool:
        if self.topics is not None and not (event.topic and self.topics.fullmatch(event.topic)):
            return False
        return not self.brokers or bool(self.brokers & event.brokers)


def parse_range(
    since: str | None, until: str | None, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the moments that are meant, None where none is said.

    A time of day for `until` that was not since then is the next one, also if that is still to
    come: 13:00 to 14:00, asked for at 13:55, is an hour of today. Raises UsageError for none.
    """
    begin = None if since is None else parse_moment(since, now)
    end = None if until is None else parse_moment(until, now)
    if begin is None or end is None or begin < end:
        return begin, end
    clock = parse_time_of_day((until or "").strip(), MOMENT_FORMS)
    if clock is None:
        raise UsageError(f"--since {since} is not before --until {until}.", next="Swap the two.")
    return begin, next_time_of_day(clock, begin)


def parse_kinds(text: str | None) -> Kind:
    kinds = Kind(0)
    for word in text.split(",") if text else ():
        if word.strip() not in KIND_FILTERS:
            raise UsageError(
                f"There is no kind {word.strip()!r}.", next=f"Kinds are {', '.join(KIND_FILTERS)}."
            )
        kinds |= KIND_FILTERS[word.strip()]
    return kinds


def read_logs(
    files: Sequence[Path], zone_names: Sequence[str], since: datetime, until: datetime
) -> LogEvents:
    """Return the logs that are named, and say what is doubtful of them; raises UsageError."""
    zones = parse_zones(tuple(zone_names))
    log_files = find_log_files(files, zones)
    logs = LogEvents(log_files.sources, since, until, whole=not log_files.left_out)
    logs.align()
    if not zone_names:
        say(f"Logs' times without a zone are taken as {zones.words}; --zone says another.")
    given = LogFiles(logs.sources, log_files.left_out, log_files.twice)
    for line in doubt_lines(logs.tally, given, "`statelog merge --json` has them all"):
        say(line)
    if logs.tally.unknown:
        say(f"{logs.tally.unknown:,} of their records are of unknown form, and left out.")
    for offset in filter(is_in_other_zone, logs.tally.clocks.offsets()):
        say(zone_hint(offset))
    for broker, shift_ms in sorted(logs.shifts_ms.items()):
        off = "ahead" if shift_ms < 0 else "behind"
        say(f"Broker {broker}'s clock is {abs(shift_ms) / 1000:.3f} s {off}: it is put right.")
    if logs.unsure:
        ids = ", ".join(map(str, logs.unsure))
        say(f"How far the clocks of brokers {ids} are off is not sure: their times are as logged.")
    return logs


MAX_LINES, MAX_NAMED_GAPS = 200, 3
"""Lines that are shown unless more are asked for, gaps that are named: the newest."""


@click.command(cls=Command)
@click.option(
    "--since",
    metavar="TIME",
    help="Only events since this time: 30m (ago), 03:10, or a date (default: all).",
)
@click.option("--until", metavar="TIME", help="Only events until this time (default: now).")
@click.option(
    "--kind",
    metavar="KINDS",
    help="Only events of these kinds, like broker,leader,isr (default: all).",
)
@click.option(
    "--topics",
    metavar="REGEX",
    help="Only events of topics whose whole name matches (default: all).",
)
@click.option(
    "--brokers",
    metavar="IDS",
    help="Only events in which these brokers gained or lost something (default: all).",
)
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(1),
    help="Number of events, the newest (default: 200).",
)
@click.option("--summary", is_flag=True, help="Print one line for events that belong together.")
@click.option("--at", "moment", metavar="TIME", help="Print the cluster document as of this time.")
@click.option("--record", "recording", is_flag=True, help="Record events until Ctrl-C.")
@cluster_id_option
@click.option(
    "--statelog",
    "logs",
    metavar="FILE|DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Merge in the events of this state-change log; may be given more than once.",
)
@click.option(
    "--zone",
    "zones",
    metavar="ZONE",
    multiple=True,
    help="Time zone of those logs (default: UTC), or 3=ZONE for broker 3; may be repeated.",
)
@answer_options
@click.pass_obj
def timeline(
    context: Context,
    since: str | None,
    until: str | None,
    kind: str | None,
    topics: str | None,
    brokers: str | None,
    last: int | None,
    summary: bool,
    moment: str | None,
    recording: bool,
    cluster_id: str | None,
    logs: tuple[Path, ...],
    zones: tuple[str, ...],
    answer: Answer,
) -> int:
    """Show what happened in the cluster: brokers, leaders, ISRs, assignments, configs.

    Events are recorded while a dashboard is open, and with --record. Times are local, in JSON UTC.
    State-change logs are merged in, with clock offsets corrected where they are certain. Exit code
    5 when a log could not be read to its end.
    """
    _refuse_other_options(click.get_current_context())
    if recording:
        record_here(context, answer.as_json)
        return ExitCode.DONE
    recorded_ids = (path.stem for path in paths.timeline_file("x").parent.glob("*.timeline"))
    cluster_id = context.resolve_cluster_id(
        cluster_id, recorded_ids, "Timelines are kept of", "Give -b HOST:PORT."
    )
    opened = Timeline.read(paths.timeline_file(cluster_id))
    try:
        recorded = opened.span
        span = recorded or opened.note_span
        if span is None or (recorded is None and moment is not None):
            raise UsageError("Nothing has been recorded yet.", next="Wait a second and try again.")
        now = max(span[1], SystemClock().now())
        if moment is not None:
            _print_state_at(opened, parse_moment(moment, now), now, answer.output)
            return ExitCode.DONE
        chosen = EventFilter(
            *parse_range(since, until, now),
            parse_kinds(kind),
            None if topics is None else pattern(topics, "--topics"),
            frozenset(parse_ids(brokers) if brokers else ()),
        )
        if not logs:  # they may know others
            chosen.refuse_unknown(opened)
        if recorded is None:
            say("This cluster was not recorded: these events were reported by others.")
        _report_gaps(opened, chosen, now)
        every = opened.events(chosen.since, chosen.until, chosen.kinds)
        log_events = None
        if logs:
            log_events = read_logs(logs, zones, chosen.since or span[0], chosen.until or now)
            every = merge(every, log_events.events(chosen.kinds), key=lambda event: event.at)
        events = (event for event in every if chosen.has(event))
        if summary:
            _print_summary(list(events), chosen.kinds, last, answer)
        else:
            _events(events, last, answer)
        return ExitCode.DONE if log_events is None or log_events.whole else ExitCode.INCOMPLETE
    finally:
        opened.close()


_ALONE = {"moment": ("cluster_id", "output", "as_json"), "recording": ("as_json",)}
"""What may be said beside `--at` and `--record`, which tell no events: by their parameters."""


def _refuse_other_options(ctx: click.Context) -> None:
    given, called = ctx.params, {str(option.name): option.opts[-1] for option in ctx.command.params}
    for alone, taken in _ALONE.items():
        for name, value in given.items():
            if given[alone] and value and name not in (alone, *taken):
                raise UsageError(f"{called[alone]} takes no {called[name]}.", next="Leave it out.")
    if given["logs"] and given["summary"]:
        raise UsageError("--summary takes no --statelog.", next="Leave it out.")
    if given["zones"] and not given["logs"]:
        raise UsageError("--zone needs --statelog.", next="Add --statelog FILE.")


def _report_gaps(timeline: Timeline, chosen: EventFilter, now: datetime) -> None:
    """Say in which times nobody looked, but for those that are among what is shown."""
    is_narrow = chosen.topics is not None or bool(chosen.brokers)
    listed = not is_narrow and (not chosen.kinds or bool(chosen.kinds & Kind.GAP))
    gaps = [
        gap
        for gap in find_gaps(timeline, chosen.since, chosen.until, now)
        if not (gap.kept and listed and gap.ended <= (chosen.until or now))
    ]
    if len(gaps) > MAX_NAMED_GAPS:
        say(f"{len(gaps) - MAX_NAMED_GAPS} earlier gaps in the recording: --kind gap lists them.")
    for gap in gaps[-MAX_NAMED_GAPS:]:
        say(gap.text)


def _events(events: Iterable[Event], last: int | None, answer: Answer) -> None:
    # What is not shown is not held: logs may be long.
    count = 0
    shown: deque[Event] = deque(maxlen=last or (None if answer.as_json else MAX_LINES))
    for event in events:
        count += 1
        shown.append(event)
    if not answer.as_json:
        _report_omitted(count - len(shown), "events")
    answer.write(
        lambda: [event_document(event) for event in shown],
        lambda: _lines((event.at, format_event(event)) for event in shown),
    )


def _print_summary(events: list[Event], kinds: Kind, last: int | None, answer: Answer) -> None:
    every = group_events(events, kinds)
    shown = every[-(last or (len(every) if answer.as_json else MAX_LINES)) :]
    if answer.as_json:
        emit(
            [
                {
                    "at": format_time(group.began),
                    "until": format_time(group.ended),
                    "kind": kind_name(group.kind),
                    "events": len(group.events),
                    "text": group.text,
                }
                for group in shown
            ],
            answer.output,
        )
        return
    _report_omitted(len(every) - len(shown), "lines")
    write_text(_lines((group.began, group.text) for group in shown), answer.output)


def _report_omitted(count: int, what: str) -> None:
    if count:
        say(f"{count:,} earlier {what} are not shown: use a filter, or --last N.")


def _lines(rows: Iterable[tuple[datetime, str]]) -> str:
    """Return a line each, by this machine's clock, the day said where it changes."""
    day, lines = None, ""
    for at, text in rows:
        here = at.astimezone()
        if here.date() != day:
            day = here.date()
            lines += f"{day} {here.tzname()}\n"
        lines += f"{here:%H:%M:%S}.{here.microsecond // 100_000}  {printable(text)}\n"
    return lines or "No events.\n"


def _print_state_at(
    timeline: Timeline, moment: datetime, now: datetime, output: Path | None
) -> None:
    state = timeline.state_at(moment)
    if state is None:
        span = timeline.span
        assert span is not None
        raise UsageError(
            f"At {format_time(moment)} the cluster was not recorded yet.",
            next=f"The first moment is {format_time(span[0])}.",
        )
    for gap in find_gaps(timeline, moment, moment, now):
        say(f"{gap.text} This is the cluster as of before that.")
    unknown = np.full(state.partition_count, np.nan)
    emit(document_to_json(ClusterDocument(state, unknown, unknown)), output)
