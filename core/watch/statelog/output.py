"""Events and the summary of a merge, in words and as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from core.text.json_text import escaped
from core.text.terminal import printable
from core.units import counted, format_duration, format_time
from core.watch.statelog.clock_offsets import MIN_MOMENTS, ClockOffset
from core.watch.statelog.event import Change, LogEvent, LogEventKind, to_datetime
from core.watch.statelog.files import LogFile, LogFiles
from core.watch.statelog.merge import MergeTally, Suspicion
from core.watch.statelog.timestamps import TimeZones

_QUARTER_MS = 15 * 60 * 1000
_NEAR_QUARTER_MS = 60 * 1000
MAX_FILES_LISTED = 20
MAX_UNKNOWN_PART = 0.01
"""The part of all lines that may be of no known form before the answer counts as incomplete."""

_MS = tuple(f"{ms:03d}Z  " for ms in range(1000))
_KINDS = {kind: f"{kind:<8}  " for kind in LogEventKind}
_FOLLOWER, _LEADER = LogEventKind.FOLLOWER, LogEventKind.LEADER  # members are looked up slowly
_WITH_LEADER = (LogEventKind.ISR, LogEventKind.ELECTED)


class TextFormatter:
    """Events as aligned lines; a name that is wider than its column pushes the rest."""

    def __init__(self) -> None:
        self._second_ms, self._stamp = 2**62, ""
        self._who: dict[tuple[int | None, bool], str] = {}

    def text(self, event: LogEvent) -> str:
        """Return one line for an event and one for each line that follows it, with their ends."""
        at_ms, broker, by_controller, _, _, change, _, more, _, _ = event
        ms = at_ms - self._second_ms
        if not 0 <= ms < 1000:
            ms = at_ms % 1000
            self._second_ms = at_ms - ms
            self._stamp = format_time(to_datetime(self._second_ms))[:-4]
        who = self._who.get((broker, by_controller))
        if who is None:
            what = "controller" if by_controller else "broker"
            name = f"{what} {'?' if broker is None else broker}"
            who = self._who[broker, by_controller] = f"{name:<13}  "
        name = "" if change.topic is None else f"{change.topic}-{change.partition}"
        line = f"{self._stamp}{_MS[ms]}{who}{_KINDS[change[0]]}{name:<24}  {event_text(event)}\n"
        if more:
            line += "".join(f"    {printable(text)}\n" for text in more)
        return line


def event_text(event: LogEvent) -> str:
    """Return what an event says, in a few words where they are known, fit for a terminal."""
    kind, _, _, leader, epoch, version, isr, _, before, until, offset, _, replica, _ = event.change
    if kind is _FOLLOWER:
        words = f"follows {'a leader' if leader is None else leader} from epoch {epoch}"
    elif kind is _LEADER:
        words = f"leads from epoch {epoch}"
    elif leader is not None and kind in _WITH_LEADER:
        words = f"{'no leader' if leader < 0 else f'leader {leader}'}, epoch {epoch}"
    else:
        return printable(event.text)
    if version is not None:
        words += f".{version}"
    if offset is not None:
        words += f", offset {offset}"
    if isr is not None:
        words += f", ISR {_ids(isr)}"
    if replica is not None:
        words += f", without {replica}"
    if before is not None:
        return f"{words}; before {before}, epoch {until}"
    if until == -1:
        return f"{words}; not held before, since its start"
    return words if until is None else f"{words}; before epoch {until}"


@lru_cache(maxsize=4096)
def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "empty"


_quoted = json.JSONEncoder(ensure_ascii=False).encode
_NAMES = Change._fields[1:]


class JsonFormatter:
    """Events as JSON documents, a line each; what a record does not say is left out.

    Written out by hand: a dictionary of each and json's own encoder take more than twice as long.
    """

    def __init__(self) -> None:
        self._second, self._stamp = -1, ""

    def text(self, event: LogEvent) -> str:
        """Return one event's document, with its end."""
        at_ms, broker, by_controller, epoch, level, change, text, more, file, line = event
        second, ms = divmod(at_ms, 1000)
        if second != self._second:
            self._second, self._stamp = second, format_time(to_datetime(second * 1000))[:-4]
        who = "null" if broker is None else broker
        by = "controller" if by_controller else "broker"
        fields = "".join(
            [
                f', "{name}": {_quoted(value) if value.__class__ is str else _plain(value)}'
                for name, value in zip(_NAMES, change[1:], strict=True)
                if value is not None
            ]
        )
        if epoch is not None:
            fields += f', "controller_epoch": {epoch}'
        following = f', "more": {_quoted(more)}' if more else ""
        document = (
            f'{{"at": "{self._stamp}{ms:03d}Z", "broker": {who}, "by": "{by}", '
            f'"kind": "{change[0]}"{fields}, "level": {_quoted(level)}, "text": {_quoted(text)}'
            f'{following}, "file": {_quoted(file)}, "line": {line}}}'
        )
        return escaped(document) + "\n"


