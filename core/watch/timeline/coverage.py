"""Coverage of a timeline: which times, topics and brokers it knows of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from core.cluster.metadata import Broker
from core.units import format_duration, format_time
from core.watch.timeline.events import Kind
from core.watch.timeline.store import Timeline


def list_topics(timeline: Timeline) -> list[str]:
    """Return the topics that there are, or that anything was kept or told of, by name."""
    span = timeline.span
    state = None if span is None else timeline.state_at(span[1])
    now = [] if state is None else [topic.name for topic in state.topics]
    return sorted({*now, *timeline.topics})


def list_brokers(timeline: Timeline) -> list[int]:
    """Return the brokers that there are, that were there, or that anything was told of."""
    brokers: set[int] = set(timeline.note_brokers)
    span = timeline.span
    state = None if span is None else timeline.state_at(span[1])
    if state is not None:
        brokers |= {*state.broker_by_id, *np.unique(state.replica_broker).tolist()}
    for event in timeline.events(kinds=Kind.BROKER):
        brokers |= {of.id for of in (event.before, event.after) if isinstance(of, Broker)}
    return sorted(brokers)


MAX_SILENCE = timedelta(seconds=30)
"""Longer than this without a look, and nobody records now."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nobody looked."""

    began: datetime
    ended: datetime
    text: str
    kept: bool = False
    """Whether the timeline itself has it among what happened, at its end."""


def find_gaps(
    timeline: Timeline, since: datetime | None, until: datetime | None, now: datetime
) -> list[Gap]:
    """Return the times unseen that a range touches, in order; none where nobody ever looked.

    Without `since` the range begins with what was recorded. Raises TimelineError.
    """
    span = timeline.span
    if span is None:
        return []
    first, last = span
    end = until or now
    begin = since or min(first, end)
    never = datetime.min.replace(tzinfo=UTC)
    gaps = [Gap(never, first, f"Nothing was recorded before {format_time(first)}.")]
    for event in timeline.events(since, None, Kind.GAP):
        seconds = event.after if isinstance(event.after, int) else 0
        if seconds < 0:  # the clock was set back
            continue
        began = event.at - timedelta(seconds=seconds)
        text = f"Nobody looked from {format_time(began)} to {format_time(event.at)}."
        gaps.append(Gap(began, event.at, text, kept=True))
    if now - last > MAX_SILENCE:
        ago = format_duration((now - last).total_seconds())
        gaps.append(Gap(last, now, f"Recorded until {format_time(last)}, {ago} ago."))
    return [gap for gap in gaps if gap.began < end and gap.ended > begin]
