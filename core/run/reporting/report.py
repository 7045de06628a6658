"""A run's report: text for a terminal, Markdown for a ticket. From its journal alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.run.journal.records import Record
from core.run.reporting.config_changes import changes
from core.run.reporting.runs import RunReading, refuse_damaged
from core.run.reporting.views import Leftovers, MoveProgress, MoveStatus, RunStatus, RunView
from core.text.tables import markdown_cell, markdown_table
from core.text.terminal import printable
from core.units import UNLIMITED, format_bytes, format_duration, format_rate, format_time, id_list

_SHOWN = 40
_MARKS = {
    MoveStatus.QUEUED: " ",
    MoveStatus.MOVING: "→",
    MoveStatus.STUCK: "!",
    MoveStatus.DONE: "√",
    MoveStatus.FAILED: "x",
    MoveStatus.CANCELLED: "-",
    MoveStatus.SKIPPED: "-",
}


def headline(view: RunView) -> str:
    """Return where the run stands, in one line."""
    parts = [
        f"run {view.run} on {view.cluster_name}: {view.state.value}",
        f"{view.done:,} of {view.partitions:,} done",
    ]
    if view.total_bytes:
        parts.append(f"{format_bytes(view.moved_bytes)} of {format_bytes(view.total_bytes)}")
    if not view.state.ended and view.left_seconds is not None:
        parts.append(f"{format_duration(view.left_seconds)} left")
    if view.ended_at is not None:
        parts.append(f"took {format_duration(view.elapsed_seconds)}")
    return ", ".join(parts)


def options_lines(created: Record) -> list[str]:
    """Return what was asked for as the run was made, one line each."""
    p, options = created.payload, created.payload["options"]
    came = f", {p['from']}" if p.get("from") else ""
    rate = options["rate_bytes_per_s"]
    limit = "no throttle"
    if rate != UNLIMITED:
        limit = f"throttle {format_rate(rate)} a broker and side"
    if bounds := options.get("auto"):
        low, high = format_rate(bounds["least_bytes_per_s"]), bounds["most_bytes_per_s"]
        limit = f"throttle adapted between {low} and {format_rate(high)} a broker and side"
    seconds = (p["estimate"] or {}).get("seconds")
    estimated = format_duration(seconds) if seconds else "not known"
    if per_side_rates := options.get("apart"):
        limit += f", less for {len(per_side_rates)} of them"
    lines = [
        f"asked for by {p['who']} on {p['host']}{came} at {format_time(created.at)}",
        f"{len(p['moves']):,} partitions, {limit}, estimated {estimated}",
    ]
    if options.get("at"):
        lines.append(f"to start at {options['at']}")
    if options.get("retention"):
        lowered = format_duration(options["retention"]["ms"] / 1000)
        lines.append(f"with the retention of its topics lowered to {lowered} meanwhile")
    if options.get("elect"):
        lines.append("with preferred leaders elected at the end")
    if options.get("most_extra_bytes"):
        high = format_bytes(options["most_extra_bytes"])
        lines.append(f"no broker to receive more than {high} at a time")
    if options.get("if_throttles_removed"):
        lines.append("to pause when somebody takes its throttles away again and again")
    if options["override_rates"]:
        lines.append("over lower rates that somebody else has set")
    if options["allow"]:
        lines.append(f"although these checks spoke against it: {', '.join(options['allow'])}")
    return lines


@refuse_damaged
def report(look: RunReading) -> str:
    """Return the text of `runs show`."""
    view = look.view
    lines = [
        headline(view),
        *([f"  {view.why}"] if view.why else []),
        *(f"  {line}" for line in options_lines(look.records[0])),
        "",
    ]
    width = max((len(str(m.tp)) for m in view.moves[:_SHOWN]), default=0)
    for m in view.moves[:_SHOWN]:
        size, says = _size_and_state(m)
        replicas = f"{id_list(m.before)} → {m.target_words}"
        lines.append(f"  {_MARKS[m.state]} {m.tp!s:<{width}}  {replicas}  {size}  {says}")
    if len(view.moves) > _SHOWN:
        lines.append(f"    and {len(view.moves) - _SHOWN} more (--json has all of them)")
    configs = changes(look.records, look.state)
    if configs:
        lines += ["", "  configs: before → during → after"]
    lines += [
        f"    {c.where}: {c.before_words} → {c.during_words} → {c.after_words}"
        for c in configs[:_SHOWN]
    ]
    if len(configs) > _SHOWN:
        lines.append(f"    and {len(configs) - _SHOWN} more (--json has all of them)")
    waiting = [f"  waits to be taken up: {r.what}, {r.who}" for r in view.requests if not r.taken]
    lines += [
        "",
        *(f"  {e.at:%H:%M:%S}  {printable(e.text)}" for e in view.events[-_SHOWN:]),
        *waiting,
    ]
    if view.leftovers is not None:
        lines += ["", *left_lines(view.leftovers)]
    if view.state is RunStatus.DIED:
        lines += ["", brings_back(view.run)]
    return "\n".join(lines) + "\n"


def brings_back(run: str) -> str:
    """Return what to do about a run whose process has died."""
    return f"Bring it back, to go on where it was: trimtab runs attach {run} --yes"


def left_lines(left: Leftovers) -> list[str]:
    """Return what a run left in the cluster, one line each."""
    if not left:
        return ["It left nothing in the cluster."]
    return ["It left in the cluster:", *(f"  {words}" for words in left_words(left))]


def left_words(left: Leftovers) -> Iterator[str]:
    """Yield each thing that a run left in the cluster, in words."""
    if left.moves:
        yield f"in flight: {', '.join(str(tp) for tp in left.moves)}"
    for topic, side, pairs in left.lists:
        yield f"{side} throttle list of {topic}: {','.join(pairs)}"
    for r in left.rates:
        rate = format_rate(r.rate_bytes_per_s)
        yield f"{r.side.value} throttle rate of broker {r.broker}: {rate}"
    for lowered in left.retention:
        yield f"retention of {lowered.topic}: {lowered.words}"


MAX_ROWS = 500
"""A ticket is read by people: larger runs have the rest in `runs show --json`."""


@refuse_damaged
def markdown(look: RunReading) -> str:
    """Return the report of a run, ended or not."""
    view, left = look.view, look.view.leftovers
    why = f": {markdown_cell(view.why)}" if view.why else ""
    rows = [
        (change.where, change.before_words, change.during_words, change.after_words)
        for change in changes(look.records, look.state)
    ]
    configs = markdown_table(("what", "before", "during", "after"), rows)
    behind = [f"- {markdown_cell(words)}" for words in left_words(left)] if left else []
    parts = [
        f"# Run {view.run} on {markdown_cell(view.cluster_name)}: {view.state.value}{why}",
        "",
        "## Asked",
        *_request_lines(look),
        "",
        "## Done",
        *_done_lines(view),
        "",
        *markdown_table(("partition", "before", "after", "bytes", "batch", "state"), _moves(view)),
        "",
        "## Changed and restored",
        *(configs if rows else ["Nothing: no throttle was set."]),
        "",
        *(["## Left in the cluster", *(behind or ["Nothing."]), ""] if left is not None else []),
        "## What happened",
        *markdown_table(("at", "what"), ((format_time(e.at), e.text) for e in view.events)),
    ]
    return "\n".join(parts) + "\n"


def _request_lines(look: RunReading) -> Iterator[str]:
    view = look.view
    yield from (f"- {markdown_cell(line)}" for line in options_lines(look.records[0]))
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


def _done_lines(view: RunView) -> Iterator[str]:
    states = ((state, view.count(state)) for state in MoveStatus)
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
    for m in view.moves[:MAX_ROWS]:
        size, says = _size_and_state(m)
        yield str(m.tp), id_list(m.before), m.target_words, size, str(m.batch), says
    if len(view.moves) > MAX_ROWS:
        yield f"and {len(view.moves) - MAX_ROWS} more", "", "", "", "", ""


def _size_and_state(m: MoveProgress) -> tuple[str, str]:
    size = f"{format_bytes(m.moved_bytes)} / {format_bytes(m.total_bytes)}"
    return size, f"{m.state.value}{': ' if m.why else ''}{m.why}"
