"""The table of it all: what was played, against which target, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos import simulated
from chaos.killing import CANCELLED_AT, CANCELS, PARTS, PAUSES, RUNS, TIMES, died
from chaos.orders import KINDS, WHEN, Order
from chaos.played import Played
from chaos.real import ACKNOWLEDGED, TROUBLE, TROUBLES
from chaos.simulated import RESTLESS

MET, MISSED, UNFINISHED = "met", "MISSED", "NOT PLAYED WHOLE"
FILES = ("simulated", "processes", "nodes-1", "nodes-2", "trouble")
STORMS = 200
MOST_TIME, MOST_BURST, MOST_WAIT = 1.05, 4.0, 1.5
TIME = ("time of a throttled run, over that of Kafka's tool", f"≤ {MOST_TIME}")
BURST = ("bytes in the first 3 s of a throttled run", f"≤ {MOST_BURST:.0f} s × rate")
LATENCY = (
    "p99 produce latency in an adaptive run, over before",
    f"≤ {MOST_WAIT}, and below Kafka's tool",
)
MANY = (
    "10,000 moves in one run, simulator: memory, journal, a step",
    "≤ 150 MB; ≤ 20 MB; flat",
)
MEASURED = "measured"
MOST_MEMORY, MOST_JOURNAL, FLAT = 150e6, 20e6, 1.5


@dataclass(frozen=True, slots=True)
class Row:
    """One target, what was played for it, and whether it is met."""

    what: str
    target: str
    seen: str
    verdict: str
    missing: tuple[str, ...] = ()


Results = Mapping[str, Sequence[dict[str, Any]]]


def results(reports: Path) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Return every result by its group, and how many there are to play of some."""
    found: dict[str, list[dict[str, Any]]] = {}
    of: dict[str, int] = {}
    for name in FILES:
        played = Played(reports / f"chaos-{name}.json")
        of |= played.expected
        for group, case, result in played.entries:
            found.setdefault(group, []).append(result | {"name": case})
    return found, of


def _row(what: str, found: Results, wanted: Mapping[str, int]) -> Row:
    """Return the row of what has to be played so many times each without anything wrong."""
    wrong = sum(bool(r["wrong"]) for group in wanted for r in found.get(group, ()))
    times = {group: min(len(found.get(group, ())), count) for group, count in wanted.items()}
    missing = tuple(
        f"{group}: {times[group]} of {count}"
        for group, count in wanted.items()
        if times[group] < count
    )
    seen = f"{sum(times.values())} of {sum(wanted.values())}, {wrong} wrong"
    return Row(what, "100 %", seen, MISSED if wrong else UNFINISHED if missing else MET, missing)


def chaos_rows(found: Results, of: Mapping[str, int]) -> Iterable[Row]:
    """Yield the rows of what was killed, cancelled, paused and troubled."""
    kinds = {f"{when} {kind}": TIMES for kind in KINDS for when in WHEN}
    runs = {RUNS: max(1, len(found.get(RUNS, ())))}
    yield _row("runs that ended as they should, real brokers", found, runs)
    yield _row("process killed at each kind of record, real brokers", found, kinds)
    whole = (
        ("process killed at each record of 60 moves, simulator", simulated.DEATHS, 220),
        ("cancelled at each look of 60 moves, simulator", simulated.CANCELS, 440),
        ("50 pauses and resumes in a run, simulator", simulated.PAUSES, len(RESTLESS)),
        ("random faults at 1,000 partitions, simulator", simulated.STORMS, STORMS),
    )
    for what, group, count in whole[:1]:
        yield _row(what, found, {group: of.get(group, count)})
    orders = [Order("before", kind) for kind in KINDS]
    for part in (one for both in PARTS for one in both.split(" and ")):
        groups = {group: 1 for order in orders for group in died(part, order)}
        yield _row(f"{part} killed before each kind of record", found, groups)
    yield _row(
        "cancelled at each kind of record, real brokers", found, {CANCELS: len(CANCELLED_AT)}
    )
    for what, group, count in whole[1:3]:
        yield _row(what, found, {group: of.get(group, count)})
    yield _row("50 pauses and resumes in a run, real brokers", found, {PAUSES: 1})
    for what, group, count in whole[3:]:
        yield _row(what, found, {group: count})
    yield _row("random faults, real brokers", found, {TROUBLE: TROUBLES})
    counted = found.get(ACKNOWLEDGED, ())
    records = sum(r["records"] for r in counted)
    lost = [wrong for r in counted for wrong in r["wrong"]]
    verdict = MISSED if lost else MET if records else UNFINISHED
    seen = f"{records:,} counted, {'; '.join(lost) or '0 lost'}"
    yield Row("acknowledged records lost on real brokers", "0", seen, verdict)
    known = {*kinds, *(g for _, g, _ in whole), CANCELS, PAUSES, TROUBLE, ACKNOWLEDGED}
    known |= {group for p in PARTS for order in orders for group in died(p, order)}
    rest = {group: len(rows) for group, rows in found.items() if group not in (*known, RUNS)}
    planned = sum(of.get(group, count) for group, count in rest.items())
    row = _row("besides: other deaths and requests, simulator", found, rest)
    seen = f"{sum(rest.values())} of {planned} (a seeded sample), {row.seen.split(', ')[1]}"
    yield Row(row.what, row.target, seen, row.verdict if rest else UNFINISHED)


