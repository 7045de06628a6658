"""One group as lines: its members, and partitions by members with their lag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from core.cluster.groups import CONSUMERS, Member
from core.cluster.metadata import TopicPartition
from core.units import format_duration
from core.watch.groups.lag import GroupView, Pace, PartitionView, member_names
from core.watch.groups.rebalances import Rebalance
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    left,
    plain,
    right,
    row_line,
    rule,
    shorten,
    side_by_side,
    window,
    wrap_text,
)
from tui.groups.view import GroupsView, letter, members_of

SETTLED = ("stable", "empty", "")
_STATES = {
    "preparing_rebalancing": "rebalancing",
    "completing_rebalancing": "rebalancing",
    "unknown": "not known",
}


def state_words(state: str) -> str:
    """Return a group's state as people say it."""
    return _STATES.get(state, state.replace("_", " "))


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def lag_words(of: GroupView) -> str:
    """Return the messages that are unread, with a `+` where there may be more."""
    return number(of.lag) + ("+" if of.is_lower_bound and of.lag is not None else "")


def rate(per_s: float) -> str:
    """Return messages a second, with a digit after the point where there are few; `4.86M` fits."""
    if per_s >= 1e6:
        return f"{per_s / 1e6:,.2f}M"
    return f"{per_s:,.1f}" if 0 < per_s < 10 else f"{per_s:,.0f}"


def pace_words(of: GroupView | PartitionView) -> Line:
    """Return when its lag is gone, or that it grows."""
    rates = of.rates
    match of.pace:
        case Pace.NO_LAG:
            return (Span("√", Tone.FINE),)
        case Pace.KEEPS_UP:
            return (Span("√", Tone.FINE), dim(" keeps up"))
        case Pace.CATCHES_UP if of.catch_up_seconds is not None:
            return (plain(f"in {format_duration(of.catch_up_seconds)}"),)
        case Pace.STAYS:
            return (plain(f"{format_duration(_behind_seconds(of))} behind"),)
        case Pace.NOT_READ | Pace.FALLS_BEHIND if share := _never_caught_up_text(of):
            return (Span(f"▲ never: {share}", Tone.LOOK, bold=True),)
        case Pace.FALLS_BEHIND if rates is not None:
            grows = rate(rates.produced_per_s - rates.read_per_s)
            return (Span(f"▲ never, +{grows}/s", Tone.LOOK, bold=True),)
        case Pace.NOT_READ:
            return (Span("▲ nothing is read", Tone.LOOK, bold=True),)
    return (dim("-"),)


def _behind_seconds(of: GroupView | PartitionView) -> float:
    """Return how long ago was produced what is read now, at the rates of those that stay behind."""
    partitions = of.partitions if isinstance(of, GroupView) else ()
    staying = [p for p in partitions if p.pace is Pace.STAYS]
    return max((p.lag or 0) / p.rates.produced_per_s for p in staying or (of,) if p.rates)


def _never_caught_up_text(of: GroupView | PartitionView) -> str:
    """Return how many of a group's partitions never catch up; "" where all do, or none."""
    if not isinstance(of, GroupView) or len(of.never) in (0, len(of.partitions)):
        return ""
    return f"{len(of.never):,} of {len(of.partitions):,}"


SIDE_BY_SIDE = 100
"""From so many columns the members are beside the partitions."""
PARTITION = 24
"""The widest that a partition's name becomes beside others."""
HOST, RATES, CAUGHT_UP, TIME = 13, 18, 17, 11
"""How wide hosts are, rates and what they come to, and when something happened."""


@dataclass(frozen=True, slots=True)
class PartitionHit:
    """A click on a partition of the chosen group."""

    tp: TopicPartition


