"""A run's report as Markdown, for an incident's ticket: asked, done, changed, restored, left.

It is made from the journal alone; no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from core.run.tell.changes import changes
from core.run.tell.report import asked_lines, left_words
from core.run.tell.runs import Reading
from core.run.tell.view import Leftovers, MoveState, RunView
from core.text.tables import markdown_cell, markdown_table
from core.units import format_bytes, format_duration, format_rate, format_time

MOST_ROWS = 500
"""A ticket is read by people: larger runs have the rest in `runs show --json`."""


def markdown(look: Reading) -> str:
    """Return the report of a run, ended or not."""
    view, left = look.view, look.view.leftovers
    why = f": {markdown_cell(view.why)}" if view.why else ""
    parts = [
        f"# Run {view.run} on {markdown_cell(view.cluster_name)}: {view.state.value}{why}",
        "",
        "## Asked",
        *_asked(look),
        "",
        "## Done",
        *_done(view),
        "",
        *markdown_table(("partition", "before", "after", "bytes", "batch", "state"), _moves(view)),
        "",
        "## Changed and restored",
        *_changed(look),
        "",
        *(["## Left in the cluster", *_left(left), ""] if left is not None else []),
        "## What happened",
        *markdown_table(("at", "what"), ((format_time(e.at), e.text) for e in view.events)),
    ]
    return "\n".join(parts) + "\n"


def _asked(look: Reading) -> Iterator[str]:
    view = look.view
    yield from (f"- {markdown_cell(line)}" for line in asked_lines(look.records[0]))
    data = sum(bool(m.total_bytes) for m in view.moves)
    size = format_bytes(view.total_bytes)
    batches = "1 batch" if view.batches == 1 else f"{view.batches} batches"
    yield f"- {len(view.moves):,} moves, {data:,} with data, {size} to copy, in {batches}"
    for request in view.requests:
        became = "waits" if not request.taken else "taken up"
        if request.refused:
            became = f"refused: {request.refused}"
        words = f"{request.what}, by {request.who}: {became}"
        yield f"- {format_time(request.at)} {markdown_cell(words)}"


def _done(view: RunView) -> Iterator[str]:
    states = ((state, view.count(state)) for state in MoveState)
    counts = ", ".join(f"{n} {state.value}" for state, n in states if n)
    yield f"- {view.done:,} of {view.partitions:,} done ({counts})"
    yield f"- {format_bytes(view.moved_bytes)} of {format_bytes(view.total_bytes)} moved"
    took = format_duration(view.elapsed_seconds)
    estimated = view.estimated_seconds
    known = format_duration(estimated) if estimated is not None else "not known"
    word = "took" if view.ended_at is not None else "so far"
    average = view.average_bytes_per_s
    mean = f", {format_rate(average)} on average" if average else ""
    yield f"- {word} {took}, estimated {known}{mean}"


def _moves(view: RunView) -> Iterator[Sequence[str]]:
    for m in view.moves[:MOST_ROWS]:
        size = f"{format_bytes(m.moved_bytes)} / {format_bytes(m.total_bytes)}"
        says = f"{m.state.value}{': ' if m.why else ''}{m.why}"
        yield str(m.tp), _ids(m.before), m.target_words, size, str(m.batch), says
    if len(view.moves) > MOST_ROWS:
        yield f"and {len(view.moves) - MOST_ROWS} more", "", "", "", "", ""


def _changed(look: Reading) -> Iterable[str]:
    """Yield every config that was changed: before, during and after."""
    rows = [
        (change.where, change.before_words, change.during_words, change.after_words)
        for change in changes(look.records, look.history)
    ]
    if not rows:
        return ["Nothing: no throttle was set."]
    return markdown_table(("what", "before", "during", "after"), rows)


def _left(left: Leftovers) -> list[str]:
    return [f"- {markdown_cell(words)}" for words in left_words(left)] or ["Nothing."]


def _ids(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))