def bench_rows(reports: Path) -> Iterable[Row]:
    """Yield the rows of what was measured beside Kafka's tool, and of ten thousand moves."""
    measured = Played(reports / "chaos-benches.json")
    for name, whats, tell in (
        ("run-beside-tool", (TIME, BURST), _beside_tool),
        ("produce-latency", (LATENCY,), _latency),
        ("many-moves", (MANY,), _many_moves),
    ):
        if measured.knows(MEASURED, name):
            yield from tell(json.loads((reports / f"{name}.json").read_text()))
        else:
            yield from (Row(what, target, "not measured", UNFINISHED) for what, target in whats)


def _row_of(about: tuple[str, str], seen: str, *, met: bool) -> Row:
    return Row(*about, seen, MET if met else MISSED)


def _beside_tool(run: Any) -> Iterable[Row]:
    moving, whole = run["ratio"]["moving_seconds"], run["ratio"]["whole_seconds"]
    seen = f"{moving:.3f} moving, {whole:.3f} from command to end"
    yield _row_of(TIME, seen, met=max(moving, whole) <= MOST_TIME)
    ours, tool = (run["medians"][who]["first_bytes_over_rate"] for who in ("trimtab", "tool"))
    yield _row_of(BURST, f"{ours} s × rate (Kafka's tool {tool})", met=ours <= MOST_BURST)


def _latency(latency: Any) -> Iterable[Row]:
    ours, tool = (latency["medians"][who]["ratio"] for who in ("trimtab", "tool"))
    turns = f"{len(latency['turns'])} turns, {len(latency['rejected'])} rejected"
    seen = f"{ours:.2f} (Kafka's tool {tool:.2f}; {turns})"
    yield _row_of(LATENCY, seen, met=ours <= MOST_WAIT and ours < tool)


def _many_moves(many: Any) -> Iterable[Row]:
    step = many["step_ms"]
    flat = step["last_tenth"] <= FLAT * step["first_tenth"]
    small = many["memory_bytes"] <= MOST_MEMORY and many["journal_bytes"] <= MOST_JOURNAL
    steps = ", ".join(str(step[part]) for part in ("first_tenth", "middle_tenth", "last_tenth"))
    seen = f"{many['memory_bytes'] / 1e6:.0f} MB; {many['journal_bytes'] / 1e6:.1f} MB; {steps} ms"
    yield _row_of(MANY, seen, met=flat and small)


def rows(reports: Path) -> list[Row]:
    found, of = results(reports)
    return [*chaos_rows(found, of), *bench_rows(reports)]


def write(reports: Path, minutes: float) -> list[Row]:
    """Write reports/chaos.json, with everything that was wrong, and return the rows."""
    found, _ = results(reports)
    wrong = [
        {"group": group, **result}
        for group, entries in found.items()
        for result in entries
        if result["wrong"]
    ]
    table = rows(reports)
    told = {"minutes": round(minutes, 1), "rows": [asdict(row) for row in table], "wrong": wrong}
    (reports / "chaos.json").write_text(json.dumps(told, indent=2) + "\n")
    return table


def text(table: Sequence[Row]) -> str:
    """Return the table as lines of text, what is missing below."""
    widths = [max(len(getattr(row, name)) for row in table) for name in ("what", "target", "seen")]
    lines = [
        f"{row.what:{widths[0]}}  {row.target:{widths[1]}}  {row.seen:{widths[2]}}  {row.verdict}"
        for row in table
    ]
    lines += [f"  missing of {row.what}: {', '.join(row.missing)}" for row in table if row.missing]
    return "\n".join(lines)
