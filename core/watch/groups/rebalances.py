"""Rebalances seen between two polls: members join and leave, partitions change owner.

Pure. A classic group that rebalances shows nobody's partitions: it is compared once it is stable,
with what it was when it was stable before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.cluster.groups import Group
from core.units import counted

STABLE = "stable"
WITHOUT_MEMBERS = ("empty", "dead")
MAX_NAMED = 3
"""So many members that came or went are named; of more only how many there are."""
MAX_SUMMED = 8
"""The shares of so many members are told one by one."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One thing that happened in a group: `text` is a clause in the past tense."""

    at: datetime
    group: str
    text: str
    topic: str | None = None
    """Set when the group reads only this one."""


@dataclass(frozen=True, slots=True)
class WatchedGroups:
    """Groups with members, as they were when each was stable last, and those that are not now."""

    stable: Mapping[str, Group] = field(default_factory=dict)
    unsettled: Mapping[str, Group] = field(default_factory=dict)
    """As they were at the last look."""
    up_to: str | None = None
    """The last id that was looked at, where there were more groups than that."""

    def then(
        self,
        at: datetime,
        groups: Iterable[Group],
        *,
        complete: bool = True,
        up_to: str | None = None,
    ) -> tuple[WatchedGroups, tuple[Rebalance, ...]]:
        """Return what is watched after a look, and what happened since the one before.

        Unless the look was `complete`, groups that are missing in it are taken for still there.
        Those beyond the id `up_to` were left out of it: they are watched no more, nothing is told
        of that, nor of their being looked at again.
        """
        stable, unsettled = dict(self.stable), dict(self.unsettled)
        rebalances: list[Rebalance] = []
        current, emptied = set(), set()
        for group in groups:
            if group.fault is not None:
                current.add(group.id)
            elif group.state not in WITHOUT_MEMBERS:
                current.add(group.id)
                text = self._compared(group) if _is_within(group.id, self.up_to) else ""
                if group.state == STABLE:
                    stable[group.id] = group
                    unsettled.pop(group.id, None)
                else:
                    unsettled[group.id] = group
                if text:
                    rebalances.append(Rebalance(at, group.id, text, _only_topic(group)))
            else:
                emptied.add(group.id)
        stable, unsettled = (
            {id: group for id, group in kept.items() if _is_within(id, up_to)}
            for kept in (stable, unsettled)
        )
        missing = {*stable, *unsettled} - current
        for id in sorted(missing if complete else missing & emptied):
            last = stable.pop(id, None)
            unsettled.pop(id, None)
            topic = _only_topic(last) if last else None
            rebalances.append(Rebalance(at, id, "lost its last member", topic))
        return WatchedGroups(stable, unsettled, up_to), tuple(rebalances)

    def _compared(self, group: Group) -> str:
        """Return what happened to a group that has members; "" for nothing."""
        before = self.stable.get(group.id)
        came_and_went = ", ".join(_member_changes(before, group))
        if group.state != STABLE:
            if group.id in self.unsettled:
                since = ", ".join(_member_changes(self.unsettled[group.id], group))
                return f"went on rebalancing: {since}" if since else ""
            return f"began to rebalance{f': {came_and_went}' if came_and_went else ''}"
        if before is None:
            return f"was assigned: {format_shares(group)}"
        if came_and_went or _assignments(before) != _assignments(group):
            changes = f"; {came_and_went}" if came_and_went else ""
            return f"rebalanced: {format_shares(group)}{changes}"
        if group.id in self.unsettled:
            return f"rebalanced, and is as before: {format_shares(group)}"
        return ""


def start_watching(groups: Iterable[Group], up_to: str | None = None) -> WatchedGroups:
    """Return what is watched from a first look on, which tells of nothing yet."""
    with_members = [g for g in groups if g.fault is None and g.state not in WITHOUT_MEMBERS]
    return WatchedGroups(
        {g.id: g for g in with_members if g.state == STABLE},
        {g.id: g for g in with_members if g.state != STABLE},
        up_to,
    )


def format_shares(group: Group) -> str:
    """Return how partitions are shared, like `3 members, 2+1 partitions, 1 idle`."""
    counts = sorted((len(member.assignment) for member in group.members), reverse=True)
    reading = [count for count in counts if count]
    members = counted(len(counts), "member")
    idle = f", {len(counts) - len(reading)} idle" if len(reading) < len(counts) else ""
    if not reading:
        return f"{members}, no partitions"
    if len(reading) > MAX_SUMMED:
        fewest, largest = reading[-1], reading[0]
        each = str(largest) if fewest == largest else f"{fewest} to {largest}"
        return f"{members}, {each} partitions each{idle}"
    many = "partition" if reading == [1] else "partitions"
    return f"{members}, {'+'.join(map(str, reading))} {many}{idle}"


def _is_within(id: str, up_to: str | None) -> bool:
    return up_to is None or id <= up_to


def _member_changes(before: Group | None, now: Group) -> Iterator[str]:
    if before is None:
        return
    names = {m.id: m.client_id or m.id for m in (*before.members, *now.members)}
    was, there = ({m.id for m in g.members} for g in (before, now))
    came = Counter(names[id] for id in there - was)
    went = Counter(names[id] for id in was - there)
    # A client that was started anew is another member under the same name.
    changes = {"started anew": came & went, "joined": came - went, "left": went - came}
    for word, names_of in changes.items():
        if names_of:
            yield f"{_named(sorted(names_of.elements()))} {word}"


def _named(names: Sequence[str]) -> str:
    if len(set(names)) == 1 and len(names) > 1:
        return f"{len(names)} {names[0]}"
    if len(names) > MAX_NAMED:
        return f"{len(names)} members"
    return ", ".join(names)


def _assignments(group: Group) -> dict[str, frozenset[object]]:
    return {member.id: frozenset(member.assignment) for member in group.members}


def _only_topic(group: Group) -> str | None:
    topics = {tp.topic for member in group.members for tp in member.assignment}
    return topics.pop() if len(topics) == 1 else None