def detail_lines(view: GroupsView, width: int, height: int) -> Lines:
    """Return the chosen group in at most `height` lines."""
    group = view.chosen
    if group is None or height <= 0:
        return ()
    lines: list[Line] = [_title(view, group, width)]
    for words in _problems(view, group):
        lines.append((Span(f"  ▲ {words}", Tone.LOOK, bold=True),))
    room = height - len(lines)
    members = members_of(group)
    if width >= SIDE_BY_SIDE:
        first = min(max(width * 2 // 5, 44), 70)
        second = width - first - 2
        kept = min(2 + len(view.happened), room // 2) if view.happened else 0
        side = _members(group, members, first, room - kept)
        side = (*side, *_happened(view, first, room - len(side)))
        rows = _map(view, members, second, room)
        return (*lines, *side_by_side(side, rows, (first, second), room, gap=(plain("  "),)))
    side = _members(group, members, width, min(len(members) + 1, max(room // 3, 3)))
    if view.happened:
        newest = view.happened[0]
        side = (*side, (_time(newest), plain(newest.text)))
    return (*lines, *side, *_map(view, members, width, room - len(side)))


def _title(view: GroupsView, of: GroupView, width: int) -> Line:
    group = of.group
    facts = [state_words(group.state)]
    if group.protocol:
        facts.append(f"{group.protocol} protocol")
    if group.assignor:
        facts.append(group.assignor)
    if group.coordinator is not None:
        facts.append(f"coordinator {group.coordinator}")
    note = ", ".join(facts)
    if len(note) + len(group.id) + 8 > width:
        note = facts[0]
    return rule(group.id, width, note="gone" if view.gone else note)


def _problems(view: GroupsView, of: GroupView) -> list[str]:
    problems = []
    group = of.group
    if view.gone:
        problems.append(
            "It is gone, or its coordinator does not answer. Shown is what was seen last."
        )
    if group.fault is not None and group.protocol not in CONSUMERS:
        problems.append(f"{group.trouble[0].upper()}{group.trouble[1:]}.")
    elif group.fault is not None:
        problems.append(f"It may not be looked at: {group.fault}")
    if group.committed_fault is not None:
        problems.append(f"What it has committed is not known: {group.committed_fault}")
    unassigned = sum(p.member is None for p in of.partitions)
    if unassigned and group.members:
        problems.append(
            f"{unassigned:,} of {len(of.partitions):,} partitions are read by nobody now."
        )
    return problems


def _members(of: GroupView, members: tuple[Member, ...], width: int, height: int) -> Lines:
    idle = set(of.idle)
    if not members:
        return ((dim("  no members"),),)
    names = member_names(members)
    name = min(max(len("member"), *map(len, names)), max(width - 4 - 2 - HOST - 2 - 5, 10))
    head = f"    {left('member', name)}  {left('host', HOST)}  parts"
    lines: list[Line] = [(dim(head),)]
    hidden = max(len(members) - (height - 1), 0)
    shown = len(members) - hidden - (1 if hidden else 0)
    for n, member in enumerate(members[:shown]):
        count = len(member.assignment)
        what = Span("idle", Tone.LOOK, bold=True) if member.id in idle else plain(f"{count:,}")
        host = member.host.removeprefix("/")
        lines.append(
            (
                Span(f"  {letter(n) or ' '} ", Tone.YOURS, bold=True),
                plain(left(shorten(names[n], name), name)),
                dim(f"  {left(host, HOST)}  "),
                what,
            )
        )
    if hidden:
        rest = members[shown:]
        among = sum(member.id in idle for member in rest)
        words = f"    and {len(rest):,} more" + (f", {among} idle" if among else "")
        lines.append((dim(words),))
    return tuple(lines)


def _happened(view: GroupsView, width: int, height: int) -> Lines:
    """Return its rebalances, the newest first, as far as there is room."""
    if not view.happened or height < 3:
        return ()
    lines: list[Line] = [BLANK, (dim("  rebalances, UTC"),)]
    for rebalance in view.happened[:height]:
        at, *rest = wrap_text(rebalance.text, width - TIME)
        lines.append((_time(rebalance), plain(at)))
        lines += [(plain(" " * TIME), plain(words)) for words in rest]
    return tuple(lines[:height])


def _time(rebalance: Rebalance) -> Span:
    return dim(f"  {rebalance.at.astimezone(UTC):%H:%M:%S} ")


def _map(view: GroupsView, members: tuple[Member, ...], width: int, height: int) -> Lines:
    """Return a row for each partition: who reads it, and how far behind that is."""
    if not view.partitions:
        return ((dim("  reads nothing, and has committed nothing"),),)
    name = min(max(len("partition"), *(len(str(p.tp)) for p in view.partitions)), PARTITION)
    room = width - (2 + name + 2 + 11 + 2 + CAUGHT_UP)
    pitch = next((p for p in (2, 1) if len(members) * p <= room), 0)
    roomy = room - (len(members) * pitch or 2) >= RATES
    readers = {member.id: n for n, member in enumerate(members)}
    heads = [dim(f"  {left('partition', name)}  ")]
    letters = "".join((letter(n) or " ").ljust(pitch) for n in range(len(members)))
    heads.append(Span(letters if pitch else "  ", Tone.YOURS, bold=True))
    heads.append(dim(right("lag", 11) + (right("read/s", 9) + right("made/s", 9) if roomy else "")))
    lines: list[Line] = [(*heads, dim("  caught up"))]
    room = height - 1
    shown = window(len(view.partitions), room, view.partition if view.inside else 0)
    hidden = len(view.partitions) - len(shown)
    if hidden and not view.inside:
        shown = shown[:-1]
    for n in shown:
        partition = view.partitions[n]
        here = view.inside and n == view.partition
        line = _row(partition, readers, name, pitch, roomy=roomy, here=here)
        lines.append(row_line(line, width, PartitionHit(partition.tp), chosen=here))
    if hidden and not view.inside and len(lines) < height:
        more = len(view.partitions) - len(shown)
        lines.append((dim(f"  and {more:,} more: enter shows them"),))
    return tuple(lines)


def _row(
    partition: PartitionView,
    readers: dict[str, int],
    name: int,
    pitch: int,
    *,
    roomy: bool,
    here: bool,
) -> Line:
    words = left(shorten(str(partition.tp), name), name)
    spans = [
        Span("▸ " if here else "  ", Tone.YOURS, bold=True),
        bright(words) if here else plain(words),
        plain("  "),
    ]
    at = readers.get(partition.member) if partition.member is not None else None
    if not pitch:
        spans.append(Span((letter(at) if at is not None else "").ljust(2), Tone.YOURS, bold=True))
    elif at is None:
        spans.append(Span("·".ljust(pitch) * len(readers), Tone.FAINT))
    else:
        spans += [
            Span("·".ljust(pitch) * at, Tone.FAINT),
            Span("●".ljust(pitch), Tone.YOURS, bold=True),
            Span("·".ljust(pitch) * (len(readers) - at - 1), Tone.FAINT),
        ]
    behind = partition.pace in (Pace.FALLS_BEHIND, Pace.NOT_READ)
    spans.append(
        Span(right(number(partition.lag), 11), Tone.LOOK if behind else Tone.PLAIN, bold=behind)
    )
    if roomy:
        rates = partition.rates
        spans.append(dim(right("-" if rates is None else rate(rates.read_per_s), 9)))
        spans.append(dim(right("-" if rates is None else rate(rates.produced_per_s), 9)))
    spans.append(plain("  "))
    if at is None and readers:
        spans.append(Span("nobody reads it", Tone.LOOK, bold=True))
    else:
        spans += pace_words(partition)
    return tuple(spans)