def _plain(value: object) -> str:
    """Return a number, or several, in JSON."""
    return str(list(value) if isinstance(value, tuple) else value)


# -- the summary -----------------------------------------------------------------------------------


def summary_document(
    tally: MergeTally, logs: LogFiles, zones: TimeZones, aligned: dict[int, int]
) -> dict[str, Any]:
    """Return the last document of a merge."""
    return {
        "summary": {
            "files": [_file_document(source) for source in logs.sources],
            "left_out": [{"file": str(path), "why": why} for path, why in logs.left_out],
            "named_twice": [str(path) for path in logs.twice],
            "lines": _lines(logs),
            "events": tally.events,
            "unknown": tally.unknown,
            "not_understood": not_understood(tally, logs),
            "topics": len(tally.topics),
            "from": _time(tally.first_ms),
            "to": _time(tally.last_ms),
            "zone": zones.words,
            "offsets": [
                {
                    "broker": offset.broker,
                    "ahead_seconds": None if offset.ahead_ms is None else offset.ahead_ms / 1000,
                    "within_seconds": offset.within_ms / 1000,
                    "moments": offset.moments,
                    "sure": offset.sure,
                }
                for offset in tally.clocks.offsets()
            ],
            "aligned": [
                {"broker": broker, "shifted_seconds": ms / 1000}
                for broker, ms in sorted(aligned.items())
            ],
            "out_of_order": tally.disorder.records,
            "out_of_order_by_seconds": tally.disorder.longest_ms / 1000,
            "suspicions": [
                {
                    "broker": suspicion.broker,
                    "topic": suspicion.topic,
                    "files": [str(path) for path in suspicion.files],
                    "from": _time(suspicion.from_ms),
                    "to": _time(suspicion.to_ms),
                }
                for suspicion in tally.mixed_clusters.suspicions(logs.sources)
            ],
        }
    }


def not_understood(tally: MergeTally, logs: LogFiles) -> int:
    """Return how many lines are state changes, as far as is known, and of no known form."""
    return tally.strange + sum(source.strange for source in logs.sources)


def is_incomplete(tally: MergeTally, logs: LogFiles) -> bool:
    """Return whether so much was not understood that what is told is not the story."""
    return not_understood(tally, logs) > _lines(logs) * MAX_UNKNOWN_PART


def _lines(logs: LogFiles) -> int:
    return sum(source.lines for source in logs.sources)


def _file_document(source: LogFile) -> dict[str, Any]:
    return {
        "file": str(source.path),
        "broker": source.broker,
        "zone": str(source.zone),
        "lines": source.lines,
        "lines_before_first_time": source.headless,
        "whole": source.whole,
        "trouble": source.trouble,
    }


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(to_datetime(at_ms))


