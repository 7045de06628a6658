"""Retention of moving topics that a run has lowered, and its original values.

Leaders delete whole closed segments, and look for them every five minutes by default
(log.retention.check.interval.ms): a run waits for the logs to get shorter, and no longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.cluster.configs import ConfigSource
from core.cluster.metadata import TopicPartition
from core.run.journal.records import Kind, Record

RETENTION = "retention.ms"


@dataclass(frozen=True, slots=True)
class RetentionIntent:
    """One topic's retention.ms: how it was found, with its source."""

    topic: str
    prior: str | None
    source: ConfigSource

    @property
    def own(self) -> bool:
        """Return whether somebody had set it on this very topic."""
        return self.source is ConfigSource.TOPIC and self.prior is not None

    @property
    def own_value(self) -> str | None:
        """Return what was set on the topic itself, None when nothing was."""
        return self.prior if self.own else None

    def to_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "prior": self.prior, "source": self.source.name}

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> RetentionIntent:
        return cls(p["topic"], p["prior"], ConfigSource[p["source"]])


@dataclass(frozen=True, slots=True)
class Retention:
    """What is asked of the moving topics' retention, and how far it is: folded from the journal."""

    ms: int
    intended: bool = False
    lowered: bool = False
    awaited: bool = False
    topics: Mapping[str, RetentionIntent] = field(default_factory=dict)
    """Those that we lowered (or were about to), and have not put back yet."""
    earliest: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the logs began before."""

    def after(self, record: Record) -> Retention:
        """Return what a record makes of it."""
        p = record.payload
        match record.kind:
            case Kind.RETENTION_LOWERING:
                intents = [RetentionIntent.from_json(entry) for entry in p["topics"]]
                earliest = {TopicPartition(t, n): offset for t, n, offset in p["earliest"]}
                topics = {intent.topic: intent for intent in intents}
                return replace(self, intended=True, topics=topics, earliest=earliest)
            case Kind.RETENTION_LOWERED:
                refused = p.get("refused", {})
                kept = {t: i for t, i in self.topics.items() if t not in refused}
                earliest = {tp: o for tp, o in self.earliest.items() if tp.topic not in refused}
                return replace(self, lowered=True, topics=kept, earliest=earliest)
            case Kind.RETENTION_AWAITED:
                return replace(self, awaited=True)
            case Kind.RETENTION_RESTORED:
                left = {t: i for t, i in self.topics.items() if t not in p["topics"]}
                return replace(self, topics=left)
            case _:
                return self
