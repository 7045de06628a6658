"""Retention that could be lowered before a plan: bytes saved, and who has not read them yet.

A run lowers it for all moving topics alike (`apply --retention`), and puts it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.catalogue import Finding, finding
from core.plan.plan import Plan, moves_with_rows
from core.units import counted, format_bytes, format_duration, name_list

HOUR = 3600
DURATIONS = tuple(hours * HOUR for hours in (1, 2, 3, 6, 12, 24, 48, 72, 168))
"""What is advised, the shortest first, in seconds."""
TIMES_BEHIND = 2.0
"""The slowest reader keeps so many times what it has yet to read."""
SEGMENT_BYTES = 1 << 30
"""segment.bytes by default. Only closed segments are deleted: up to one more stays."""
FOREVER_MS = -1


@dataclass(frozen=True, slots=True)
class TopicSavings:
    """One topic: bytes, of all its copies, that would not be made; the minimum is sure."""

    topic: str
    retention_ms: int
    min_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class LaggingReader:
    """A group that has, or may have, records to read; `behind_seconds` is None if not known."""

    group: str
    topic: str
    behind_seconds: float | None


@dataclass(frozen=True, slots=True)
class RetentionSavings:
    """What a retention of so many seconds would save, over all moving topics.

    `losing` are readers that would lose what they have not read, `unsure` those of whom it is not
    known; `forever` are topics that are meant to keep everything, `remote` those in remote storage,
    where the same retention deletes.
    """

    seconds: int
    topics: tuple[TopicSavings, ...]
    losing: tuple[LaggingReader, ...] = ()
    unsure: tuple[LaggingReader, ...] = ()
    forever: tuple[str, ...] = ()
    readers_known: bool = True
    remote: tuple[str, ...] = ()
    remote_unknown: tuple[str, ...] = ()

    @property
    def min_bytes(self) -> int:
        return sum(topic.min_bytes for topic in self.topics)

    @property
    def max_bytes(self) -> int:
        return sum(topic.max_bytes for topic in self.topics)

    @property
    def is_advised(self) -> bool:
        """Return whether it saves something and deletes nothing unread, or in remote storage."""
        readers = self.losing or self.unsure or not self.readers_known
        against = readers or self.forever or self.remote or self.remote_unknown
        return bool(self.max_bytes) and not against


def estimate_retention_savings(
    state: ClusterState,
    load: Load,
    plan: Plan,
    groups: Sequence[DocumentGroup] | None,
    seconds: int | None = None,
) -> RetentionSavings | None:
    """Return what a retention of `seconds` saves; by default of the least that readers can bear.

    None when nothing of the plan could be shortened: nothing is known to be deleted by time.
    """
    # How many copies of a partition are made, by row; those of known size only.
    copies = {
        row: len(move.receiving)
        for move, row in moves_with_rows(state, plan)
        if move.receiving and state.partition_size_bytes[row] >= 0
    }
    topics = _aging_topics(state, plan)
    readers = _readers(state, load, groups or (), topics)
    if seconds is None:
        behind = max((r.behind_seconds or 0.0 for r in readers), default=0.0) * TIMES_BEHIND
        seconds = next((s for s in DURATIONS if s >= behind), DURATIONS[-1])
    shrunk_topics = [
        shrunk
        for topic in topics
        if (shrunk := _topic_savings(state, load, copies, topic, seconds)) is not None
    ]
    if not shrunk_topics:
        return None
    remote = in_remote_storage(state, plan, seconds * 1000)
    return RetentionSavings(
        seconds,
        tuple(sorted(shrunk_topics, key=lambda shrunk: (-shrunk.max_bytes, shrunk.topic))),
        _losing_readers(readers, seconds),
        tuple(r for r in readers if r.behind_seconds is None),
        tuple(topic.name for topic in topics if _retention_ms(topic) == FOREVER_MS),
        _are_groups_known(groups),
        *remote,
    )


def check_retention(
    state: ClusterState,
    load: Load,
    plan: Plan,
    groups: Sequence[DocumentGroup] | None,
    retention_ms: int,
    *,
    surely: bool = False,
) -> Iterator[Finding]:
    """Say what speaks against lowering the retention of the moving topics to this.

    Nothing that deletes is done while who reads, or what is kept elsewhere, is not wholly known.
    With `surely` topics that only may be kept elsewhere are not told: a run leaves them alone.
    """
    remote, unknown = in_remote_storage(state, plan, retention_ms)
    if remote:
        yield finding(
            "remote-storage",
            f"{name_list(remote)}: kept in remote storage, where retention.ms deletes the same "
            "records for good. local.retention.ms shortens only what brokers hold, and is copied.",
        )
    if unknown and not surely:
        yield finding(
            "remote-storage",
            f"{name_list(unknown)}: whether it is kept in remote storage, too, is not known; there "
            "retention.ms deletes the same records for good.",
        )
    topics = [topic for topic in _aging_topics(state, plan) if _is_lowered(topic, retention_ms)]
    if not topics:
        return
    if not _are_groups_known(groups):
        denied = [group.id for group in groups or () if group.unknown]
        which = "Which groups have yet to read it"
        if denied:
            which = f"What {counted(len(denied), 'group')} may have yet to read "
            which += f"({name_list(denied)})"
        yield finding("unread", f"{which} is not known.")
    readers = _readers(state, load, groups or (), topics)
    for losing in _losing_readers(readers, retention_ms / 1000):
        behind = format_duration(losing.behind_seconds or 0.0)
        yield finding(
            "unread",
            f"Group {losing.group}, {behind} behind on {losing.topic}, would lose records that it "
            "has not read.",
        )
    if unsure := sorted({r.group for r in readers if r.behind_seconds is None}):
        names = name_list(unsure)
        yield finding("unread", f"How old the records are that {names} has yet to read is unknown.")


def in_remote_storage(
    state: ClusterState, plan: Plan, retention_ms: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which topics that a run would lower are in remote storage, too; and which may be."""
    lowered = [topic for topic in _aging_topics(state, plan) if _is_lowered(topic, retention_ms)]
    return (
        tuple(topic.name for topic in lowered if topic.remote_storage),
        tuple(topic.name for topic in lowered if topic.remote_storage is None),
    )