def summary_lines(
    tally: MergeTally,
    logs: LogFiles,
    zones: TimeZones,
    aligned: dict[int, int],
    unknown_shown: bool,
) -> Iterator[str]:
    """Yield the summary in words, a line each."""
    files = len(logs.sources)
    yield (
        f"{files:,} file{'s' * (files != 1)}, {_lines(logs):,} lines: "
        f"{tally.events:,} event{'s' * (tally.events != 1)}"
    )
    if tally.unknown:
        hint = "" if unknown_shown else "; --all shows them"
        yield f"{tally.unknown:,} of unknown form{hint}"
    if tally.first_ms is not None and tally.last_ms is not None:
        span = format_duration((tally.last_ms - tally.first_ms) / 1000)
        yield f"from {_time(tally.first_ms)} to {_time(tally.last_ms)}, {span}"
    yield f"times without a zone are taken as {zones.words}; --zone says another"
    yield from _clock_lines(tally.clocks.offsets(), aligned)
    yield from doubt_lines(tally, logs)


def doubt_lines(
    tally: MergeTally, logs: LogFiles, more: str = "--json has them all"
) -> Iterator[str]:
    """Yield what speaks against the logs themselves, a line each; `more` says where the rest is."""
    if tally.disorder.records:
        longest = format_duration(tally.disorder.longest_ms / 1000)
        yield (
            f"{tally.disorder.records:,} records lie back in their own file, by up to {longest}: "
            "a clock was set back"
        )
    if is_incomplete(tally, logs):
        strange, lines = not_understood(tally, logs), _lines(logs)
        yield (
            f"{strange:,} of {lines:,} lines ({strange / lines:.0%}) are of no form that is known "
            "here: not all that happened is told"
        )
    yield from _file_lines(logs, more)
    yield from map(_suspicion_line, tally.mixed_clusters.suspicions(logs.sources))


def _clock_lines(offsets: tuple[ClockOffset, ...], aligned: dict[int, int]) -> Iterator[str]:
    if len(offsets) > 1:
        yield "clocks, told by changes that several brokers applied (each also takes its time):"
    for offset in offsets if len(offsets) > 1 else ():
        if offset.ahead_ms is None:
            yield f"  broker {offset.broker}: unknown, no change in common with the others"
            continue
        ahead = f"{offset.ahead_ms / 1000:+.3f} s"
        if offset.moments >= MIN_MOMENTS:
            ahead += f" ± {offset.within_ms / 1000:.3f} s"
        moments = counted(offset.moments, "common moment")
        unsure = "" if offset.sure else ", unsure"
        if offset.broker in aligned:
            unsure += f"; shifted by {aligned[offset.broker] / 1000:+.3f} s"
        yield f"  broker {offset.broker}: {ahead}, {moments}{unsure}"
        if is_in_other_zone(offset):
            yield f"  {zone_hint(offset)}"


def zone_hint(offset: ClockOffset) -> str:
    return f"broker {offset.broker} seems to log in another zone: --zone {offset.broker}=…"


def is_in_other_zone(offset: ClockOffset) -> bool:
    """Return whether a clock is off by nearly a whole number of quarters, as zones are."""
    ahead = abs(offset.ahead_ms or 0)
    off = ahead % _QUARTER_MS
    return ahead > _QUARTER_MS - _NEAR_QUARTER_MS and (
        min(off, _QUARTER_MS - off) <= _NEAR_QUARTER_MS
    )


def _file_lines(logs: LogFiles, more: str) -> Iterator[str]:
    troubled = [
        *(f"{path}: left out, {why}" for path, why in logs.left_out),
        *(f"{s.path}: {s.trouble}, after {s.lines:,} lines" for s in logs.sources if s.trouble),
        *(
            f"{s.path}: begins with {s.headless:,} lines of a record that it does not hold"
            for s in logs.sources
            if s.headless
        ),
        *(f"{path}: named twice, read once" for path in logs.twice),
    ]
    yield from troubled[:MAX_FILES_LISTED]
    if len(troubled) > MAX_FILES_LISTED:
        yield f"… and {len(troubled) - MAX_FILES_LISTED:,} more of this kind; {more}"


def _suspicion_line(sign: Suspicion) -> str:
    when = f"{_time(sign.from_ms)} to {_time(sign.to_ms)}"
    if sign.topic is not None:
        return f"topic {sign.topic} has two ids by turns, {when}: logs of two clusters?"
    both = " and ".join(map(str, sign.files))
    return f"broker {sign.broker} wrote {both} at once, {when}: two clusters, or one log twice?"
