"""Who a running plan affects: consumer groups, producers, and what may fail meanwhile."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.groups import UNDESCRIBABLE
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.effect import leader_after
from core.plan.impact.retention import (
    RetentionSavings,
    behind_seconds,
    estimate_retention_savings,
    retention_option,
)
from core.plan.plan import Move, Plan, moves_with_rows
from core.units import counted, format_bytes, name_list

NEW_LEADER_SECONDS = 5.0
"""What clients are taken to need until they have found a new leader, and read or write there."""
END_SECONDS = 1.0
"""What they wait as a move ends whose leader stays: its epoch rises (docs/explanation/kafka.md)."""


@dataclass(frozen=True, slots=True)
class GroupImpact:
    """A consumer group with partitions in the plan, and what it will have to catch up with.

    `lag` is in messages, over these partitions; `behind_seconds` is that of the slowest. What
    comes while it is interrupted is in messages and bytes. None is unknown.
    """

    id: str
    state: str
    members: int
    partitions: tuple[TopicPartition, ...]
    leader_changes: int
    copied: int
    lag: int | None
    behind_seconds: float | None
    catch_up_messages: int | None
    catch_up_bytes: int | None


@dataclass(frozen=True, slots=True)
class TopicImpact:
    """A topic that is produced to, as far as its partitions are in the plan; None is unknown."""

    topic: str
    in_bytes_per_s: float | None
    leader_changes: int
    copied: int


@dataclass(frozen=True, slots=True)
class IsrHeadroom:
    """How many replicas of a partition may fall out before `acks=all` fails: now, and at the end.

    Until a move ends its new replicas count for nothing: `during` is of those in sync now, or once
    somebody else's move of the partition has ended.
    """

    tp: TopicPartition
    in_sync: tuple[int, ...]
    min_insync: int
    during: int
    after: int

    @property
    def min_in_sync(self) -> int:
        return min(self.during, self.after)


@dataclass(frozen=True, slots=True)
class Impact:
    """What a plan means for those who use the cluster; the worst of each comes first.

    `groups` is None when they are not known; `groups_unknown` names those of which it is not known
    what they read, `types_unknown` the type of those that tell nobody, like share groups.
    `headroom` has partitions that no replica may leave.
    """

    moves: int
    leader_changes: int
    copied: int
    groups: tuple[GroupImpact, ...] | None
    groups_unknown: tuple[str, ...]
    types_unknown: Mapping[str, str]
    topics: tuple[TopicImpact, ...]
    headroom: tuple[IsrHeadroom, ...]
    headroom_unknown: int
    shrinking: RetentionSavings | None


@dataclass(frozen=True, slots=True)
class _PartitionImpact:
    """One partition of the plan as its clients see it; rates are NaN where they are unknown."""

    move: Move
    row: int
    new_leader: bool
    in_bytes_per_s: float
    messages_per_s: float

    @property
    def pause_seconds(self) -> float:
        if not self.move.reassigns:
            return 0.0  # from log dir to log dir, which no client hears of
        return NEW_LEADER_SECONDS if self.new_leader else END_SECONDS


def estimate_impact(
    state: ClusterState,
    load: Load,
    plan: Plan,
    groups: Sequence[DocumentGroup] | None,
    retention_seconds: int | None = None,
) -> Impact:
    """Return who notices `plan`; moves of partitions that are gone count nothing.

    `retention_seconds` is what `Impact.shrinking` is about, by default what readers can bear.
    """
    touched: dict[TopicPartition, _PartitionImpact] = {}
    for move, row in moves_with_rows(state, plan):
        leader = int(state.leader[row])
        is_new = leader >= 0 and leader_after(move, leader) != leader
        rates = float(load.in_bytes_per_s[row]), float(load.messages_per_s[row])
        touched[move.tp] = _PartitionImpact(move, row, is_new, *rates)
    low, unknown = _headroom(state, touched)
    undescribed = {group.id: group.type for group in groups or () if group.unknown}
    return Impact(
        moves=len(touched),
        leader_changes=sum(touch.new_leader for touch in touched.values()),
        copied=sum(bool(touch.move.receiving) for touch in touched.values()),
        groups=None if groups is None else _groups(groups, touched),
        groups_unknown=tuple(sorted(undescribed)),
        types_unknown={
            id: type for id, type in sorted(undescribed.items()) if type in UNDESCRIBABLE
        },
        topics=_topics(touched),
        headroom=low,
        headroom_unknown=unknown,
        shrinking=estimate_retention_savings(state, load, plan, groups, retention_seconds),
    )


def _groups(
    groups: Sequence[DocumentGroup], touched: Mapping[TopicPartition, _PartitionImpact]
) -> tuple[GroupImpact, ...]:
    impacts = []
    for group in groups:
        if group.unknown:
            continue
        reads = group.reads
        tps = sorted(tp for tp in reads if tp in touched)
        if tps:
            impacts.append(_group(group, [(touched[tp], reads[tp]) for tp in tps]))
    # The worst first; a lag that is not known may be any.
    lags = {impact.id: math.inf if impact.lag is None else impact.lag for impact in impacts}
    return tuple(sorted(impacts, key=lambda g: (-g.leader_changes, -lags[g.id], -g.copied, g.id)))


def _group(
    group: DocumentGroup, read: Sequence[tuple[_PartitionImpact, int | None]]
) -> GroupImpact:
    lags = [lag for _, lag in read]
    behind = [behind_seconds(lag, touch.messages_per_s) for touch, lag in read]
    touches = [touch for touch, _ in read]
    return GroupImpact(
        id=group.id,
        state=group.state,
        members=len(group.members),
        partitions=tuple(touch.move.tp for touch in touches),
        leader_changes=sum(touch.new_leader for touch in touches),
        copied=sum(bool(touch.move.receiving) for touch in touches),
        lag=None if None in lags else sum(lag or 0 for lag in lags),
        behind_seconds=None if math.isnan(sum(behind)) else max(behind),
        catch_up_messages=_known(sum(t.messages_per_s * t.pause_seconds for t in touches)),
        catch_up_bytes=_known(sum(t.in_bytes_per_s * t.pause_seconds for t in touches)),
    )


def _known(value: float) -> int | None:
    return None if math.isnan(value) else round(value)


def _topics(touched: Mapping[TopicPartition, _PartitionImpact]) -> tuple[TopicImpact, ...]:
    by_topic: defaultdict[str, list[_PartitionImpact]] = defaultdict(list)
    for tp, touch in touched.items():
        if touch.in_bytes_per_s != 0:
            by_topic[tp.topic].append(touch)
    topics = []
    for topic, touches in by_topic.items():
        rate = sum(touch.in_bytes_per_s for touch in touches)
        leaders = sum(touch.new_leader for touch in touches)
        copied = sum(bool(touch.move.receiving) for touch in touches)
        known = None if math.isnan(rate) else rate
        topics.append(TopicImpact(topic, known, leaders, copied))
    return tuple(
        sorted(topics, key=lambda t: (-t.leader_changes, -(t.in_bytes_per_s or 0), t.topic))
    )


def _headroom(
    state: ClusterState, touched: Mapping[TopicPartition, _PartitionImpact]
) -> tuple[tuple[IsrHeadroom, ...], int]:
    """Return the partitions without a replica to spare, and of how many that is not known."""
    headroom, unknown = [], 0
    for tp, touch in touched.items():
        topic = state.topics[int(state.topic_of[touch.row])]
        if topic.min_insync is None:
            unknown += 1
            continue
        row = state.row(touch.row)
        in_sync = tuple(b for b in row.replicas if b in row.isr or b in row.adding)
        in_sync = tuple(b for b in in_sync if b not in row.removing)
        during, after = (n - topic.min_insync for n in (len(in_sync), len(touch.move.after)))
        if min(during, after) <= 0:
            headroom.append(IsrHeadroom(tp, in_sync, topic.min_insync, during, after))
    return tuple(sorted(headroom, key=lambda h: (h.min_in_sync, h.tp))), unknown


def impact_summary(impact: Impact) -> list[str]:
    """Return what somebody should know before anything else, the worst first, a few words each."""
    facts = []
    if impact.headroom:
        facts.append(f"{counted(len(impact.headroom), 'partition')} with no replica to spare")
    unknown = " or more" if impact.groups_unknown else ""
    if impact.groups:
        facts.append(f"read by {counted(len(impact.groups), 'group')}{unknown}")
    leading = sum(topic.leader_changes > 0 for topic in impact.topics)
    if leading:
        facts.append(f"leaders change in {counted(leading, 'topic')}")
    shrunk = impact.shrinking
    if shrunk is not None and shrunk.is_advised:
        saves = format_bytes(shrunk.max_bytes)
        facts.append(f"retention {retention_option(shrunk.seconds)} saves up to {saves}")
    if kinds := kinds_unknown(list(impact.types_unknown.values())):
        facts.append(f"who reads is not known for {kinds}")
    elif impact.groups is None or (impact.groups_unknown and not impact.groups):
        facts.append("who reads is not known")
    return facts


def kinds_unknown(types: Sequence[str]) -> str:
    """Return how many groups there are of each type that tells nobody what it reads."""
    many = [(types.count(type), type) for type in UNDESCRIBABLE if type in types]
    return " and ".join(counted(count, f"{type} group") for count, type in many)


def groups_sentence(impact: Impact) -> str:
    """Return what to say of groups that are not known, or where none reads; "" for nothing."""
    if impact.groups is None:
        return "Which consumer groups read them is not known."
    unknown = tuple(id for id in impact.groups_unknown if id not in impact.types_unknown)
    if kinds := kinds_unknown(list(impact.types_unknown.values())):
        first = f"Who reads is not known for {kinds} ({name_list(list(impact.types_unknown))})."
        return f"{first} {_denied(unknown)}" if unknown else first
    return _denied(unknown) or ("" if impact.groups else "No consumer group reads them.")


def _denied(unknown: Sequence[str]) -> str:
    if not unknown:
        return ""
    group, reads = ("group", "reads") if len(unknown) == 1 else ("groups", "read")
    return f"What consumer {group} {name_list(unknown)} {reads} is not known."


def to_read_words(group: GroupImpact) -> str:
    """Return what comes while a group is interrupted: in messages where they are counted."""
    if group.catch_up_messages is not None:
        return f"{group.catch_up_messages:,} msgs"
    return format_bytes(group.catch_up_bytes)


def headroom_sentences(headroom: Sequence[IsrHeadroom]) -> list[str]:
    """Return what must not fail while the plan is carried out, and what it leaves without spare."""
    during = [h.tp for h in headroom if h.during <= 0]
    after = [h.tp for h in headroom if h.during > 0]
    sentences = []
    if during:
        sentences.append(
            f"{name_list(during)} {'has' if len(during) == 1 else 'have'} no in-sync "
            "replica to spare until moved: with one broker fewer, acks=all is refused. "
            "Restart no broker meanwhile."
        )
    if after:
        sentences.append(f"{name_list(after)} will have no replica to spare once moved.")
    return sentences


def find_precautions(
    state: ClusterState, plan: Plan, *, elects: bool = False, by: str = "--elect"
) -> tuple[str, ...]:
    """Return the sentences; none for what changes neither data nor leaders.

    `elects` is whether preferred leaders are elected at the end, `by` what would have that done.
    """
    texts = []
    if any(move.moves_data for move in plan):
        texts.append("Until it ends, delete none of these topics and add no partitions to them.")
    changed = sum(leader not in move.after for move, leader in _moves_with_leader(state, plan))
    changed += count_elected(state, plan) if elects else 0
    if changed:
        many = "1 leader changes" if changed == 1 else f"{changed} leaders change"
        texts.append(f"Producers that do not retry may fail as {many}.")
    if not elects and (waiting := count_waiting_for_election(state, plan)):
        many = "1 leader changes" if waiting == 1 else f"{waiting} leaders change"
        texts.append(f"{many} by an election only: {by}, or trimtab elect when it has ended.")
    return tuple(texts)


def count_waiting_for_election(state: ClusterState, plan: Plan) -> int:
    """Return how many partitions the plan's leader leads only once elected: who leads now stays."""
    return sum(
        leader in move.after and leader_after(move, leader) != leader
        for move, leader in _moves_with_leader(state, plan)
    )


def count_elected(state: ClusterState, plan: Plan) -> int:
    """Return how many leaders an election at the end changes, whatever led before."""
    return sum(
        leader in move.after and leader != move.after[0]
        for move, leader in _moves_with_leader(state, plan)
    )


def _moves_with_leader(state: ClusterState, plan: Plan) -> Iterator[tuple[Move, int]]:
    """Yield the moves of partitions that somebody leads now, and who that is."""
    for move, row in moves_with_rows(state, plan):
        if (leader := int(state.leader[row])) >= 0:
            yield move, leader
