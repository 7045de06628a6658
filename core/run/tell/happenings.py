"""What else happens in a run, in words: what others do to it, what is asked for, what is around it.

Part of the story (`core.run.tell.story`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.cluster.balancers import editor_in_words, remedy_of
from core.run.record.history import History
from core.run.record.records import Kind, Record
from core.run.tell.view import Level
from core.units import counted, format_bytes, format_duration

NAMED = 3


def happenings(record: Record, history: History) -> Iterator[tuple[str, Level]]:
    """Yield the lines of one record."""
    p = record.payload
    match record.kind:
        case Kind.DISTURBED:
            yield from _disturbed(p)
        case Kind.PAIRS_PUT:
            topics = _named([topic for topic, _, _ in p["lists"]])
            yield f"throttle list of {topics} is whole again", Level.INFO
        case Kind.MOVES_ADDED:
            yield from _added(p, history)
        case Kind.RETENTION_LOWERED if history.retention is not None:
            if p["topics"]:
                lowered = format_duration(history.retention.ms / 1000)
                yield f"retention of {_named(p['topics'])} lowered to {lowered}", Level.LOOK
            yield from _refused(p)
        case Kind.RETENTION_LOWERING:
            yield from _refused(p)
        case Kind.RETENTION_AWAITED if p["of"]:
            before, after = (p.get(f"{when}_bytes", 0) for when in ("before", "after"))
            saved = f": {format_bytes(after)} to copy, not {format_bytes(before)}" * (
                after < before
            )
            yield f"logs of {p['moved']} of {p['of']} partitions are shorter{saved}", Level.INFO
        case Kind.RETENTION_RESTORED:
            changed = [topic for topic, how in p["topics"].items() if how == "changed"]
            back = [topic for topic, how in p["topics"].items() if how in ("set", "unset", "found")]
            if back:
                yield f"retention of {_named(back)} as before", Level.INFO
            if changed:
                yield f"retention of {_named(changed)}: changed by others, left so", Level.LOOK
        case Kind.ELECTED if p["moves"]:
            yield f"preferred leaders elected: {named_moves(p['moves'], history)}", Level.INFO
        case _:
            pass


def _refused(p: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    for topic, why in p.get("refused", {}).items():
        yield f"retention of {topic} stays as it is: {why}", Level.LOOK


def _disturbed(p: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    freed = [f"b{r['broker']} {r['side']} rate" for r in p["rates"] if r.get("freed")]
    if freed:
        what = _named(freed)
        yield f"somebody else's limit is gone, this run's own holds instead: {what}", Level.LOOK
    again = [f"b{r['broker']} {r['side']} rate" for r in p["rates"] if r.get("again")]
    if again:
        yield f"somebody else has put this run's throttles back: {_named(again)}", Level.LOOK
    editor = p.get("editor", "")
    who = editor_in_words(editor).rstrip(",").replace("somebody", "somebody else", 1)
    what_helps = f" ({remedy_of(editor)})" if editor else ""
    for mend, then in ((True, "put back"), (False, "left so")):
        known = (r for r in p["rates"] if not (r.get("freed") or r.get("again")))
        lost = [r for r in known if r["mend"] is mend]
        rates = [f"b{r['broker']} {r['side']} rate" for r in lost]
        lists = [f"{e['side']} list of {e['topic']}" for e in p["lists"] if e["mend"] is mend]
        if rates or lists:
            what = _named([*rates, *lists])
            said = f"{who} changed throttles of this run, {then}: {what}{what_helps}"
            yield said, Level.LOOK


def _added(p: Mapping[str, Any], history: History) -> Iterator[tuple[str, Level]]:
    if p["rollback"]:
        count = len(p["moves"])
        back = f"{counted(count, 'partition')} that had moved"
        yield f"rolling back: {back} go back" if count else "rolling back", Level.LOOK
    else:
        for entry in p["moves"]:
            after = ",".join(map(str, entry["after"]))
            yield f"{entry['topic']}-{entry['partition']} goes to {after} instead", Level.LOOK
    for index, why in p["refused"]:
        yield f"{history.moves[index].move.tp} does not go elsewhere: {why}", Level.ACT


def named_moves(indices: Sequence[int], history: History) -> str:
    """Return the partitions of moves, the first few by name."""
    return _named([str(history.moves[i].move.tp) for i in indices])


def _named(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
