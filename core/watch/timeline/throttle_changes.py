"""Throttles that no run of this machine has set, for the timeline: set, changed, gone."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import Resource, ResourceKind
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError
from core.run.external.throttles import (
    Answers,
    any_rate,
    explain_throttles,
    fetch_list_configs,
    fetch_rate_configs,
)
from core.run.journal.throttle_values import ALL, RATES, entries
from core.run.reporting.runs import with_throttles
from core.units import format_rate
from core.watch.timeline.event_sources import RECORDER, AccessNotice, authorization_fault
from core.watch.timeline.events import Event, Kind, Note

POLL_SECONDS: Final = 60.0
"""As often as topics' other configs are looked at."""
IDLE_SECONDS: Final = 600.0
"""How often topics' lists are looked at while no broker has a rate."""
COST: Final = 10.0
"""So many times the duration of what was asked is it not asked again."""
_Key = tuple[Resource, str]
"""A broker or topic, and the config."""
_NOTE_TEXT = re.compile(r"(\S+) (?:set to|found at) (.+?)(?:, before it .*)?")


class ThrottleEvents:
    """Looks at throttles again and again; `already_known` was told before.

    Brokers' rates are asked for once a minute; topics' lists, of which there may be thousands, as
    often while any rate is set, else now and then: they throttle nothing without one. Neither more
    often than at ten times its duration by the `stopwatch`, this machine's time.

    What runs of this machine set is left to their own story.
    """

    def __init__(
        self,
        client: ClusterClient,
        cluster_id: str,
        clock: Clock,
        already_known: Iterable[Event] = (),
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._cluster_id, self._clock = client, cluster_id, clock
        self._stopwatch = stopwatch
        self._due = self._lists_due = self._idle_due = float("-inf")
        self._limited = False
        """Whether a rate was set at the last look: lists go as rates do."""
        self._first = True
        self._access = AccessNotice(Kind.CONFIG, "brokers' throttle rates")
        self._known: dict[_Key, str] = {}
        for event in already_known:
            self._remember(event)

    def _remember(self, event: Event) -> None:
        if not isinstance(event.after, Note) or event.after.by == RECORDER:
            return
        topic, brokers = event.topic, event.after.brokers
        of = Resource.topic(topic) if topic is not None else Resource.broker(brokers[0])
        if (found := _NOTE_TEXT.fullmatch(event.after.text)) is not None:
            self._known[of, found[1]] = found[2]
        else:
            self._known.pop((of, event.after.text.split(" ")[0]), None)

    def news(self, state: ClusterState) -> list[Event]:
        """Return what has changed since the last look. Raises what asking the cluster raises."""
        if (now := self._clock.monotonic()) < self._due:
            return []
        self._due = now + POLL_SECONDS
        begun = self._stopwatch()
        try:
            answers = dict(fetch_rate_configs(self._client, state))
        except AccessDeniedError as error:  # of every broker
            return self._access.notice(state.fetched_at, error.title)
        access = self._access.notice(state.fetched_at, authorization_fault(answers.values()))
        limited, self._limited = self._limited, any_rate(answers)
        self._due = self._after(now, begun, POLL_SECONDS)
        if now >= (self._lists_due if limited or self._limited else self._idle_due):
            begun = self._stopwatch()
            lists = fetch_list_configs(self._client, [topic.name for topic in state.topics])
            self._lists_due = self._after(now, begun, POLL_SECONDS)
            self._idle_due = self._after(now, begun, IDLE_SECONDS)
            answers |= lists
        return [*access, *self._changed_notes(state, answers)]

    def _after(self, now: float, begun: float, seconds: float) -> float:
        return now + max(seconds, COST * (self._stopwatch() - begun))

    def _changed_notes(self, state: ClusterState, answers: Answers) -> list[Event]:
        """Return what has changed, by what was asked for."""
        seen, untold = self._read(state, answers)
        fresh = {key for key, words in seen.items() if words != self._known.get(key)}
        if fresh:
            # A run of ours may have set it right after its journal was read: that tells by now.
            again, _ = self._read(state, self._fetch_current({of for of, _ in fresh}))
            fresh = {key for key in fresh if again.get(key) == seen[key]}
        gone = {key for key in self._known if key not in seen and key not in untold}
        events = [self._set(state, key, seen[key]) for key in sorted(fresh, key=str)]
        for key in sorted(gone, key=str):
            del self._known[key]
            if _exists(state, key[0]):
                events.append(_event(state, key, "is set no more"))
        self._first = False
        return events

    def _fetch_current(self, of: Collection[Resource]) -> Answers:
        brokers = [one for one in of if one.kind is ResourceKind.BROKER]
        topics = [one.name for one in of if one.kind is ResourceKind.TOPIC]
        rates = self._client.describe_configs(brokers, RATES) if brokers else {}
        return {**rates, **fetch_list_configs(self._client, topics)}

    def _read(self, state: ClusterState, answers: Answers) -> tuple[dict[_Key, str], set[_Key]]:
        """Return others' throttles in words, and of which known ones nothing can be said now."""
        found, faults = explain_throttles(answers, {}, {}, with_throttles(self._cluster_id))
        values: defaultdict[_Key, set[str]] = defaultdict(set)
        ours = set()
        for one in found:
            key = (one.resource, one.config)
            if one.run is not None:
                ours.add(key)
            else:
                values[key] |= entries(one.value) or {""}
        silent = {
            key
            for key in self._known
            if key[0] in faults or (key[0] not in answers and _exists(state, key[0]))
        }
        return {key: _format_value(key[1], of) for key, of in values.items()}, ours | silent

    def _set(self, state: ClusterState, key: _Key, words: str) -> Event:
        before, self._known[key] = self._known.get(key), words
        if before is not None:
            return _event(state, key, f"set to {words}, before it {before}")
        return _event(state, key, f"{'found at' if self._first else 'set to'} {words}")


def _format_value(config: str, values: set[str]) -> str:
    """Return a rate, or how many replicas a list names."""
    if config in RATES:
        (rate,) = values
        return format_rate(int(rate))
    if ALL in values:
        return "every replica"
    count = len(values - {""})
    return f"{count or 'no'} replica{'' if count == 1 else 's'}"


def _event(state: ClusterState, key: _Key, text: str) -> Event:
    of, config = key
    is_topic = of.kind is ResourceKind.TOPIC
    brokers = () if is_topic else (int(of.name),)
    note = Note(f"{of.kind.value} {of.name}", f"{config} {text}", brokers)
    return Event(state.fetched_at, Kind.CONFIG, None, note, of.name if is_topic else None)


def _exists(state: ClusterState, of: Resource) -> bool:
    if of.kind is ResourceKind.TOPIC:
        return state.topic(of.name) is not None
    return int(of.name) in state.broker_by_id
