"""Topics that this user may not describe: metadata leaves them out, and log dirs hold them.

Kafka answers DescribeLogDirs for every replica to who has DESCRIBE on the cluster, and Metadata
of all topics only with those that the user has DESCRIBE on (KafkaApis).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.units import counted, format_bytes

REMEDY = "Allow DESCRIBE on these topics."
REMEDY_UNKNOWN = "Allow DESCRIBE on the cluster."
MAX_NAMED = 3
DENIED = "this user may not describe log dirs"


@dataclass(frozen=True, slots=True)
class HiddenLogDir:
    """What one log dir of a broker holds of topics that are hidden."""

    broker: int
    path: str
    topics: int
    replicas: int
    size_bytes: int
    """Copies on their way to this log dir included."""


@dataclass(frozen=True, slots=True)
class HiddenTopics:
    """How many topics are hidden, and what log dirs hold of them, by broker and path."""

    topics: int = 0
    logs: tuple[HiddenLogDir, ...] = ()
    unknown_brokers: tuple[int, ...] = ()
    """Brokers, also such as are down, of whose log dirs nothing is known: it may be more."""
    why_unknown: str = ""
    """Why it is not known whether any is hidden, in a clause; "" where it is."""

    def __post_init__(self) -> None:
        if self.unknown_brokers and not (self.topics or self.why_unknown):
            object.__setattr__(self, "why_unknown", _unknown_brokers_clause(self.unknown_brokers))

    @property
    def count(self) -> int | None:
        """Return how many topics are hidden, None where that is not known."""
        return None if self.why_unknown else self.topics

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is hidden, as far as brokers tell."""
        return not (self.topics or self.why_unknown)

    @property
    def takes_rights(self) -> bool:
        """Return whether topics are, or may be, hidden as this user may not describe them."""
        return bool(self.topics) or self.why_unknown == DENIED

    @property
    def has_only_unknown_brokers(self) -> bool:
        """Return whether nothing is hidden but for what `unknown_brokers` may hold."""
        return bool(self.unknown_brokers) and self.why_unknown == _unknown_brokers_clause(
            self.unknown_brokers
        )

    @property
    def replicas(self) -> int:
        return sum(log.replicas for log in self.logs)

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)

    @property
    def sentence(self) -> str:
        """Return what is hidden, "" where nothing is known to be."""
        if self.why_unknown:
            return f"Whether topics are hidden is not known: {self.why_unknown}."
        if not self.topics:
            return ""
        is_one = self.topics == 1
        prefix = "At least " if self.unknown_brokers else ""
        return (
            f"{prefix}{counted(self.topics, 'topic')} {'is' if is_one else 'are'} hidden, as this "
            f"user may not describe {'it' if is_one else 'them'}: brokers hold "
            f"{counted(self.replicas, 'replica')}, {format_bytes(self.size_bytes)}."
        )

    @property
    def remedy(self) -> str:
        """Return which right would show all; "" where nothing is known to be hidden."""
        if self.why_unknown:
            return REMEDY_UNKNOWN if self.why_unknown == DENIED else ""
        return REMEDY if self.topics else ""

    @property
    def advice(self) -> str:
        """Return what is hidden, and what would show it."""
        return f"{self.sentence} {self.remedy}".strip()

    def by_broker(self, amount: Callable[[HiddenLogDir], int]) -> Mapping[int, int]:
        """Return how much of some amount each broker is known to hold of them."""
        totals: Counter[int] = Counter()
        for log in self.logs:
            totals[log.broker] += amount(log)
        return totals

    def bytes_by_dir(self, broker: int) -> Mapping[str, int]:
        """Return what each log dir of a broker holds of them, where it holds any."""
        return {log.path: log.size_bytes for log in self.logs if log.broker == broker}


def _unknown_brokers_clause(brokers: Sequence[int]) -> str:
    """Return in a clause that brokers do not tell what they hold."""
    if len(brokers) == 1:
        return f"broker {brokers[0]} does not tell its log dirs"
    # Saved clusters hold this clause, and are asked for exactly it: its words stay.
    more = len(brokers) - MAX_NAMED
    named = ", ".join(map(str, brokers[:MAX_NAMED])) + (f" and {more:,} more" if more > 0 else "")
    return f"brokers {named} do not tell their log dirs"


def is_partial(hidden: HiddenTopics | None) -> bool:
    """Return whether topics are hidden, or may be as far as anybody has looked."""
    return hidden is not None and not hidden.is_complete


def hidden_topics_to_json(hidden: HiddenTopics | None) -> dict[str, Any] | None:
    """Return what is hidden as plain JSON values, None where nobody has looked."""
    if hidden is None:
        return None
    known = not hidden.why_unknown
    return {
        "topics": hidden.topics if known else None,
        "replicas": hidden.replicas if known else None,
        "bytes": hidden.size_bytes if known else None,
        "log_dirs": [
            {
                "broker": log.broker,
                "path": log.path,
                "topics": log.topics,
                "replicas": log.replicas,
                "bytes": log.size_bytes,
            }
            for log in hidden.logs
        ],
        "unknown_brokers": list(hidden.unknown_brokers),
        "why_unknown": hidden.why_unknown or None,
    }
