"""`trimtab plan show`: a plan's moves and the reason for each, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import (
    Command,
    answer_options,
    plan_argument,
    refuse_together,
)
from core.cli.common.output import Answer, emit, write_data, write_text
from core.cli.plan.plan_file import (
    bind_plan,
    fetch_if_named,
    read_plan_document,
    with_dirs,
)
from core.cli.plan.suggest_output import dropped_words
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.formats.plan_file import bind_document
from core.plan.move_order import Relief, find_reliefs, order_moves
from core.plan.plan import Move, Plan
from core.text.tables import markdown_cell, markdown_table, text_table
from core.text.terminal import printable
from core.units import counted, format_bytes, id_list

LISTS = ("before", "after", "adding", "removing")
RELIEF = ("broker", "measure", "before", "after")


def csv_text(moves: Sequence[Mapping[str, Any]]) -> str:
    """Return moves of `--json` as CSV with a head: brokers like 4,2,7, empty where unknown."""
    out = io.StringIO()
    heads = (
        *("topic", "partition", *LISTS, "before_leader", "after_leader", "log_dirs", "bytes"),
        *("because", *(f"relieves_{name}" for name in RELIEF)),
    )
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for move in moves:
        lists = (",".join(map(str, move[name])) for name in LISTS)
        leader = move["preferred_leader"]
        row = (_plain(move["topic"]), move["partition"], *lists, leader["before"], leader["after"])
        log_dirs = printable(
            ",".join(f"{log_dir['broker']}:{log_dir['path']}" for log_dir in move["log_dirs"])
        )
        relief = move["relieves"] or {}
        effect = (relief.get(name) for name in RELIEF)
        writer.writerow((*row, log_dirs, move["bytes"], _plain(move["because"]), *effect))
    return out.getvalue()


def _plain(text: str | None) -> str | None:
    """Return a text of a plan file, which anybody may have written, as no formula of a sheet."""
    if text is None:
        return None
    shown = printable(text)
    return f"'{shown}" if shown.lstrip()[:1] in ("=", "+", "-", "@") else shown


@dataclass(frozen=True, slots=True)
class Shown:
    """A move with what it makes brokers copy, None when not known, and what it relieves now."""

    move: Move
    size_bytes: int | None
    relief: Relief | None

    @property
    def why(self) -> str:
        """Return why it is in the plan, else what it does; "" where neither is known."""
        return self.move.reason or (self.relief.words if self.relief else "")


@click.command(cls=Command)
@plan_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "markdown"]),
    help="Print CSV for a spreadsheet, or Markdown for a ticket (default: a table).",
)
@answer_options
@click.pass_obj
def show(context: Context, plan_file: Path, form: str | None, answer: Answer) -> None:
    """Show the moves of a plan with their reasons.

    When a cluster is given: with sizes, and the moves that relieve most for their bytes first.
    """
    refuse_together({"--format": form, "--json": answer.as_json})
    document = read_plan_document(context, plan_file)
    there = fetch_if_named(context)
    plan = bind_plan(document, there[0]) if there else bind_document(document, None)
    shown = _looked_at(plan, *there) if there else [Shown(m, _nothing(m), None) for m in plan]
    sizes = [entry.size_bytes for entry in shown]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    leader_moves = sum(move.before[0] != move.after[0] for move in plan)
    moving = sum(bool(move.receiving) for move in plan)
    output = answer.output
    if answer.as_json:
        emit(
            {
                "cluster_id": plan.cluster_id,
                "moves": moving,
                "leader_moves": leader_moves,
                "dropped_replicas": plan.dropped_replicas,
                "bytes": total,
                "notes": list(plan.notes),
                "partitions": [_document(entry) for entry in shown],
            },
            output,
        )
        return
    if form == "csv":
        write_data(csv_text([_document(entry) for entry in shown]), output)
        return
    heads, rows = _table(shown)
    sums = (
        f"{counted(len(plan), 'partition')}: {moving} to copy "
        f"({format_bytes(total)}), {leader_moves:,} with another preferred "
        f"leader{dropped_words(plan)}.\n"
    )
    if form == "markdown":
        lines = (*markdown_table(heads, rows, right="   >"), "")
        lines = (*lines, *map(markdown_cell, plan.notes))
        text = "".join(f"{line}\n" for line in lines) + sums
    else:
        notes = "".join(f"{printable(note)}\n" for note in plan.notes)
        text = notes + (text_table(heads, rows, right="   >") if rows else "") + sums
    write_text(text, output)


def _looked_at(plan: Plan, state: ClusterState, load: Load) -> list[Shown]:
    sizes = [_copied_bytes(state, move) for move in plan]
    reliefs = find_reliefs(state, load, plan)
    by_benefit = order_moves(state, load, plan, [float(size or 0) for size in sizes])
    return [Shown(plan.moves[at], sizes[at], reliefs[at]) for at in by_benefit]


def _copied_bytes(state: ClusterState, move: Move) -> int | None:
    index = state.find(move.tp)
    if not move.receiving or index is None or state.partition_size_bytes[index] < 0:
        return _nothing(move)
    return int(state.partition_size_bytes[index]) * len(move.receiving)


def _nothing(move: Move) -> int | None:
    """Return 0 for a move that copies nothing, None for another: how much is not known."""
    return None if move.receiving else 0


def _table(shown: list[Shown]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = [
        (
            str(entry.move.tp),
            id_list(entry.move.before),
            with_dirs(entry.move.after, entry.move.log_dirs or ()),
            format_bytes(entry.size_bytes) if entry.move.receiving else "-",
        )
        for entry in shown
    ]
    heads = ("partition", "now", "planned", "copies")
    if not any(entry.why for entry in shown):
        return heads, [*rows]
    return (*heads, "for"), [(*row, entry.why) for row, entry in zip(rows, shown, strict=True)]


def _document(entry: Shown) -> dict[str, Any]:
    move, relief = entry.move, entry.relief
    before, after = move.preferred_leader
    return {
        **move.tp._asdict(),
        "before": list(move.before),
        "after": list(move.after),
        "adding": list(move.adding),
        "removing": list(move.removing),
        "preferred_leader": {"before": before, "after": after},
        "log_dirs": [{"broker": b, "path": path} for b, path in move.target_log_dirs.items()],
        "bytes": entry.size_bytes,
        "because": move.reason or None,
        "relieves": None
        if relief is None
        else {
            "broker": relief.broker,
            "measure": relief.measure,
            "before": round(relief.before, 4),
            "after": round(relief.after, 4),
        },
    }