def _aging_topics(state: ClusterState, plan: Plan) -> list[Topic]:
    """Return the topics that are copied and of which something is, or may be, deleted by age."""
    names = {move.tp.topic for move in plan if move.receiving}
    names -= set(only_compacted(state, names))
    return [topic for name in sorted(names) if (topic := state.topic(name)) is not None]


def _is_lowered(topic: Topic, retention_ms: int) -> bool:
    """Return whether a retention is less than, or may be, what a topic has."""
    return topic.retention_ms is None or not 0 <= topic.retention_ms <= retention_ms


def _are_groups_known(groups: Sequence[DocumentGroup] | None) -> bool:
    """Return whether it is wholly known who reads what."""
    return groups is not None and not any(group.unknown for group in groups)


def _losing_readers(readers: Iterable[LaggingReader], seconds: float) -> tuple[LaggingReader, ...]:
    return tuple(r for r in readers if r.behind_seconds is not None and r.behind_seconds > seconds)


def only_compacted(state: ClusterState, topics: Iterable[str]) -> tuple[str, ...]:
    """Return those topics of which nothing is deleted by its age, whatever their retention."""
    named_topics = ((name, state.topic(name)) for name in sorted(topics))
    return tuple(
        name
        for name, topic in named_topics
        if topic is not None and topic.cleanup_policy and "delete" not in topic.cleanup_policy
    )


def _retention_ms(topic: Topic) -> int | None:
    """Return for how long a topic keeps records; None when not by time, or when it is unknown."""
    return topic.retention_ms if "delete" in (topic.cleanup_policy or "") else None


def _topic_savings(
    state: ClusterState, load: Load, copies: dict[int, int], topic: Topic, seconds: int
) -> TopicSavings | None:
    retention_ms = _retention_ms(topic)
    if retention_ms is None or 0 <= retention_ms <= seconds * 1000:
        return None
    low = high = 0.0
    for row in state.partitions_of(topic.name):
        rate = float(load.in_bytes_per_s[row])
        if row not in copies or math.isnan(rate):
            continue
        saved = float(state.partition_size_bytes[row]) - rate * seconds
        high += max(saved, 0.0) * copies[row]
        low += max(saved - SEGMENT_BYTES, 0.0) * copies[row]
    return TopicSavings(topic.name, retention_ms, round(low), round(high)) if high else None


