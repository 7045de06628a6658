"""The Groups as lines: who reads, how far behind, and below it what the chosen group reads."""

from __future__ import annotations

from dataclasses import dataclass

from core.units import counted, format_duration
from core.watch.groups.lag import GroupView, Pace
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    empty_page,
    filter_line,
    left,
    plain,
    right,
    row_line,
    rule,
    shorten,
    width_of,
    window,
)
from tui.groups.detail import SETTLED, detail_lines, lag_words, pace_words, rate, state_words
from tui.groups.view import GroupsView

WIDE, ROOMY = 116, 30
"""From so many columns all is told of each group; from so many lines there is air."""


@dataclass(frozen=True, slots=True)
class GroupHit:
    """A click on a group of the list."""

    id: str


def groups_lines(view: GroupsView, width: int, height: int) -> Lines:
    """Return the whole screen in at most `height` lines."""
    if not view.groups and view.chosen is None:
        title, *sentences = view.why
        return empty_page(title, sentences, width)[:height]
    lines: list[Line] = [_title(view, width)]
    for trouble in view.troubles:
        lines.append((Span(f" ▲ {trouble}", Tone.LOOK, bold=True),))
    if not view.inside:
        if view.typing or view.words:
            lines.append(filter_line(view.words, typing=view.typing))
        if height >= ROOMY:
            lines.append(BLANK)
        room = height - len(lines)
        lines += _list(view, width, min(len(view.rows) + 2, max(room // 2, 4)))
        if not view.rows:
            return (*lines, (dim("  no group is called so: esc drops the filter"),))
    if height >= ROOMY:
        lines.append(BLANK)
    return (*lines, *detail_lines(view, width, height - len(lines)))[:height]


def _title(view: GroupsView, width: int) -> Line:
    groups = view.groups
    unsettled = sum(g.group.state not in SETTLED for g in groups)
    behind = sum(g.pace is Pace.FALLS_BEHIND for g in groups)
    idle = sum(bool(g.idle) for g in groups)
    words: list[Span] = [bright(f" {counted(len(groups), 'group')}")]
    if behind:
        words.append(
            Span(f"   ▲ {behind:,} fall{'s' if behind == 1 else ''} behind", Tone.LOOK, True)
        )
    if unsettled:
        words.append(Span(f"   ▲ {unsettled:,} not stable", Tone.LOOK, bold=True))
    if view.age:
        ago = view.age if view.age == "now" else f"{view.age} ago"
        words.append(Span(f"   looked {ago}", Tone.LOOK if view.stale else Tone.DIM))
    if view.over_seconds is not None:
        words.append(dim(f"   rates over {format_duration(view.over_seconds)}"))
    elif view.age:
        words.append(dim("   rates in some seconds"))
    some_idle = plain(f"   {idle:,} with idle members")
    if idle and width_of((*words, some_idle)) <= width:
        words.append(some_idle)
    return tuple(words)


def _list(view: GroupsView, width: int, height: int) -> Lines:
    wide = width >= WIDE
    longest = max((len(g.group.id) for g in view.rows), default=0)
    name = min(max(longest, 12), max(width - (101 if wide else 61), 12), 60)
    note = (
        "" if len(view.rows) == len(view.groups) else f"{len(view.rows):,} of {len(view.groups):,}"
    )
    heads = [left("", 2), left("group", name), "  ", left("state", 12)]
    if wide:
        heads += [left("protocol", 10), left("assignor", 12)]
    heads += [right("members", 11), right("lag", 12)]
    if wide:
        heads += [right("read/s", 9), right("made/s", 9)]
    lines = [
        rule(f"groups by {view.order.value}", width, note=note),
        (dim("".join(heads) + "  caught up"),),
    ]
    for n in window(len(view.rows), height - len(lines), view.cursor):
        group = view.rows[n]
        chosen = n == view.cursor
        line = _row(view, group, name, chosen=chosen, wide=wide)
        lines.append(row_line(line, width, GroupHit(group.group.id), chosen=chosen))
    return tuple(lines)


def _row(view: GroupsView, of: GroupView, name: int, *, chosen: bool, wide: bool) -> Line:
    group = of.group
    gone = chosen and view.gone
    state = "gone" if gone else state_words(group.state)
    unsettled = gone or group.state not in SETTLED
    spans = [
        Span("▸ " if chosen else "  ", Tone.YOURS, bold=True),
        (bright if chosen else plain)(left(shorten(group.id, name), name)),
        Span("  " + left(state, 12), Tone.LOOK if unsettled else Tone.DIM, bold=unsettled),
    ]
    if wide:
        spans += [dim(left(group.protocol or "-", 10)), dim(left(group.assignor or "-", 12))]
    spans += [_members(of), plain(right(lag_words(of), 12))]
    if wide:
        rates = of.rates
        spans += [
            dim(right("-" if rates is None else rate(rates.read_per_s), 9)),
            dim(right("-" if rates is None else rate(rates.produced_per_s), 9)),
        ]
    return (*spans, plain("  "), *pace_words(of))


def _members(of: GroupView) -> Span:
    if of.group.fault is not None:
        return dim(right("-", 11))
    idle = f", {len(of.idle):,} idle" if of.idle else ""
    return plain(right(f"{len(of.group.members):,}{idle}", 11))
