"""Polls a cluster: once, or repeatedly at an interval that adapts to how fast it answers."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from core import bug_log
from core.clock import Clock
from core.cluster.access.hidden_topics import DENIED, HiddenLogDir, HiddenTopics
from core.cluster.client import ClusterClient
from core.cluster.configs import MIN_INSYNC, REMOTE_STORAGE, ConfigValue, Resource, is_remote
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, TrimtabError

TOPIC_CONFIGS = (
    *(MIN_INSYNC, "retention.ms", "retention.bytes", "cleanup.policy"),
    *REMOTE_STORAGE,
)
METADATA_SECONDS = 1.0
LOG_DIRS_SECONDS = 10.0
CONFIGS_SECONDS = 60.0
DENIED_SECONDS = 1800.0
_QUICK_SECONDS = 0.1
_SLOW_FACTOR = 10.0
_MAX_INTERVAL_SECONDS = 30.0
"""One slow answer puts the next question off no longer than this."""


def fetch_cluster_state(client: ClusterClient) -> ClusterState:
    """Return the cluster with sizes, lags and topic configs; raises as `describe_cluster`."""
    state = client.describe_cluster()
    bug_log.note("cluster", lambda: state.counts)
    known = state.with_topics(fetch_topic_configs(client, state.topics))
    answers = client.describe_log_dirs(state.alive_ids)
    hidden = find_hidden_topics(client.fetch_denied_topics, state, answers)
    return replace(with_log_dirs(known, answers), hidden=hidden)


def fetch_hidden_topics(client: ClusterClient, state: ClusterState) -> HiddenTopics:
    """Return which topics are missing in a description, from one look at log dirs."""
    return find_hidden_topics(
        client.fetch_denied_topics, state, client.describe_log_dirs(state.alive_ids)
    )


def fetch_topic_configs(client: ClusterClient, topics: Sequence[Topic]) -> dict[str, Topic]:
    """Return those topics with their configs; those that may not be read stay unknown."""
    try:
        answers = client.describe_configs([Resource.topic(t.name) for t in topics], TOPIC_CONFIGS)
    except AccessDeniedError:  # of every topic
        return {}
    topics_by_name: dict[str, Topic] = {}
    for topic in topics:
        answer = answers.get(Resource.topic(topic.name))
        if answer is not None and not isinstance(answer, Fault):
            topics_by_name[topic.name] = _with_configs(topic, answer)
    return topics_by_name


def _with_configs(topic: Topic, configs: Mapping[str, ConfigValue]) -> Topic:
    def text(name: str) -> str | None:
        config = configs.get(name)
        return config.value if config is not None else None

    def number(name: str) -> int | None:
        value = text(name)
        return None if value is None else int(value)

    return Topic(
        topic.name,
        topic.id,
        min_insync=number(MIN_INSYNC),
        retention_ms=number("retention.ms"),
        cleanup_policy=text("cleanup.policy"),
        retention_bytes=number("retention.bytes"),
        remote_storage=is_remote(map(text, REMOTE_STORAGE)) if configs else None,
    )


def find_hidden_topics(
    denied_topics: Callable[[Collection[str]], frozenset[str]],
    state: ClusterState,
    answers: Collection[BrokerLogs],
) -> HiddenTopics:
    """Return which topics are in brokers' log dirs, not in the `state`, and denied by name.

    `denied_topics` returns which of some names are.

    A topic that was created or deleted between the two looks is not denied, and is not hidden.
    Raises what that raises.
    """
    known_of = {answer.broker for answer in answers if answer.error is None}
    unknown = tuple(sorted({broker.id for broker in state.brokers} - known_of))
    known = state.topic_index
    absent = {log.topic for answer in answers for log in answer.replicas if log.topic not in known}
    hidden = denied_topics(absent)
    if not hidden:
        denied = any("AUTHORIZATION" in (answer.error or "") for answer in answers)
        return HiddenTopics(unknown_brokers=unknown, why_unknown=DENIED if denied else "")
    held: defaultdict[tuple[int, str], list[ReplicaLog]] = defaultdict(list)
    for answer in answers:
        for log in answer.replicas:
            if log.topic in hidden:
                held[answer.broker, log.log_dir].append(log)
    dirs = tuple(
        HiddenLogDir(
            *place,
            topics=len({log.topic for log in logs}),
            replicas=sum(not log.future for log in logs),
            size_bytes=sum(max(0, log.size_bytes) for log in logs),
        )
        for place, logs in sorted(held.items())
    )
    return HiddenTopics(len(hidden), dirs, unknown)


class _DeniedTopicsCache:
    """Which names are denied, as brokers answered once: they log each question about such a one.

    All are asked about anew every `DENIED_SECONDS`, and one that was away when it is back.
    """

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._is_denied: dict[str, bool] = {}
        self._renewed = -math.inf

    def of(self, names: Collection[str]) -> frozenset[str]:
        """Return which of `names` are denied; all others are forgotten. Raises what a call does."""
        now = self._clock.monotonic()
        due = now - self._renewed >= DENIED_SECONDS
        known = {} if due else {n: self._is_denied[n] for n in names if n in self._is_denied}
        if new := set(names) - known.keys():
            denied = self._client.fetch_denied_topics(new)
            known |= {name: name in denied for name in new}
        if due:
            self._renewed = now
        self._is_denied = known
        return frozenset(name for name, is_denied in known.items() if is_denied)


class _PollInterval:
    """When a call is due again: at its interval while it is quick, else at ten times its duration.

    Ten times one slow answer would be minutes in which nobody looks: there is a cap, and of the
    last two answers the quicker one counts. A cluster that hung for a while is not slow.

    Durations are by `stopwatch`, this machine's time, whatever clock the cluster lives by.
    """

    def __init__(self, clock: Clock, seconds: float, stopwatch: Callable[[], float]) -> None:
        self._clock = clock
        self._stopwatch = stopwatch
        self._seconds = seconds
        self._last_poll: float | None = None
        self.answered = False
        self.took_seconds = 0.0
        self._takes_seconds = 0.0

    @property
    def every_seconds(self) -> float:
        takes = self._takes_seconds
        slow = takes * _SLOW_FACTOR if takes > _QUICK_SECONDS else 0.0
        return max(self._seconds, min(slow, _MAX_INTERVAL_SECONDS))

    @property
    def wait_seconds(self) -> float:
        if self._last_poll is None:
            return 0.0
        return max(0.0, self._last_poll + self.every_seconds - self._clock.monotonic())

    def begin(self) -> float:
        # Counted from the question, and also when no answer comes: a sick cluster is not pressed.
        self._last_poll = self._clock.monotonic()
        return self._stopwatch()

    def end(self, begun: float) -> None:
        self.answered = True
        before, self.took_seconds = self.took_seconds, self._stopwatch() - begun
        self._takes_seconds = min(before or math.inf, self.took_seconds)

    def forget(self) -> None:
        """Forget how long answers took: those of a cluster that was lost say nothing of it."""
        self.took_seconds = self._takes_seconds = 0.0


class Observer:
    """One cluster watched over time; for one thread. Without `sizes` no log dirs are asked for."""

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        stopwatch: Callable[[], float] = time.monotonic,
        *,
        sizes: bool = True,
    ) -> None:
        self._client = client
        self._stopwatch = stopwatch
        self._sizes = sizes
        self._metadata = _PollInterval(clock, METADATA_SECONDS, stopwatch)
        self._log_dirs = _PollInterval(clock, LOG_DIRS_SECONDS, stopwatch)
        self._configs = _PollInterval(clock, CONFIGS_SECONDS, stopwatch)
        self._state: ClusterState | None = None
        self._lost: TrimtabError | None = None
        """Why the newest question for metadata has no answer."""
        self.metadata_at = 0.0
        """When the metadata of the newest state was asked for, by the stopwatch."""
        self._logs: dict[int, BrokerLogs] = {}
        self._denied = _DeniedTopicsCache(client, clock)
        self._hidden: HiddenTopics | None = None
        self._topics: dict[str, Topic] = {}
        self._described_topics: frozenset[tuple[str, str | None]] = frozenset()
        """Topics, by name and id, whose configs were asked for, whatever came of it."""
        self._last: ClusterState | None = None

    @property
    def metadata_interval_seconds(self) -> float:
        """Return how far looks at the metadata are apart, by how long the last one took."""
        return self._metadata.every_seconds

    @property
    def state_interval_seconds(self) -> float:
        """Return how far states are apart at most: none is taken while a slow call lasts."""
        slow = max(self._log_dirs.took_seconds, self._configs.took_seconds)
        return max(self._metadata.every_seconds, slow)

    def slow_call_seconds(self, within_seconds: float) -> float | None:
        """Return how long the slow calls lasted that are due within that time; None if unknown."""
        due = [call for call in self._slow_calls if call.wait_seconds <= within_seconds]
        if not all(call.answered for call in due):
            return None
        return max((call.took_seconds for call in due), default=0.0)

    def seconds_until_due(self) -> float:
        """Return the seconds until a call is due; the first poll is due at once."""
        if self._lost is not None:
            return self._metadata.wait_seconds
        return min(call.wait_seconds for call in (self._metadata, *self._slow_calls))

    @property
    def _slow_calls(self) -> Sequence[_PollInterval]:
        return (self._configs, self._log_dirs) if self._sizes else (self._configs,)

    def first_state(self, describe: Callable[[], ClusterState]) -> ClusterState:
        """Return a first state, of what `describe` gives or raises; the rest is due next."""
        return self._merge_slow_answers(self._describe(describe))

    def poll(self, *, at_once: bool = False) -> ClusterState:
        """Make the calls that are due and return the newest state of all of them.

        With `at_once` metadata is asked for though it is not due. Raises UnreachableError or
        AccessDeniedError, and again until metadata has been answered: what was there before the
        cluster was lost is not news. It is asked for again when it is due.
        """
        state = self._state
        if state is None or at_once or self._metadata.wait_seconds == 0:
            state = self._describe(self._client.describe_cluster)
        elif self._lost is not None:
            raise self._lost
        self._poll_slow_calls(state)
        return self._merge_slow_answers(state)

    def ping(self) -> None:
        """Ask whether the cluster is there; raise what `poll` then raises until metadata is due."""
        try:
            self._client.ping()
        except TrimtabError as error:
            self._lost = error
            raise

    def _describe(self, describe: Callable[[], ClusterState]) -> ClusterState:
        begun = self._metadata.begin()
        try:
            described = describe()
        except TrimtabError as error:
            self._lost = error
            raise
        finally:
            self._metadata.end(begun)
        if self._lost is not None:
            self._metadata.forget()
        self._state, self._lost, self.metadata_at = described, None, begun
        bug_log.note("cluster", lambda: described.counts)
        return described

    def _poll_slow_calls(self, state: ClusterState) -> None:
        if self._sizes and self._log_dirs.wait_seconds == 0:
            begun = self._log_dirs.begin()
            answers = self._client.describe_log_dirs(state.alive_ids)
            good = {answer.broker: answer for answer in answers if answer.error is None}
            self._logs |= good
            there = state.broker_by_id
            # A broker that is away, or silent for once, holds what it held.
            latest = [
                *(answer for broker, answer in self._logs.items() if broker in there),
                *(answer for answer in answers if answer.broker not in self._logs),
            ]
            self._hidden = find_hidden_topics(self._denied.of, state, latest)
            self._log_dirs.end(begun)
            self._last = None
        topics = frozenset((topic.name, topic.id) for topic in state.topics)
        if self._configs.wait_seconds == 0:
            begun = self._configs.begin()
            topics_by_name = fetch_topic_configs(self._client, state.topics)
            self._configs.end(begun)
        elif fresh := topics - self._described_topics:
            # At once: a topic is told as created with the configs that it was created with.
            topics_by_name = fetch_topic_configs(
                self._client, [topic for topic in state.topics if (topic.name, topic.id) in fresh]
            )
        else:
            return
        self._described_topics = topics
        # What may not be read this time is as it was.
        self._topics = {
            name: topic for name, topic in self._topics.items() if (name, topic.id) in topics
        } | topics_by_name

    def _merge_slow_answers(self, state: ClusterState) -> ClusterState:
        # A topic that was made again under its name has new configs, not yet read.
        known = {
            topic.name: self._topics[topic.name]
            for topic in state.topics
            if topic.name in self._topics and self._topics[topic.name].id == topic.id
        }
        state = state.with_topics(known)
        last = self._last
        if last is not None and last.log_dir_paths and _has_same_layout(last, state):
            joined = _with_log_dirs_of(last, state)
        else:
            present = state.broker_by_id
            logs = [answer for broker, answer in self._logs.items() if broker in present]
            joined = with_log_dirs(state, logs)
        joined = replace(joined, hidden=self._hidden)
        self._last = joined
        return joined


def _has_same_layout(a: ClusterState, b: ClusterState) -> bool:
    return [t.id for t in a.topics] == [t.id for t in b.topics] and all(
        np.array_equal(getattr(a, column), getattr(b, column))
        for column in ("topic_of", "partition", "replica_start", "replica_broker")
    )


def _with_log_dirs_of(last: ClusterState, state: ClusterState) -> ClusterState:
    """Return `state` with the log dirs joined to `last`: joining a million replicas takes long."""
    dirs = {broker.id: broker.log_dirs for broker in last.brokers}
    return replace(
        state,
        brokers=tuple(replace(b, log_dirs=dirs.get(b.id, ())) for b in state.brokers),
        size_bytes=last.size_bytes,
        lag=last.lag,
        log_dir=last.log_dir,
        log_dir_paths=last.log_dir_paths,
        future_replicas=last.future_replicas,
    )
