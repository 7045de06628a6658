"""Lowers topics' retention for a run, and restores it exactly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.configs import (
    REMOTE_STORAGE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Resource,
    ResourceKind,
    is_remote,
)
from core.cluster.kafka_errors import Fault, is_missing, is_transient
from core.cluster.metadata import TopicPartition
from core.run.backoff import RETRY_SECONDS, Backoff, with_denials_as_faults
from core.run.engine.mover import replica_locations
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.journal.retention_records import RETENTION, Retention, RetentionIntent
from core.run.journal.throttle_values import own_value

CLEANUP = "cleanup.policy"
NEEDED = (RETENTION, CLEANUP, *REMOTE_STORAGE)
"""What must be known of a topic before its retention is lowered."""
KEPT_REMOTELY = "it is kept in remote storage, where the same records would be deleted"
SHORTER_SECONDS = 330.0
"""How long logs are given to become shorter: brokers look every five minutes by default."""
OFFSETS_SECONDS = 5.0
UNLIMITED_MS = -1


class RetentionWriter:
    """What one run does to its topics' retention, before its moves and after them."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._state = recorder.state
        self.backoff = Backoff[Resource](clock)
        request = self._state.retention
        before = request.topics if request is not None and not request.lowered else ()
        self._unanswered: set[str] = set(before)
        """Topics whose retention may be lowered though no answer has said so."""
        self._since: float | None = None
        self._due = 0.0
        self._waited = False

    @property
    def _retention(self) -> Retention:
        assert self._state.retention is not None, "it is asked for"
        return self._state.retention

    def lower(self) -> None:
        """Journal the topics' retention as it is, then lower it where that makes it less."""
        retention = self._retention
        if not retention.intended:
            self._intend(retention.ms)
            return
        self._update_intents(retention)
        retention = self._retention  # as it is intended now
        changes = [
            ConfigChange(Resource.topic(topic), RETENTION, ConfigOp.SET, str(retention.ms))
            for topic in retention.topics
        ]
        doubtful = set(self._unanswered)
        self._unanswered |= retention.topics.keys()
        answers = self._client.alter_configs(changes) if changes else {}
        faults = {r.name: f for r, f in answers.items() if f is not None and not is_missing(f)}
        passing = [topic for topic, fault in faults.items() if is_transient(fault)]
        self._unanswered = doubtful.union(passing)
        if passing:
            self._wait_to_retry(passing[0], "lowered", faults)
            return
        # What is refused now may have been done before: such a topic's is looked at in the end.
        refused = {topic: str(fault) for topic, fault in faults.items() if topic not in doubtful}
        self._recorder.write(
            Kind.RETENTION_LOWERED,
            topics=sorted(retention.topics.keys() - refused.keys()),
            refused=refused,
        )

    def _intend(self, retention_ms: int) -> None:
        queued = [self._state.moves[i].move for i in self._state.queued]
        tps = [move.tp for move in queued if move.receiving]
        resources = [Resource.topic(topic) for topic in sorted({tp.topic for tp in tps})]
        answers = self._client.describe_configs(resources, NEEDED) if resources else {}
        faults = {
            r.name: a for r, a in answers.items() if isinstance(a, Fault) and not is_missing(a)
        }
        if passing := [topic for topic, fault in faults.items() if is_transient(fault)]:
            self._wait_to_retry(passing[0], "known", faults)
            return
        intents = [i for r, answer in answers.items() if (i := _intent(r, answer, retention_ms))]
        topics = {intent.topic for intent in intents}
        lowered = [tp for tp in tps if tp.topic in topics]
        earliest = self._client.fetch_offsets(lowered, OffsetAt.EARLIEST) if lowered else {}
        refused = {topic: str(fault) for topic, fault in faults.items()}
        refused |= {r.name: KEPT_REMOTELY for r, answer in answers.items() if _is_remote(answer)}
        self._journal_intents(retention_ms, intents, earliest, refused)

    def _update_intents(self, retention: Retention) -> None:
        """Journal anew what somebody has changed since it was intended: theirs is put back."""
        resources = [Resource.topic(topic) for topic in retention.topics]
        answers = self._client.describe_configs(resources, NEEDED) if resources else {}
        intents = dict(retention.topics)
        for resource, answer in answers.items():
            if isinstance(answer, Fault):
                continue
            own = own_value(answer.get(RETENTION), ResourceKind.TOPIC)
            if own in (intents[resource.name].own_value, str(retention.ms)):
                continue
            anew = _intent(resource, answer, retention.ms)
            if anew is None:
                del intents[resource.name]
            else:
                intents[resource.name] = anew
        if intents != dict(retention.topics):
            self._journal_intents(retention.ms, intents.values(), retention.earliest)

    def _journal_intents(
        self,
        ms: int,
        intents: Iterable[RetentionIntent],
        earliest: Mapping[TopicPartition, int],
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self._recorder.write(
            Kind.RETENTION_LOWERING,
            ms=ms,
            topics=[intent.to_json() for intent in intents],
            earliest=[[tp.topic, tp.partition, offset] for tp, offset in earliest.items()],
            **({"refused": refused} if refused else {}),
        )

    @property
    def shorter(self) -> bool:
        """Return whether the logs have become shorter, or have had the time for it."""
        retention = self._state.retention
        if retention is None or not retention.lowered or retention.awaited:
            return False
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if not retention.earliest or now - self._since >= SHORTER_SECONDS:
            return True
        if now >= self._due:
            self._due = now + OFFSETS_SECONDS
            still = retention.earliest.keys() - self._moved()
            # What was deleted is not waited for.
            state = self._client.describe_cluster() if still else None
            self._waited = state is None or all(state.find(tp) is None for tp in still)
        return self._waited

    def note_shorter(self) -> None:
        retention = self._retention
        sizes = self._leader_sizes(retention.earliest)
        known = {i: m for i in sizes if (m := self._state.moves[i]).size_bytes is not None}
        before = sum((m.size_bytes or 0) * len(m.move.receiving) for m in known.values())
        after = sum(sizes[i] * len(m.move.receiving) for i, m in known.items())
        self._recorder.write(
            Kind.RETENTION_AWAITED,
            moved=len(self._moved()),
            of=len(retention.earliest),
            sizes=[[index, size] for index, size in sizes.items()],
            before_bytes=before,
            after_bytes=after,
        )

    def _leader_sizes(self, tps: Collection[TopicPartition]) -> dict[int, int]:
        """Return by move how long the logs of leaders are now, as far as brokers tell."""
        queued = ((i, self._state.moves[i]) for i in self._state.queued)
        places = {
            (m.move.tp, m.leader): i
            for i, m in queued
            if m.move.tp in tps and m.leader is not None and m.leader >= 0
        }
        brokers = sorted({broker for _, broker in places})
        answers = self._client.describe_log_dirs(brokers) if brokers else ()
        locations = replica_locations(answers, places)
        return {places[place]: location.size_bytes for place, location in locations.items()}

    def _moved(self) -> set[TopicPartition]:
        """Return the partitions whose log begins later than before; one not told of has not."""
        before = self._retention.earliest
        now = self._client.fetch_offsets(list(before), OffsetAt.EARLIEST) if before else {}
        return {tp for tp, offset in before.items() if now.get(tp, offset) > offset}

    def restore(self, topics: tuple[str, ...]) -> None:
        """Put retention back as it was found, unless somebody has changed it meanwhile."""
        retention = self._retention
        # And what was refused: tried by turns, an intent for each turn would fill the journal.
        left = (t for t in retention.topics if t in topics or Resource.topic(t) in self.backoff)
        self._recorder.intend_once(Kind.RETENTION_RESTORING, topics=list(left))
        client = with_denials_as_faults(self._client)  # a topic that is denied holds up no other
        configs = client.describe_configs([Resource.topic(topic) for topic in topics], [RETENTION])
        how: dict[str, str] = {}
        faults: dict[str, Fault] = {}
        changes = []
        for topic in topics:
            intent, answer = retention.topics[topic], configs[Resource.topic(topic)]
            if isinstance(answer, Fault):
                if is_missing(answer):
                    how[topic] = "gone"
                else:
                    faults[topic] = answer
                continue
            # As found is written again: a broker that is behind may not show ours yet.
            own = own_value(answer.get(RETENTION), ResourceKind.TOPIC)
            if own not in (str(retention.ms), intent.own_value):
                how[topic] = "changed"
                continue
            op = ConfigOp.SET if intent.own else ConfigOp.DELETE
            changes.append(ConfigChange(Resource.topic(topic), RETENTION, op, intent.own_value))
            how[topic] = "set" if intent.own else "unset"
        answers = client.alter_configs(changes) if changes else {}
        faults |= {r.name: f for r, f in answers.items() if f is not None and not is_missing(f)}
        done = {topic: word for topic, word in how.items() if topic not in faults}
        if done:
            self._recorder.record_outcome(Kind.RETENTION_RESTORED, topics=done)
        refused = {
            Resource.topic(topic): f"the retention of {topic} cannot be put back: {fault}"
            for topic, fault in faults.items()
        }
        self.backoff.tried([Resource.topic(topic) for topic in topics], refused)

    def _wait_to_retry(self, topic: str, what: str, faults: Mapping[str, Fault]) -> None:
        why = f"the retention of {topic} is not {what} yet ({faults[topic]})"
        self._recorder.note_waiting(f"{why}: it is asked again")
        self._clock.sleep(RETRY_SECONDS)


def _is_remote(answer: Mapping[str, ConfigValue] | Fault) -> bool:
    if isinstance(answer, Fault):
        return False
    return is_remote(value.value for name in REMOTE_STORAGE if (value := answer.get(name)))


def _intent(
    resource: Resource, answer: Mapping[str, ConfigValue] | Fault, retention_ms: int
) -> RetentionIntent | None:
    """Return how a topic's retention is found where `retention_ms` is less; None where it is not.

    Nor where a topic is only compacted: then nothing is deleted by its age (UnifiedLog); nor where
    it is kept in remote storage, which expires records by retention.ms, too (RemoteLogManager).
    """
    if isinstance(answer, Fault) or _is_remote(answer):
        return None
    policy = answer.get(CLEANUP)
    if policy is not None and policy.value is not None and "delete" not in policy.value:
        return None
    value = answer.get(RETENTION, ConfigValue(None, ConfigSource.UNKNOWN))
    now_ms = int(value.value or UNLIMITED_MS)
    if now_ms != UNLIMITED_MS and now_ms <= retention_ms:
        return None
    return RetentionIntent(resource.name, value.value, value.source)
