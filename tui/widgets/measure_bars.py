"""What each broker was and becomes in the planner's six measures: numbers, and bars with room.

All are percent of a fair share. What the plan leaves outside the band comes first.
"""

from __future__ import annotations

import numpy as np

from core.plan.planner.evenness import Evenness
from core.plan.planner.model.measures import Measure
from tui.widgets.bars import bar
from tui.widgets.lines import Line, Lines, Span, Tone, dim, fit, left, plain, right, window

NAME = 4
PAIR = 8
"""Columns of `220→104 `."""
SHORT = {Measure.REPLICAS: "repl", Measure.LEADER_IN: "lead in"}
FULL = 2.0
"""Fair shares at which a bar is full; a fair share is its middle."""


def bar_lines(even: Evenness, cursor: int, width: int, height: int) -> Lines:
    """Return a header and one line a broker, as many as fit, the row `cursor` among them."""
    measures = even.measures
    if not measures or height < 1:
        return ()
    # The last cell needs no gap after it.
    cell = max((width - NAME + 1) // len(measures), PAIR)
    shown = measures[: max((width - NAME + 1) // cell, 1)]
    names = (left(SHORT.get(m, m.words), cell) for m in shown)
    lines: list[Line] = [fit((dim(" " * NAME), *(dim(name) for name in names)), width)]
    rows = even.by_need()
    for at in window(len(rows), height - 1, cursor):
        row = rows[at]
        spans: list[Span] = [plain(left(f"b{even.brokers[row]}", NAME))]
        for measure in shown:
            spans += _cell(even, row, measure, cell)
        lines.append(fit(tuple(spans), width))
    return tuple(lines)


def _cell(even: Evenness, row: int, measure: Measure, width: int) -> tuple[Span, ...]:
    old, new = float(even.before[row, measure]), float(even.after[row, measure])
    counts = bool(even.counts[row])
    one, other = _percent(old), _percent(new)
    was_off, is_off = (counts and abs(v - 1) > even.band + 1e-9 for v in (old, new))
    tone = Tone.LOOK if is_off else Tone.FINE if was_off else Tone.PLAIN
    first = Span(right(one, 3), Tone.LOOK if was_off else Tone.DIM, bold=was_off and not is_off)
    if one == other:
        pair: tuple[Span, ...] = (
            plain("    "),
            Span(right(one, 3), tone if is_off else Tone.DIM, bold=is_off),
            plain(" "),
        )
    else:
        pair = (first, dim("→"), Span(left(other, 3), tone, bold=is_off), plain(" "))
    room = width - PAIR - 1
    if room < 3:
        return (*pair, plain(" " * (width - PAIR)))
    bar_tone = Tone.LOOK if is_off else Tone.FINE if was_off else Tone.RAISED
    return (*pair, *bar(new / FULL, room, bar_tone), plain(" "))


def _percent(share: float) -> str:
    return "?" if np.isnan(share) else f"{min(max(share, 0.0), 9.99):.0%}".rstrip("%")


def balance_spans(even: Evenness) -> tuple[Span, ...]:
    """Return in a word whether brokers are even, and whether they get so: `no → yes`."""
    now, then = (even.is_within(loads) for loads in (even.before, even.after))
    words = [dim("balanced "), _yes_or_no(now, even)]
    if now == then and then:
        return tuple(words)
    return (*words, dim(" → "), _yes_or_no(then, even))


def _yes_or_no(fine: bool, even: Evenness) -> Span:
    """Return the word; what is even by what is known need not be."""
    if fine and not even.measures:
        return dim("not known")
    if fine and not even.is_whole:
        return Span("as far as known", Tone.LOOK)
    return Span("yes" if fine else "no", Tone.FINE if fine else Tone.LOOK, bold=True)


def worst_spans(even: Evenness) -> tuple[Span, ...]:
    """Return which broker and measure are furthest off, and which then: another one's, maybe."""
    worst, left_over = even.furthest(even.before), even.furthest(even.after)
    if worst is None or left_over is None:
        return ()

    def place(at: tuple[int, Measure]) -> str:
        return f"b{even.brokers[at[0]]} {at[1].words} "

    now, then = float(even.before[worst]), float(even.after[left_over])
    where = "" if left_over == worst else place(left_over)
    return (
        dim("worst "),
        Span(
            f"{place(worst)}{now:.0%}",
            Tone.PLAIN if even.is_within(even.before) else Tone.LOOK,
        ),
        dim(" → "),
        Span(f"{where}{then:.0%}", Tone.FINE if even.is_within(even.after) else Tone.LOOK),
    )