def _readers(
    state: ClusterState, load: Load, groups: Sequence[DocumentGroup], topics: Iterable[Topic]
) -> list[LaggingReader]:
    """Return the groups that have, or may have, yet to read some of each topic."""
    readers = []
    for name in (topic.name for topic in topics):
        rates = {
            state.tp(row): float(load.messages_per_s[row]) for row in state.partitions_of(name)
        }
        for group in groups:
            reads = group.reads.items()
            behind = [
                behind_seconds(lag, rates[tp]) for tp, lag in reads if lag != 0 and tp in rates
            ]
            if behind:
                oldest = None if math.isnan(sum(behind)) else max(behind)
                readers.append(LaggingReader(group.id, name, oldest))
    return readers


def behind_seconds(lag: int | None, messages_per_s: float) -> float:
    """Return how old the oldest unread record is, NaN where it is not known."""
    if lag == 0:
        return 0.0
    return lag / messages_per_s if lag is not None and messages_per_s > 0 else math.nan


WORTH = 0.1
"""The part of what is copied that a shorter retention must save to be spoken of."""


def retention_sentences(saving: RetentionSavings) -> list[str]:
    """Return what lowering retention would save, and who speaks against it."""
    kept = retention_option(saving.seconds)
    longest = max(topic.retention_ms for topic in saving.topics)
    endless = any(topic.retention_ms == FOREVER_MS for topic in saving.topics)
    now = "no end" if endless else retention_option(longest // 1000)
    topics = name_list(
        [f"{topic.topic} {format_bytes(topic.max_bytes)}" for topic in saving.topics]
    )
    saves = f"{format_bytes(saving.min_bytes)} to {format_bytes(saving.max_bytes)}"
    texts = [
        f"With a retention of {kept} instead of {now} while they move, {saves} less would be "
        f"copied ({topics}); what is older is deleted for good."
    ]
    if saving.losing:
        lost = _reader_names(saving.losing)
        texts.append(f"Not yet: {lost} would lose records that are not read.")
    if saving.unsure:
        unsure = _reader_names(saving.unsure)
        texts.append(f"How far {unsure} got is not known: look before you do it.")
    if not saving.readers_known:
        texts.append("Which groups have yet to read it is not known: look before you do it.")
    if saving.remote:
        texts.append(
            f"Not so: {name_list(saving.remote, None)} kept in remote storage would be deleted "
            "there too; local.retention.ms shortens only what is copied."
        )
    if saving.remote_unknown:
        texts.append(
            f"Whether {name_list(saving.remote_unknown)} is kept in remote storage, where it would "
            "be deleted too, is not known."
        )
    if saving.forever:
        forever = name_list(saving.forever, None)
        texts.append(f"It would shorten {forever} too, meant to keep everything.")
    if saving.is_advised:
        texts.append("A run lowers it, and puts it back:")
    return texts


def retention_hint(saving: RetentionSavings | None, total_bytes: int, *, is_requested: bool) -> str:
    """Return, in a sentence, what a shorter retention saves of what is to be copied.

    "" where that is not worth saying: a tenth at least, unless it was asked for.
    """
    max_saved = 0 if saving is None else min(saving.max_bytes, total_bytes)
    if saving is None or not max_saved or (not is_requested and max_saved < total_bytes * WORTH):
        return ""
    if saving.remote or saving.remote_unknown:
        return ""
    saved = f"up to {format_bytes(max_saved)} of {format_bytes(total_bytes)}"
    if is_requested:
        return f"With that, {saved} do not have to be copied."
    return (
        f"With a retention of {retention_option(saving.seconds)}, {saved} would not have to be "
        "copied: `trimtab plan impact` says how, and who has yet to read it."
    )


def retention_command(saving: RetentionSavings, plan: str) -> str:
    """Return the command that does it, ready to be copied; "" where it is not advised."""
    kept = retention_option(saving.seconds)
    return f"trimtab apply {plan} --retention {kept}" if saving.is_advised else ""


def _reader_names(readers: Iterable[LaggingReader]) -> str:
    """Return groups by name, each with how far it is behind where that is known."""
    slowest: dict[str, LaggingReader] = {}
    for reader in sorted(readers, key=lambda r: -(r.behind_seconds or 0.0)):
        slowest.setdefault(reader.group, reader)
    names = []
    for group, laggard in slowest.items():
        behind = laggard.behind_seconds
        why = "" if behind is None else f" ({format_duration(behind)} behind on {laggard.topic})"
        names.append(f"{group}{why}")
    return name_list(names)


def retention_option(seconds: int) -> str:
    """Return seconds as `--retention` takes them: `6h`."""
    return f"{seconds // HOUR}h" if seconds % HOUR == 0 else f"{seconds}s"
