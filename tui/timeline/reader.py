"""Reads a cluster's timeline for the dashboard; for worker threads, which open it for each look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from heapq import merge

from core import paths
from core.errors import UsageError
from core.watch.timeline.changes import find_changes
from core.watch.timeline.events import Event, Note
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import EventGroup, group_events
from tui.timeline.history import Comparison, RecordedTimeline, TimelineFilter
from tui.timeline.lane_data import lanes_of

MAX_EVENTS = 20_000
"""So many changes are held, the newest; the command line has them all."""
_NEXT = timedelta(milliseconds=1)
"""The timeline's times are kept to the millisecond."""


@contextmanager
def _opened(cluster_id: str) -> Iterator[Timeline]:
    with closing(Timeline.read(paths.timeline_file(cluster_id))) as timeline, timeline.as_of_now():
        yield timeline


def read_timeline(
    cluster_id: str, timeline_filter: TimelineFilter, known: RecordedTimeline | None
) -> RecordedTimeline | None:
    """Return the timeline now (`known` if unchanged), None without any. Raises TrimtabError."""
    try:
        with _opened(cluster_id) as timeline:
            return _read(timeline, cluster_id, timeline_filter, known)
    except UsageError:  # nothing is there yet
        return None


def _read(
    timeline: Timeline,
    cluster_id: str,
    timeline_filter: TimelineFilter,
    known: RecordedTimeline | None,
) -> RecordedTimeline | None:
    span = timeline.span
    if span is None:
        return None
    if known is not None and (known.cluster_id != cluster_id or known.span[0] < span[0]):
        known = None  # another cluster, or the oldest went: read anew
    reported_upto = timeline.last_note
    now_known = (span, reported_upto, timeline_filter)
    if known is not None and (known.span, known.reported_upto, known.timeline_filter) == now_known:
        return known
    if known is not None and len(known.events) < 2 * MAX_EVENTS:
        changes = [event for event in known.events if not isinstance(event.after, Note)]
        changes += timeline.changes(changes[-1].at + _NEXT if changes else None)
        cut = known.cut
    else:
        newest = timeline.since_newest(MAX_EVENTS)
        changes, cut = list(timeline.changes(newest)), newest is not None
    # Somebody may tell of what was a while ago: this is read anew, the newest of it.
    changes_since, notes_since = (
        changes[0].at if cut else None,
        timeline.since_newest_notes(MAX_EVENTS),
    )
    reported_cut = notes_since is not None and (
        changes_since is None or notes_since > changes_since
    )
    notes = timeline.notes(notes_since if reported_cut else changes_since)
    events = tuple(merge(changes, notes, key=lambda event: event.at))
    first = max(events[0].at - _NEXT, span[0]) if cut else span[0]
    start = timeline.state_at(first)
    assert start is not None  # a picture of that time is there: all is read as of one moment
    return RecordedTimeline(
        cluster_id,
        span,
        events,
        reported_upto,
        cut,
        reported_cut,
        timeline_filter,
        _group(events, timeline_filter),
        lanes_of(start, events),
    )


def _group(events: Iterable[Event], timeline_filter: TimelineFilter) -> tuple[EventGroup, ...]:
    """Return what is asked for of these events, folded."""
    selection = (event for event in events if timeline_filter.has(event))
    return tuple(group_events(selection, timeline_filter.kinds))


def compare(
    cluster_id: str, first: datetime, second: datetime | None, timeline_filter: TimelineFilter
) -> Comparison | None:
    """Return what differs between two moments (None is now); None if unseen."""
    with _opened(cluster_id) as timeline:
        span = timeline.span
        if span is None:
            return None
        since, until = sorted((first, second or span[1]))
        before, after = timeline.state_at(since), timeline.state_at(until)
    if before is None or after is None:
        return None
    differ = find_changes(before, after)
    groups = _group(differ, timeline_filter)
    return Comparison(since, until, second is None, groups, len(differ))
