"""Consumer lag: who reads which partitions, how far behind, and whether lag shrinks.

Pure but for `fetch_group_sample`. Two samples give a rate; one alone gives lags, and no time to
catch up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from core.clock import Clock
from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.groups import CONSUMERS, GROUPS_HIDDEN, Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import AccessDeniedError

KEEPS_UP_SECONDS = 10.0
"""A lag of less than is produced in so long is none: clients commit every 5 s, as they come."""
STEADY = 0.02
"""What is read and what is produced differ by less: the lag stays as it is."""


def member_names(members: Sequence[Member]) -> list[str]:
    """Return names that tell a group's members apart: static ids, clients' ids, else members'.

    A client's id is often the same for all instances of an application.
    """
    names = [member.instance_id or member.client_id or member.id for member in members]
    if len(set(names)) < len(names):
        return [member.instance_id or member.id for member in members]
    return names


class Pace(Enum):
    """Whether a lag goes away, the best first."""

    NO_LAG = "no lag"
    KEEPS_UP = "keeps up"
    CATCHES_UP = "catches up"
    STAYS = "stays"
    UNKNOWN = "unknown"
    NOT_READ = "nothing is read"
    FALLS_BEHIND = "falls behind"


_PACE_RANK = {pace: n for n, pace in enumerate(Pace)}


@dataclass(frozen=True, slots=True)
class GroupSample:
    """Groups and the ends of what they read, at one moment of a monotonic clock, in seconds."""

    at: float
    groups: tuple[Group, ...]
    ends: Mapping[TopicPartition, int]
    ends_fault: str = ""
    """Why no end is known."""
    lost: tuple[Fault, ...] = ()
    """Of brokers that did not list their groups, which are missing here; and GROUPS_HIDDEN."""

    @property
    def is_complete(self) -> bool:
        """Return whether a group that is missing, and was listed before, is gone."""
        return all(fault == GROUPS_HIDDEN for fault in self.lost)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return what of the groups is not known, in a sentence each."""
        sentences = []
        hidden = [fault for fault in self.lost if fault.name == "CLUSTER_AUTHORIZATION_FAILED"]
        if hidden:
            sentences.append(f"Groups may be missing here: {hidden[0].message}")
        if count := len(self.lost) - len(hidden):
            who = "A broker does not list its"
            who = who if count == 1 else f"{count} brokers do not list their"
            why = "; ".join(dict.fromkeys(str(f) for f in self.lost if f not in hidden))
            sentences.append(f"{who} groups, which are missing here: {why}")
        if self.ends_fault:
            sentences.append(f"The ends of logs are not known, and no lag: {self.ends_fault}")
        return tuple(sentences)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a group reads and what is produced to it, in messages a second between two looks."""

    read_per_s: float
    produced_per_s: float

    def pace(self, lag: int) -> Pace:
        """Return whether `lag` goes away at these rates."""
        if lag == 0:
            return Pace.NO_LAG
        if self.read_per_s and lag <= self.produced_per_s * KEEPS_UP_SECONDS:
            return Pace.KEEPS_UP
        gained = self.read_per_s - self.produced_per_s
        if not self.read_per_s and not gained:
            return Pace.NOT_READ
        if abs(gained) <= STEADY * self.read_per_s:
            return Pace.STAYS
        return Pace.CATCHES_UP if gained > 0 else Pace.FALLS_BEHIND

    def catch_up_seconds(self, lag: int) -> float | None:
        """Return how long `lag` takes to be gone, 0 where it keeps up; None is never."""
        if self.pace(lag) in (Pace.NO_LAG, Pace.KEEPS_UP):
            return 0.0
        gained = self.read_per_s - self.produced_per_s
        return lag / gained if gained > 0 else None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition that a group reads; `member` is the id of who was given it."""

    tp: TopicPartition
    member: str | None
    committed: int | None
    end: int | None
    rates: Rates | None = None
    backlog: int = 0
    """Messages that lay there at the earlier look already, and are not read yet."""
    saved_lag: int | None = None
    """What a document says, which knows neither offset."""

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return self.saved_lag
        return max(0, self.end - self.committed)

    @property
    def pace(self) -> Pace:
        return _pace(self.lag, self.rates)

    @property
    def catch_up_seconds(self) -> float | None:
        """Return how long its lag takes to be gone; None is never, or not known."""
        return _catch_up_seconds(self.lag, self.rates)

    @property
    def is_behind(self) -> bool:
        """Return whether it has a lag that is not only of what came since the earlier look."""
        return bool(self.backlog or (self.lag and self.rates is None))


