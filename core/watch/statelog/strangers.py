"""Signs that logs are not of one cluster, or that one log is there twice. Nothing proves it:
state-change logs do not name their cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.watch.statelog.event import Event
from core.watch.statelog.sources import Source

SAME_TIME_MS = 60_000
"""Two files that one broker wrote at once for longer than this are of two brokers, or copies."""
BACK_MS = 60_000
"""A topic whose older id is written again so long after its newer one is two topics."""
TOPICS_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One sign: which broker or topic, where, and when."""

    broker: int | None
    topic: str | None
    files: tuple[Path, ...]
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class _Ids:
    """A topic's id now, since when, and the one before."""

    now: str
    since_ms: int
    before: str | None = None


@dataclass(slots=True)
class Strangers:
    """Notes events as they pass: spans of brokers in files, ids of topics."""

    _spans: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _ids: dict[str, _Ids] = field(default_factory=dict)
    _twofold: dict[str, list[int]] = field(default_factory=dict)

    def note(self, event: Event, source: int) -> None:
        at_ms = event.at_ms
        if event.broker is not None:
            span = self._spans.get((event.broker, source))
            if span is None:
                self._spans[event.broker, source] = [at_ms, at_ms]
            else:
                span[1] = at_ms
        topic, topic_id = event.change.topic, event.change.topic_id
        if topic is None or topic_id is None:
            return
        ids = self._ids.get(topic)
        if ids is None:
            if len(self._ids) < TOPICS_MOST:
                self._ids[topic] = _Ids(topic_id, at_ms)
        elif ids.now != topic_id:
            if ids.before != topic_id:
                self._ids[topic] = _Ids(topic_id, at_ms, ids.now)
            elif at_ms - ids.since_ms > BACK_MS:
                self._twofold.setdefault(topic, [ids.since_ms, at_ms])[1] = at_ms

    def suspicions(self, sources: Sequence[Source]) -> tuple[Suspicion, ...]:
        """Return one for each broker, and each topic, that is in two places at once."""
        found: list[Suspicion] = []
        of_broker: dict[int, list[tuple[int, int, int]]] = {}
        for (broker, source), (first, last) in self._spans.items():
            of_broker.setdefault(broker, []).append((first, last, source))
        for broker, spans in sorted(of_broker.items()):
            spans.sort()
            until, held = spans[0][1], spans[0][2]
            for first, last, source in spans[1:]:
                if min(until, last) - first > SAME_TIME_MS:
                    files = (sources[held].path, sources[source].path)
                    found.append(Suspicion(broker, None, files, first, min(until, last)))
                    break
                if last > until:
                    until, held = last, source
        found += [
            Suspicion(None, topic, (), since, last)
            for topic, (since, last) in sorted(self._twofold.items())
        ]
        return tuple(found)
