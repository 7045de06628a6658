"""A run's events in words: one line for each record that matters to an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core.cluster.balancers import editor_in_words, editor_remedy
from core.cluster.probe.produce_latency import TOPIC_PREFIX
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind, Record, Request
from core.run.journal.requests import unreadable
from core.run.journal.run_state import RunState
from core.run.reporting.config_changes import AFTER_WORDS
from core.run.reporting.views import Level, RunEvent, RunRequest
from core.units import counted, format_bytes, format_duration, format_rate, name_list


def run_requests(
    records: Iterable[Record], pending: Iterable[Request], run: RunState
) -> tuple[RunRequest, ...]:
    """Return what was asked, oldest first; `pending` are those that no record tells of yet."""
    taken = (r for r in records if r.kind is Kind.REQUEST)
    rows = [(r.at, str(r.payload["kind"]), r.payload, True) for r in taken]
    rows += [(r.at, r.kind, r.payload, False) for r in pending]
    return tuple(
        RunRequest(
            at,
            kind,
            request_words(kind, p, run),
            f"{p.get('who', '?')} on {p.get('host', '?')}",
            is_taken,
            p.get("refused") or "",
        )
        for at, kind, p, is_taken in rows
    )


def ends_a_pause(payload: Mapping[str, Any]) -> bool:
    """Return whether a paused run that is asked for this is paused no longer."""
    kind = payload["kind"]
    return kind in ("resume", "rollback") or (kind == "cancel" and payload.get("moves") is None)


def request_words(kind: str, payload: Mapping[str, Any], run: RunState) -> str:
    """Return a request in words, like `cancel orders-3` or `throttle 50 MB/s`."""
    if unreadable(kind, payload):
        return kind
    named = payload.get("moves")
    match kind:
        case "pause":
            return "pause, and hold what is in flight" if payload.get("floor") else "pause"
        case "cancel":
            return "cancel the run" if named is None else f"cancel {_move_names(named, run)}"
        case "skip" | "retry":
            return f"{kind} {_move_names(named or (), run)}"
        case "retarget":
            after = ",".join(map(str, payload.get("after", ())))
            despite = f" (despite {', '.join(ids)})" if (ids := payload.get("allow")) else ""
            return f"retarget {_move_names([payload.get('move')], run)} to {after}{despite}"
        case "throttle":
            bounds = payload.get("auto")
            if bounds:
                low, high = bounds["least_bytes_per_s"], bounds["most_bytes_per_s"]
                return f"throttle auto, {format_rate(low)} – {format_rate(high)}"
            return f"throttle {format_rate(payload.get('rate_bytes_per_s'))}"
        case "rollback":
            return "roll back"
        case _:
            return kind


PAUSED = "paused, as asked"


def story(records: Iterable[Record], run: RunState, copied_bytes: int) -> tuple[RunEvent, ...]:
    """Return the events of `records`, oldest first; `run` is the fold of all of them.

    `copied_bytes` is what the moves that are done have copied.
    """
    events: list[RunEvent] = []
    started, paced, waited, paused = False, "", "", False
    for record in records:
        if record.kind is Kind.REQUEST and ends_a_pause(record.payload):
            paused = False
        if record.kind is Kind.WAITING:
            before, waited = waited, record.payload["why"]
            if waited.startswith(PAUSED) and paused:
                continue  # it has been told, whatever is in flight by now
            paused |= waited.startswith(PAUSED)
            if before and not waited and not paused:
                # Whole: a colon is also in addresses and in the words of brokers.
                cause = PAUSED if before.startswith(PAUSED) else before
                text = f"goes on, no longer: {cause}"
                events.append(RunEvent(record.at, record.kind.value, text, Level.GOOD))
        if record.kind is Kind.STARTED and started:
            text = f"brought back: process {record.payload['pid']} goes on"
            events.append(RunEvent(record.at, record.kind.value, text, Level.LOOK))
        started |= record.kind is Kind.STARTED
        for text, level in _lines(record, run, copied_bytes):
            if record.kind is Kind.RATES_CHANGING:
                if text == paced:
                    continue  # a ramp goes on for seconds
                paced = text
            events.append(RunEvent(record.at, record.kind.value, text, level))
    return tuple(events)


def _lines(record: Record, run: RunState, copied_bytes: int) -> Iterator[tuple[str, Level]]:
    p = record.payload
    match record.kind:
        case Kind.CREATED:
            moved = counted(len(p["moves"]), "partition")
            yield f"journal opened; original order of {moved} kept", Level.INFO
        case Kind.PREFLIGHT:
            for _, sentence in p["said"]:
                yield sentence, Level.LOOK
        case Kind.MEASURED if p["trouble"]:
            yield p["trouble"], Level.LOOK
        case Kind.MEASURED:
            high = max((p99 for _, _, p99 in p["before"]), default=0.0)
            yield f"producers wait up to {high:.0f} ms (p99) before the run", Level.INFO
            if p["before"]:
                topic = f"{TOPIC_PREFIX}{run.run_id}"
                yield f"measured by a topic of its own, deleted at the end: {topic}", Level.INFO
        case Kind.THROTTLE_SET:
            yield _throttles_text(run, p["batch"]), Level.INFO
        case Kind.RATE_SET:
            back = _brokers(broker for broker, _ in p["rates"])
            yield f"throttles set and read back on what has returned: {back}", Level.INFO
        case Kind.THROTTLE_FAILED:
            yield f"{p['why']}; what was set is taken back", Level.ACT
        case Kind.POSTPONED:
            named = _move_names(p["moves"], run)
            yield f"put off until the others are done: {named}", Level.LOOK
        case Kind.SUBMITTED if p["moves"]:
            batch = f"batch {p['batch'] + 1} of {run.batches}"
            yield f"{batch} submitted: {counted(len(p['moves']), 'partition')}", Level.INFO
        case Kind.DIRS_MOVED if p["replicas"]:
            copies = [f"{run.moves[i].move.tp} on broker {b} to {d}" for i, b, d in p["replicas"]]
            yield f"copies between log dirs begin: {name_list(copies)}", Level.INFO
        case Kind.MOVED:
            yield from _moved(p, run)
        case Kind.RATE_RESTORED:
            yield restored(p["rates"]), Level.INFO
        case Kind.REQUEST:
            what = request_words(p["kind"], p, run)
            requested_by = f"{what} asked for by {p.get('who', '?')} on {p.get('host', '?')}"
            refused = p.get("refused")
            yield f"{requested_by}; refused: {refused}" if refused else requested_by, Level.LOOK
        case Kind.RATES_CHANGING:
            yield f"throttles: {p['why']}", Level.INFO
        case Kind.RATES_CHANGED if p.get("refused"):
            kept = [
                f"b{broker} {side} {'what was there' if now is None else format_rate(now)}, "
                f"not {format_rate(refused)}"
                for broker, side, refused, now in p["refused"]
            ]
            yield f"throttles kept: {', '.join(kept)}: {p['why']}", Level.LOOK
        case Kind.PAIRS_TAKING:
            yield p["why"], Level.LOOK
        case Kind.DISTURBED:
            yield from _disturbance_lines(p)
        case Kind.PAIRS_PUT:
            topics = name_list([topic for topic, _, _ in p["lists"]])
            yield f"throttle list of {topics} is whole again", Level.INFO
        case Kind.MOVES_ADDED:
            yield from _added(p, run)
        case Kind.RETENTION_LOWERED if run.retention is not None:
            if p["topics"]:
                lowered = format_duration(run.retention.ms / 1000)
                yield f"retention of {name_list(p['topics'])} lowered to {lowered}", Level.LOOK
            yield from _refused(p)
        case Kind.RETENTION_LOWERING:
            yield from _refused(p)
        case Kind.RETENTION_AWAITED if p["of"]:
            before, after = p.get("before_bytes", 0), p.get("after_bytes", 0)
            saved = f": {format_bytes(after)} to copy, not {format_bytes(before)}"
            saved = saved if after < before else ""
            yield f"logs of {p['moved']} of {p['of']} partitions are shorter{saved}", Level.INFO
        case Kind.RETENTION_RESTORED:
            changed = [topic for topic, how in p["topics"].items() if how == "changed"]
            as_before = ("set", "unset", "found")
            restored_topics = [topic for topic, how in p["topics"].items() if how in as_before]
            if restored_topics:
                yield f"retention of {name_list(restored_topics)} as before", Level.INFO
            if changed:
                yield f"retention of {name_list(changed)}: changed by others, left so", Level.LOOK
        case Kind.ELECTED if p["moves"]:
            yield f"preferred leaders elected: {_move_names(p['moves'], run)}", Level.INFO
        case Kind.CANCEL_SENT if p["moves"]:
            yield f"cancelled in flight: {_move_names(p['moves'], run)}", Level.LOOK
        case Kind.REORDERED:
            yield f"original order submitted again: {_move_names(p['moves'], run)}", Level.INFO
        case Kind.WAITING if p["why"]:
            yield p["why"], Level.LOOK
        case Kind.NOTIFIED if p["by"] == "metrics":
            yield f"no metrics: {p['why']}", Level.LOOK
        case Kind.NOTIFIED if p["why"]:
            yield f"nobody was told ({p['event']}): {p['why']}", Level.LOOK
        case Kind.NOTIFIED:
            yield f"told by {p['by']} ({p['event']})", Level.INFO
        case Kind.CRASHED:
            yield p["why"], Level.ACT
        case Kind.ENDED:
            yield _ended(record, run, copied_bytes)


def _moved(p: Mapping[str, Any], run: RunState) -> Iterator[tuple[str, Level]]:
    for entry in p["moves"]:
        m = run.moves[entry["index"]]
        match Phase(entry["phase"]):
            case Phase.DONE:
                first = f"{m.move.after[0]} first as planned"
                if not m.move.reassigns:
                    placed = ", ".join(f"{b}: {path}" for b, path in m.move.dir_moves.items())
                    yield f"{m.move.tp} done: in its log dir (broker {placed})", Level.GOOD
                elif m.move.is_reorder:
                    yield f"{m.move.tp} done: re-ordered, {first}", Level.GOOD
                else:
                    yield f"{m.move.tp} done: in ISR, {first}", Level.GOOD
            case Phase.FAILED:
                yield f"{m.move.tp} {entry['why']}", Level.ACT
            case _:
                yield f"{m.move.tp} {entry['why']}", Level.LOOK
    if p["stop"]:
        yield f"no further batch starts: {p['stop']}", Level.ACT


def _throttles_text(run: RunState, batch: int) -> str:
    """Return what throttles a batch set, and what was there before."""
    rates = run.throttles.batches[batch].rates
    if not rates:
        return "throttles as set before"
    prior_rates = [
        f"b{r.broker} {r.side.value} {format_rate(r.original_bytes_per_s)}"
        + (" (kept)" if r.rate_bytes_per_s is None else "")
        for r in rates
        if r.prior is not None
    ]
    before = f"{', '.join(prior_rates)}, others unset" if prior_rates else "all unset"
    brokers = _brokers(r.broker for r in rates)
    return f"throttles set and read back on {brokers}; before: {before}"


def restored(rates: Iterable[Mapping[str, Any]]) -> str:
    """Return how rates were put back, the unremarkable ones counted together."""
    rates = list(rates)
    plain = [rate["broker"] for rate in rates if rate["how"] == "unset"]
    parts = [f"{_brokers(plain)} unset again"] if plain else []
    parts += [
        f"b{rate['broker']} {rate['side']} {AFTER_WORDS[rate['how']]}"
        for rate in rates
        if rate["how"] != "unset"
    ]
    return f"throttle rates: {', '.join(parts)}"


def _ended(record: Record, run: RunState, copied_bytes: int) -> tuple[str, Level]:
    p = record.payload
    took = format_duration((record.at - run.created_at).total_seconds())
    newest = run.newest.values()
    done = sum(m.phase is Phase.DONE for m in newest)
    of = counted(len(newest), "partition")
    result = f"{done} of {of}, {format_bytes(copied_bytes)} in {took}"
    why = f"; {p['why']}" if p["why"] else ""
    match Outcome(p["outcome"]):
        case Outcome.DONE:
            return f"done: {result}; throttles as found{why}", Level.GOOD
        case Outcome.CANCELLED if run.rolling_back:
            return f"rolled back: {result}; throttles as found", Level.LOOK
        case Outcome.CANCELLED:
            return f"cancelled: {result} had been done; throttles as found{why}", Level.LOOK
        case Outcome.INCOMPLETE:
            return f"incomplete: {result}{why}", Level.ACT
        case Outcome.FAILED:
            return f"failed: {p['why']}", Level.ACT


def _brokers(ids: Iterable[int]) -> str:
    """Return `broker 6`, or `brokers 2 6`."""
    known = sorted(set(ids))
    return f"broker{'' if len(known) == 1 else 's'} {' '.join(map(str, known))}"


def _refused(p: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    for topic, why in p.get("refused", {}).items():
        yield f"retention of {topic} stays as it is: {why}", Level.LOOK


def _disturbance_lines(p: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    freed = [f"b{r['broker']} {r['side']} rate" for r in p["rates"] if r.get("freed")]
    if freed:
        what = name_list(freed)
        yield f"somebody else's limit is gone, this run's own holds instead: {what}", Level.LOOK
    returned = [f"b{r['broker']} {r['side']} rate" for r in p["rates"] if r.get("again")]
    if returned:
        yield f"somebody else has put this run's throttles back: {name_list(returned)}", Level.LOOK
    editor = p.get("editor", "")
    who = editor_in_words(editor).rstrip(",").replace("somebody", "somebody else", 1)
    what_helps = f" ({editor_remedy(editor)})" if editor else ""
    for mend, then in ((True, "put back"), (False, "left so")):
        known = (r for r in p["rates"] if not (r.get("freed") or r.get("again")))
        lost = [r for r in known if r["mend"] is mend]
        rates = [f"b{r['broker']} {r['side']} rate" for r in lost]
        lists = [f"{e['side']} list of {e['topic']}" for e in p["lists"] if e["mend"] is mend]
        if rates or lists:
            what = name_list([*rates, *lists])
            yield f"{who} changed throttles of this run, {then}: {what}{what_helps}", Level.LOOK


def _added(p: Mapping[str, Any], run: RunState) -> Iterator[tuple[str, Level]]:
    if p["rollback"]:
        back = f": {counted(len(p['moves']), 'partition')} that had moved go back"
        yield f"rolling back{back if p['moves'] else ''}", Level.LOOK
    else:
        for entry in p["moves"]:
            after = ",".join(map(str, entry["after"]))
            yield f"{entry['topic']}-{entry['partition']} goes to {after} instead", Level.LOOK
    for index, why in p["refused"]:
        yield f"{run.moves[index].move.tp} does not go elsewhere: {why}", Level.ACT


def _move_names(indices: Iterable[Any], run: RunState) -> str:
    """Return the partitions of moves, the first few by name; anybody may ask for one of none."""
    known = range(len(run.moves))
    names = [str(run.moves[i].move.tp) if i in known else f"move {i}" for i in indices]
    return name_list(names) if names else ""
