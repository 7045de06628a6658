"""The plan as a list: what each partition has and will have."""

from __future__ import annotations

from collections.abc import Sequence

from core.cluster.state import ClusterState
from core.plan.plan import Move, Plan
from core.units import counted, format_bytes
from tui.drawing.spans import (
    Line,
    Lines,
    RowHit,
    Span,
    Tone,
    bright,
    dim,
    fit,
    left,
    plain,
    right,
    row_line,
    shorten,
    width_of,
    window,
)
from tui.plan.assessment import bytes_to_copy

_WITH_CONSEQUENCE = 68
"""Columns from which there is room for what a move means beside its bytes."""


def copied_words(total_bytes: int, unknown: int) -> str:
    """Return `, 418 GB to copy`, the least where sizes are unknown; "" where all of them are."""
    if unknown and not total_bytes:
        return ""
    return f", {'at least ' if unknown else ''}{format_bytes(total_bytes)} to copy"


def change_words(before: Sequence[int], after: Sequence[int], dirs: Sequence[int] = ()) -> str:
    """Return what changes in short: `7→12`, `+4`, `−4`, `order`, or `b3 dir` for log dirs."""
    if dirs and tuple(before) == tuple(after):
        return f"{' '.join(f'b{broker}' for broker in dirs)} dir"
    adding = [b for b in after if b not in before]
    removing = [b for b in before if b not in after]
    pairs = [f"{a}→{b}" for a, b in zip(removing, adding, strict=False)]
    pairs += [f"+{b}" for b in adding[len(removing) :]]
    pairs += [f"−{b}" for b in removing[len(adding) :]]
    return " ".join(pairs) or "order"


def replicas_of(move: Move, before_width: int = 0) -> Line:
    """Return `●7 ○2 ○4 → ●12 ○2 ○4`: the preferred leader first, leaving amber, arriving blue.

    What comes before the arrow is filled to `before_width`, so that arrows stand in a column.
    """
    spans: list[Span] = []
    for brokers, changed, tone in (
        (move.before, set(move.removing), Tone.LOOK),
        (move.after, set(move.adding), Tone.YOURS),
    ):
        if spans:
            spans.append(plain(" " * (before_width - width_of(spans))))
            spans.append(dim(" → "))
        for place, broker in enumerate(brokers):
            spans.append(plain(" ") if place else plain(""))
            mark = "●" if place == 0 else "○"
            leads_anew = place == 0 and move.before[:1] != move.after[:1]
            if broker in changed:
                spans.append(Span(f"{mark}{broker}", tone, bold=place == 0))
            elif leads_anew:
                spans.append(Span(f"{mark}{broker}", Tone.BRIGHT, bold=True))
            else:
                spans.append(dim(f"{mark}{broker}"))
    return tuple(spans)


def consequence_of(move: Move) -> str:
    """Return what a move means beyond its bytes: who leads, how many replicas."""
    parts = []
    old, new = (move.before or (None,))[0], (move.after or (None,))[0]
    if old != new:
        parts.append(f"leader {old}→{new}")
    if len(move.before) != len(move.after):
        parts.append(f"RF {len(move.before)}→{len(move.after)}")
    return ", ".join(parts)


def diff_header(width: int) -> Line:
    name, change, replicas = _columns(width)
    return (
        dim("  " + left("partition", name + 1)),
        dim(left("move", change + 1)),
        dim(left("replicas", replicas)),
        dim(right("to copy", 9)),
    )


def diff_lines(
    state: ClusterState,
    plan: Plan,
    cursor: int,
    width: int,
    height: int,
    *,
    focused: bool,
    order: Sequence[int] | None = None,
) -> Lines:
    """Return the moves that fit `height`, the cursor's among them: by topic, or in `order`."""
    rows: list[int | str] = list(order) if order is not None else _rows_by_topic(plan)
    arrow = max((sum(len(str(b)) + 2 for b in move.before) - 1 for move in plan), default=0)
    shown = []
    for i in window(len(rows), height, rows.index(cursor) if cursor in rows else 0):
        row = rows[i]
        if isinstance(row, str):
            shown.append(_topic_line(state, plan, row))
            continue
        selected = row == cursor and focused
        line = _move_line(
            state, plan.moves[row], width, arrow, selected=selected, named=order is not None
        )
        shown.append(row_line(line, width, RowHit(row), chosen=selected))
    return tuple(shown)


def _rows_by_topic(plan: Plan) -> list[int | str]:
    rows: list[int | str] = []
    for index, move in enumerate(plan):
        if index == 0 or plan.moves[index - 1].tp.topic != move.tp.topic:
            rows.append(move.tp.topic)
        rows.append(index)
    return rows


def _topic_line(state: ClusterState, plan: Plan, topic: str) -> Line:
    moves = [move for move in plan if move.tp.topic == topic]
    sizes = [bytes_to_copy(state, move) for move in moves]
    known = sum(size for size in sizes if size is not None)
    amount = "size unknown" if None in sizes and not known else format_bytes(known)
    return (
        plain("  "),
        plain(topic),
        dim(
            f"  {counted(len(moves), 'move')}" + (f" · {amount}" if known or None in sizes else "")
        ),
    )


def _move_line(
    state: ClusterState,
    move: Move,
    width: int,
    arrow: int,
    *,
    selected: bool,
    named: bool = False,
) -> Line:
    name, change, replicas = _columns(width)
    size = bytes_to_copy(state, move)
    data: Span
    if not move.receiving:
        data = Span(right("no data", 9), Tone.FINE)
    elif size is None:
        data = Span(right("?", 9), Tone.LOOK)
    else:
        data = plain(right(format_bytes(size), 9))
    partition = f"  p{move.tp.partition}"
    if named:
        number = f" p{move.tp.partition}"
        partition = shorten(move.tp.topic, name - len(number)) + number
    return (
        Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
        bright(left(partition, name + 1)) if selected else plain(left(partition, name + 1)),
        Span(
            left(change_words(move.before, move.after, tuple(move.dir_moves)), change + 1),
            Tone.YOURS if move.receiving else Tone.DIM,
        ),
        *fit(replicas_of(move, arrow), replicas),
        data,
        *((plain("  "), dim(consequence_of(move))) if width >= _WITH_CONSEQUENCE else ()),
    )


def _columns(width: int) -> tuple[int, int, int]:
    if width >= 100:
        return 16, 14, 44
    return (16, 8, 26) if width >= 64 else (7, 7, 24)
