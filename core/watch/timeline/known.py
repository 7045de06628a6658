"""Which topics and brokers a timeline knows of, whenever they were there."""

from __future__ import annotations

import numpy as np

from core.cluster.metadata import Broker
from core.watch.timeline.events import Kind
from core.watch.timeline.store import Timeline


def known_topics(timeline: Timeline) -> list[str]:
    """Return the topics that there are, or that anything was kept or told of, by name."""
    span = timeline.span
    state = None if span is None else timeline.state_at(span[1])
    now = [] if state is None else [topic.name for topic in state.topics]
    return sorted({*now, *timeline.topics})


def known_brokers(timeline: Timeline) -> list[int]:
    """Return the brokers that there are, that were there, or that anything was told of."""
    found: set[int] = set(timeline.told_brokers)
    span = timeline.span
    state = None if span is None else timeline.state_at(span[1])
    if state is not None:
        found |= {*state.broker_by_id, *np.unique(state.replica_broker).tolist()}
    for event in timeline.events(kinds=Kind.BROKER):
        found |= {of.id for of in (event.before, event.after) if isinstance(of, Broker)}
    return sorted(found)
