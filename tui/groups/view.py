"""The listed consumer groups: filtered, ordered, selected. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from string import ascii_letters

from core.cluster.groups import Member
from core.watch.groups.lag import GroupView, PartitionView
from core.watch.groups.rebalances import Rebalance
from tui.screen.text_filter import matches

_NUMBERS = re.compile(r"(\D*)(\d*)")


class Order(Enum):
    """What the list is ordered by."""

    LAG = "lag"
    NAME = "name"

    @property
    def next(self) -> Order:
        return Order.NAME if self is Order.LAG else Order.LAG


def listed(
    groups: Iterable[GroupView], words: str, order: Order, kept_id: str | None = None
) -> tuple[GroupView, ...]:
    """Return the groups that the words find, and `kept_id`, in order; unknown lag comes last."""
    selection = [g for g in groups if g.group.id == kept_id or matches(g.group.id, words)]
    if order is Order.NAME:
        return tuple(sorted(selection, key=lambda g: g.group.id))
    return tuple(sorted(selection, key=lambda g: (-1 if g.lag is None else g.lag) * -1))


def members_of(group: GroupView) -> tuple[Member, ...]:
    """Return the members by client id, and by their own where several share one; 9 before 10."""
    return tuple(sorted(group.group.members, key=lambda m: (_counted(m.client_id), m.id)))


def _counted(name: str) -> list[tuple[str, int]]:
    """Return what names are ordered by, so that the numbers in them count."""
    return [(text, int(digits or 0)) for text, digits in _NUMBERS.findall(name)]


def letter(n: int) -> str:
    """Return what stands for the nth member; "" for those after the alphabet's end."""
    return ascii_letters[n] if n < len(ascii_letters) else ""


@dataclass(frozen=True, eq=False, slots=True)
class GroupsView:
    """What the Groups shows; without any group it says why."""

    groups: tuple[GroupView, ...]
    """All that there are, whatever the filter."""
    rows: tuple[GroupView, ...]
    """Those that are listed, in order."""
    why: tuple[str, ...]
    """A title, and sentences, for when there are none."""
    chosen: GroupView | None
    gone: bool
    """Whether the chosen group is no more: it is shown as it was seen last."""
    inside: bool
    """Whether the partitions of the chosen group have the whole screen, and the cursor."""
    partitions: tuple[PartitionView, ...]
    happened: tuple[Rebalance, ...]
    """What happened in the chosen group, the newest first."""
    partition: int
    """The one under the cursor."""
    age: str
    """How long ago was looked, "" when it is a saved document."""
    stale: bool
    troubles: tuple[str, ...]
    """Why the newest look failed, or what of it is not known, in a line each."""
    over_seconds: float | None
    words: str
    typing: bool
    order: Order

    @property
    def cursor(self) -> int:
        ids = [group.group.id for group in self.rows]
        return ids.index(self.chosen.group.id) if self.chosen else 0
