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
from chaos.real import ACKNOWLEDGED, TROUBLE, TROUBLES
from chaos.result_log import ResultLog
from chaos.simulated import RESTLESS, STORM_SEEDS

MET, MISSED, UNFINISHED = "met", "MISSED", "NOT PLAYED WHOLE"
FILES = ("simulated", "processes", "nodes-1", "nodes-2", "trouble")


@dataclass(frozen=True, slots=True)
class Row:
    """One target, what was played for it, and whether it is met."""

    what: str
    target: str
    outcome: str
    verdict: str
    missing: tuple[str, ...] = ()


Results = Mapping[str, Sequence[dict[str, Any]]]


def results(reports: Path) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Return every result by its group, and how many there are to play of some."""
    cases: dict[str, list[dict[str, Any]]] = {}
    of: dict[str, int] = {}
    for name in FILES:
        played = ResultLog(reports / f"chaos-{name}.json")
        of |= played.expected
        for group, case, result in played.entries:
            cases.setdefault(group, []).append(result | {"name": case})
    return cases, of


def _row(what: str, cases: Results, expected: Mapping[str, int]) -> Row:
    """Return the row of what has to be played so many times each without anything wrong."""
    wrong = sum(bool(r["wrong"]) for group in expected for r in cases.get(group, ()))
    times = {group: min(len(cases.get(group, ())), count) for group, count in expected.items()}
    missing = tuple(
        f"{group}: {times[group]} of {count}"
        for group, count in expected.items()
        if times[group] < count
    )
    outcome = f"{sum(times.values())} of {sum(expected.values())}, {wrong} wrong"
    return Row(what, "100 %", outcome, MISSED if wrong else UNFINISHED if missing else MET, missing)


def chaos_rows(cases: Results, of: Mapping[str, int]) -> Iterable[Row]:
    """Yield the rows of what was killed, cancelled, paused and troubled."""
    kinds = {f"{when} {kind}": TIMES for kind in KINDS for when in WHEN}
    runs = {RUNS: max(1, len(cases.get(RUNS, ())))}
    yield _row("runs that ended as they should, real brokers", cases, runs)
    yield _row("process killed at each kind of record, real brokers", cases, kinds)
    whole = (
        ("process killed at each record of 60 moves, simulator", simulated.DEATHS, 220),
        ("cancelled at each look of 60 moves, simulator", simulated.CANCELS, 440),
        ("50 pauses and resumes in a run, simulator", simulated.PAUSES, len(RESTLESS)),
        ("random faults at 1,000 partitions, simulator", simulated.STORMS, STORM_SEEDS),
    )
    for what, group, count in whole[:1]:
        yield _row(what, cases, {group: of.get(group, count)})
    orders = [Order("before", kind) for kind in KINDS]
    for part in (role for both in PARTS for role in both.split(" and ")):
        groups = {group: 1 for order in orders for group in died(part, order)}
        yield _row(f"{part} killed before each kind of record", cases, groups)
    yield _row(
        "cancelled at each kind of record, real brokers", cases, {CANCELS: len(CANCELLED_AT)}
    )
    for what, group, count in whole[1:3]:
        yield _row(what, cases, {group: of.get(group, count)})
    yield _row("50 pauses and resumes in a run, real brokers", cases, {PAUSES: 1})
    for what, group, count in whole[3:]:
        yield _row(what, cases, {group: count})
    yield _row("random faults, real brokers", cases, {TROUBLE: TROUBLES})
    counted = cases.get(ACKNOWLEDGED, ())
    records = sum(r["records"] for r in counted)
    lost = [wrong for r in counted for wrong in r["wrong"]]
    verdict = MISSED if lost else MET if records else UNFINISHED
    outcome = f"{records:,} counted, {'; '.join(lost) or '0 lost'}"
    yield Row("acknowledged records lost on real brokers", "0", outcome, verdict)
    known = {*kinds, *(g for _, g, _ in whole), CANCELS, PAUSES, TROUBLE, ACKNOWLEDGED}
    known |= {group for p in PARTS for order in orders for group in died(p, order)}
    rest = {group: len(rows) for group, rows in cases.items() if group not in (*known, RUNS)}
    planned = sum(of.get(group, count) for group, count in rest.items())
    row = _row("besides: other deaths and requests, simulator", cases, rest)
    outcome = f"{sum(rest.values())} of {planned} (a seeded sample), {row.outcome.split(', ')[1]}"
    yield Row(row.what, row.target, outcome, row.verdict if rest else UNFINISHED)


def write(reports: Path, minutes: float) -> list[Row]:
    """Write reports/chaos.json, with everything that was wrong, and return the rows."""
    cases, of = results(reports)
    wrong = [
        {"group": group, **result}
        for group, entries in cases.items()
        for result in entries
        if result["wrong"]
    ]
    table = list(chaos_rows(cases, of))
    report = {"minutes": round(minutes, 1), "rows": [asdict(row) for row in table], "wrong": wrong}
    (reports / "chaos.json").write_text(json.dumps(report, indent=2) + "\n")
    return table


def text(table: Sequence[Row]) -> str:
    """Return the table as lines of text, what is missing below."""
    widths = [
        max(len(getattr(row, name)) for row in table) for name in ("what", "target", "outcome")
    ]
    lines = [
        f"{row.what:{widths[0]}}  {row.target:{widths[1]}}  {row.outcome:{widths[2]}}"
        f"  {row.verdict}"
        for row in table
    ]
    lines += [f"  missing of {row.what}: {', '.join(row.missing)}" for row in table if row.missing]
    return "\n".join(lines)