@dataclass(frozen=True)
class GroupView:
    """One group with everything that it reads; None is unknown.

    What follows from that is worked out once: a screen asks with each key, of thousands of groups.
    """

    group: Group
    partitions: tuple[PartitionView, ...]

    @cached_property
    def lag(self) -> int | None:
        """Return the messages that are known to be unread; None when nothing is known.

        It is the least where `is_lower_bound`.
        """
        return self._summed[0]

    @cached_property
    def is_lower_bound(self) -> bool:
        """Return whether the lag of something that it reads is not known."""
        # What nobody has written has none.
        return any(p.lag is None and p.end != 0 for p in self.partitions)

    @cached_property
    def rates(self) -> Rates | None:
        return self._summed[1]

    @cached_property
    def pace(self) -> Pace:
        """Return the worst pace of what it reads: one partition that is stuck is not made good."""
        paces = (_pace(*part) for part in self._parts)
        return max(paces, key=_PACE_RANK.__getitem__, default=Pace.UNKNOWN)

    @cached_property
    def catch_up_seconds(self) -> float | None:
        """Return how long its last partition takes to catch up; None is never, or not known."""
        times = [_catch_up_seconds(*part) for part in self._parts]
        known = [seconds for seconds in times if seconds is not None]
        return max(known) if known and len(known) == len(times) else None

    @cached_property
    def never(self) -> tuple[PartitionView, ...]:
        """Return the partitions whose lag does not shrink, as far as that is known."""
        return tuple(
            p for p in self.partitions if p.is_behind and p.rates and p.catch_up_seconds is None
        )

    @cached_property
    def _summed(self) -> tuple[int | None, Rates | None]:
        return _sum_lags_and_rates(self.partitions)

    @cached_property
    def _parts(self) -> list[tuple[int | None, Rates | None]]:
        """Return the lag and rates of each partition that waits, and of all others together.

        Those whose lag is not known are one more, of which nothing is known.
        What came since the earlier look may only not be committed yet: of hundreds of partitions
        some look at any moment as if nobody read them, and only their sum tells something.
        """
        parts = [(p.lag, p.rates) for p in self.partitions if p.is_behind]
        if self.is_lower_bound:
            parts.append((None, None))
        rest = [p for p in self.partitions if p.lag is not None and not p.is_behind]
        return [*parts, _sum_lags_and_rates(rest)] if rest else parts

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """Return the ids of members that were given nothing to read; none while it rebalances."""
        if self.group.state != "stable":
            return ()
        return tuple(member.id for member in self.group.members if not member.assignment)

    @cached_property
    def unattended(self) -> tuple[PartitionView, ...]:
        """Return partitions with a committed offset that no member reads."""
        return tuple(p for p in self.partitions if p.member is None)


def fetch_group_sample(
    client: ClusterClient, clock: Clock, matching: str | None = None
) -> GroupSample:
    """Look at groups once: what they have committed first, then the ends, so that no lag is < 0.

    Raises what listing groups raises; ends that may not be asked for are unknown.
    """
    lost: list[Fault] = []
    groups = client.describe_groups(matching, lost.append)
    at = clock.monotonic()
    read = {tp for group in groups for tp in _partitions_read(group)}
    try:
        ends = client.fetch_offsets(read, OffsetAt.LATEST) if read else {}
    except AccessDeniedError as error:
        return GroupSample(at, groups, {}, error.title, tuple(lost))
    return GroupSample(at, groups, ends, lost=tuple(lost))


def build_views(now: GroupSample, before: GroupSample | None = None) -> tuple[GroupView, ...]:
    """Return each group of a look, with rates where an earlier one knew the same partition.

    Groups that have vanished since are gone from it; new ones have no rates.
    """
    earlier = {} if before is None else {group.id: group for group in before.groups}
    views = []
    for group in now.groups:
        reader = {tp: member.id for member in group.members for tp in member.assignment}
        partitions = []
        for tp in sorted(_partitions_read(group)):
            committed, end = group.committed.get(tp), now.ends.get(tp)
            rates, still = None, 0
            if before is not None and group.id in earlier:
                rates = _rates(tp, (earlier[group.id], before), (group, now))
            if before is not None and rates is not None and committed is not None:
                still = max(0, before.ends[tp] - committed)
            partitions.append(PartitionView(tp, reader.get(tp), committed, end, rates, still))
        views.append(GroupView(group, tuple(partitions)))
    return tuple(views)


