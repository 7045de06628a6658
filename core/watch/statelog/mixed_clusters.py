"""Signs that logs are not of one cluster, or that one log is there twice. Nothing proves it:
state-change logs do not name their cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from core.watch.statelog.event import LogEvent
from core.watch.statelog.files import LogFile

SAME_TIME_MS = 60_000
"""Two files that one broker wrote at once for longer than this are of two brokers, or copies."""
BOTH_MS = 60_000
"""A topic that is told with two ids by turns for longer than this is two topics."""
MAX_TOPICS = 100_000


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One sign: which broker or topic, where, and when."""

    broker: int | None
    topic: str | None
    files: tuple[Path, ...]
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class MixedClusterCheck:
    """Notes events as they pass: when brokers wrote in which files, and topics' ids were told."""

    _spans: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _ids: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def note(self, event: LogEvent, source: int) -> None:
        """Stretch the spans of its broker in this file, and of its topic's id, to its time."""
        at_ms, change = event.at_ms, event.change
        if event.broker is not None:
            span = self._spans.get((event.broker, source))
            if span is None:
                self._spans[event.broker, source] = [at_ms, at_ms]
            else:
                span[1] = at_ms
        if change.topic_id is not None and change.topic is not None:
            span = self._ids.get((change.topic, change.topic_id))
            if span is not None:
                span[1] = at_ms
            elif len(self._ids) < MAX_TOPICS:
                self._ids[change.topic, change.topic_id] = [at_ms, at_ms]

    def join(self, other: MixedClusterCheck) -> None:
        """Take in what another one noted of other files."""
        self._spans |= other._spans
        for key, span in other._ids.items():
            mine = self._ids.setdefault(key, span)
            mine[:] = min(mine[0], span[0]), max(mine[1], span[1])

    def suspicions(self, sources: Sequence[LogFile]) -> tuple[Suspicion, ...]:
        """Return one for each broker, and each topic, that is in two places at once."""
        found: list[Suspicion] = []
        paths = {source.number: source.path for source in sources}
        # A broker writes its server.log at the same time.
        of_broker: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}
        for (broker, source), (first, last) in self._spans.items():
            log = (broker, paths[source].name.startswith("server"))
            of_broker.setdefault(log, []).append((first, last, source))
        for (broker, _), spans in sorted(of_broker.items()):
            spans.sort()
            until, held = spans[0][1], spans[0][2]
            for first, last, source in spans[1:]:
                if min(until, last) - first > SAME_TIME_MS:
                    files = (paths[held], paths[source])
                    found.append(Suspicion(broker, None, files, first, min(until, last)))
                    break
                if last > until:
                    until, held = last, source
        of_topic: dict[str, list[list[int]]] = {}
        for (topic, _), span in self._ids.items():
            of_topic.setdefault(topic, []).append(span)
        for topic, ids in sorted(of_topic.items()):
            ids.sort()
            for (_, until), (first, last) in pairwise(ids):
                if min(until, last) - first > BOTH_MS:
                    found.append(Suspicion(None, topic, (), first, min(until, last)))
                    break
        return tuple(found)
