"""A run's report as Markdown, for an incident's ticket: asked, done, changed, restored, left.

It is made from the journal alone; no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from core.run.history import History
from core.run.journal import Kind, Record
from core.run.runs import Reading
from core.run.throttle import ListIntent, RateIntent
from core.run.view import MoveState, RunView
from core.units import UNLIMITED, format_bytes, format_duration, format_rate, format_time

MOST_ROWS = 500
"""A ticket is read by people: larger runs have the rest in `runs show --json`."""
_RESTORED = {
    "unset": "unset again",
    "set": "set as before",
    "kept": "was kept",
    "changed": "changed by somebody else meanwhile, left so",
}


def markdown(look: Reading) -> str:
    """Return the report of a run, ended or not."""
    view, history = look.view, look.history
    why = f": {view.why}" if view.why else ""
    parts = [
        f"# Run {view.run} on {view.cluster_name}: {view.state.value}{why}",
        "",
        "## Asked",
        *_asked(view, history),
        "",
        "## Done",
        *_done(view),
        "",
        *_table(("partition", "before", "after", "bytes", "batch", "state"), _moves(view)),
        "",
        "## Changed and restored",
        *_changed(look),
        "",
        *(["## Left in the cluster", *_left(view), ""] if view.leftovers is not None else []),
        "## What happened",
        *_table(("at", "what"), ((format_time(e.at), e.text) for e in view.events)),
    ]
    return "\n".join(parts) + "\n"


def _asked(view: RunView, history: History) -> Iterator[str]:
    data = sum(bool(m.total_bytes) for m in view.moves)
    rate = view.rate_bytes_per_s
    limit = "no throttle" if rate == UNLIMITED else f"{format_rate(rate)} a broker and side"
    yield f"- by {view.who}, at {format_time(view.started_at)}"
    if view.starts_at is not None:
        yield f"- to begin at {format_time(view.starts_at)}"
    size = format_bytes(view.total_bytes)
    yield f"- {len(view.moves)} moves, {data} with data, {size} to copy, in {view.batches} batches"
    yield f"- {limit}"
    if view.estimated_seconds is not None:
        yield f"- estimated {format_duration(view.estimated_seconds)}"
    if history.allowed:
        yield f"- allowed: {', '.join(sorted(history.allowed))}"
    for request in view.requests:
        became = "waits" if not request.taken else "taken up"
        if request.refused:
            became = f"refused: {request.refused}"
        yield f"- {format_time(request.at)} {request.what}, by {request.who}: {became}"


def _done(view: RunView) -> Iterator[str]:
    states = ((state, sum(m.state is state for m in view.moves)) for state in MoveState)
    counts = ", ".join(f"{n} {state.value}" for state, n in states if n)
    yield f"- {view.done} of {len(view.moves)} done ({counts})"
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
        yield str(m.tp), _ids(m.before), _ids(m.after), size, str(m.batch), says
    if len(view.moves) > MOST_ROWS:
        yield f"and {len(view.moves) - MOST_ROWS} more", "", "", "", "", ""


def _changed(look: Reading) -> Iterable[str]:
    """Yield every throttle that was set: as found, as set, and what it is since."""
    history = look.history
    rows = [*_rates(history, look.records), *_lists(history)]
    if not rows:
        return ["Nothing: no throttle was set."]
    return _table(("what", "found", "set", "since"), rows)


def _rates(history: History, records: Iterable[Record]) -> Iterator[Sequence[str]]:
    restored = {
        (rate["broker"], rate["side"]): rate["how"]
        for record in records
        if record.kind is Kind.RATE_RESTORED
        for rate in record.payload["rates"]
    }
    first: dict[tuple[int, str], RateIntent] = {}
    for batch in history.throttles.values():
        for intent in (*batch.rates, *batch.late):
            first.setdefault((intent.broker, intent.side.value), intent)
    for (broker, side), intent in sorted(first.items()):
        found = "unset" if intent.prior is None else format_rate(intent.found_bytes_per_s)
        kept = intent.rate_bytes_per_s is None
        ours = "kept as it was" if kept else format_rate(intent.rate_bytes_per_s)
        how = restored.get((broker, side))
        held = (broker, intent.side) in history.rates
        since = _RESTORED.get(how or "", how or "")
        yield f"{side} rate of broker {broker}", found, ours, "still set" if held else since


def _lists(history: History) -> Iterator[Sequence[str]]:
    whole: dict[tuple[str, str], ListIntent] = {}
    for batch in history.throttles.values():
        for intent in batch.lists:
            key = intent.topic, intent.side.value
            whole[key] = whole[key].joined(intent) if key in whole else intent
    for (topic, side), intent in sorted(whole.items()):
        found = "unset" if intent.prior is None else intent.prior or "empty"
        held = history.lists.get((topic, intent.side))
        since = f"{len(held.pairs)} still there" if held else "taken out again"
        ours = f"{len(intent.pairs)} entries added"
        yield f"{side} list of {topic}", found, ours, since


def _left(view: RunView) -> Iterator[str]:
    left = view.leftovers
    if not left:
        yield "Nothing."
        return
    if left.moves:
        yield f"- in flight: {', '.join(map(str, left.moves))}"
    for topic, side, pairs in left.lists:
        yield f"- {side} throttle list of {topic}: {','.join(pairs)}"
    for broker, side, rate in left.rates:
        yield f"- {side} throttle rate of broker {broker}: {format_rate(rate)}"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def _ids(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))