def build_saved_views(groups: Sequence[DocumentGroup]) -> tuple[GroupView, ...]:
    """Return the groups of a saved document: no offsets, rates, protocol or assignor in it."""
    views = []
    for saved in groups:
        unknown = Fault("UNKNOWN", "it was not told as this was saved") if saved.unknown else None
        other = saved.type not in ("", *CONSUMERS)
        group = Group(
            *(saved.id, saved.state, "", None, saved.members, {}),
            protocol=saved.type,
            fault=Fault("UNKNOWN", "it was not told as this was saved") if other else None,
            committed_fault=None if other else unknown,
        )
        reader = {tp: member.id for member in group.members for tp in member.assignment}
        partitions = tuple(
            PartitionView(tp, reader.get(tp), None, None, saved_lag=saved.lag.get(tp))
            for tp in sorted({*reader, *saved.lag})
        )
        views.append(GroupView(group, partitions))
    return tuple(views)


def fault_text(fault: Fault | None) -> str | None:
    """Return why something of a group is not known, as text."""
    return None if fault is None else str(fault)


def _partitions_read(group: Group) -> set[TopicPartition]:
    return {*group.committed, *(tp for member in group.members for tp in member.assignment)}


def _rates(
    tp: TopicPartition, before: tuple[Group, GroupSample], now: tuple[Group, GroupSample]
) -> Rates | None:
    """Return the rates between two looks; None where either did not know, or an offset fell.

    An offset that falls was reset, or its topic made anew: that is no rate of reading.
    """
    seconds = now[1].at - before[1].at
    positions = [(group.committed.get(tp), look.ends.get(tp)) for group, look in (before, now)]
    (was, had), (committed, end) = positions
    if was is None or had is None or committed is None or end is None or seconds <= 0:
        return None
    if committed < was or end < had:
        return None
    return Rates((committed - was) / seconds, (end - had) / seconds)


def _sum_lags_and_rates(partitions: Sequence[PartitionView]) -> tuple[int | None, Rates | None]:
    lags = [p.lag for p in partitions if p.lag is not None]
    rates = [p.rates for p in partitions if p.rates is not None]
    summed = Rates(sum(r.read_per_s for r in rates), sum(r.produced_per_s for r in rates))
    return sum(lags) if lags else None, summed if rates else None


def _pace(lag: int | None, rates: Rates | None) -> Pace:
    if lag == 0:
        return Pace.NO_LAG
    return Pace.UNKNOWN if lag is None or rates is None else rates.pace(lag)


def _catch_up_seconds(lag: int | None, rates: Rates | None) -> float | None:
    return None if lag is None or rates is None else rates.catch_up_seconds(lag)


RATE_SECONDS = 30.0
"""The time that rates are told over."""
MIN_RATE_SECONDS = 5.0
"""A shorter time tells no rate; looks are kept so far apart."""


@dataclass(frozen=True, slots=True)
class GroupSamples:
    """The newest look, and earlier ones, the oldest first; times are of the cluster's clock."""

    newest: GroupSample
    earlier: tuple[GroupSample, ...] = ()

    def then(self, look: GroupSample) -> GroupSamples:
        """Return what is followed after one more look."""
        kept = self.earlier
        if not kept or self.newest.at - kept[-1].at >= MIN_RATE_SECONDS:
            kept = (*kept, self.newest)
        recent = tuple(sample for sample in kept if look.at - sample.at <= RATE_SECONDS)
        return GroupSamples(look, recent or kept[-1:])

    @property
    def before(self) -> GroupSample | None:
        """Return the look that rates are told from."""
        first = self.earlier[0] if self.earlier else None
        return first if first and self.newest.at - first.at >= MIN_RATE_SECONDS else None

    @property
    def over_seconds(self) -> float | None:
        """Return the time that rates are told over; None while there are none."""
        return None if self.before is None else self.newest.at - self.before.at

    @property
    def views(self) -> tuple[GroupView, ...]:
        """Return the groups that there are now, by id."""
        return build_views(self.newest, self.before)
