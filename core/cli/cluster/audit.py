"""`trimtab audit`: lists the changes made from this machine and verifies the audit log."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import click

from core.cli.common.options import Group, json_option
from core.cli.common.output import emit, print_lines, say, write_text
from core.cluster.known_names import display_name
from core.errors import ExitCode
from core.run.audit import read
from core.run.audit import verify as follow
from core.text.tables import text_table

SHOWN = 40


@click.group(cls=Group)
def audit() -> None:
    """Show who changed what on which cluster, and verify the record."""


@audit.command("ls")
@click.option("--run", metavar="ID", help="Only list the entries of this run.")
@click.option(
    "--all", "everything", is_flag=True, help="List all entries (default: the newest 40)."
)
@json_option
def ls(run: str | None, everything: bool, as_json: bool) -> None:
    """List the entries of the audit log, oldest first."""
    lines = list(read())
    broken = sum(line.entry is None for line in lines)
    entries = [
        line.entry
        for line in lines
        if line.entry is not None and (run is None or line.entry.get("run") == run)
    ]
    if broken:
        say(f"{broken} lines are not entries; see `trimtab audit verify`.")
    if as_json:
        emit(entries)
        return
    if not entries:
        say(
            "Nothing has been changed from here yet."
            if run is None
            else f"No entries of run {run}."
        )
        return
    shown = entries if everything else entries[-SHOWN:]
    if len(shown) < len(entries):
        say(f"{len(entries) - len(shown):,} older entries are not shown: --all shows them.")
    name = cache(display_name)
    rows = [
        [
            str(entry["at"]),
            f"{entry.get('who', '?')} on {entry.get('host', '?')}",
            str(entry.get("from") or "-"),
            name(str(entry.get("cluster_id") or "-")),
            str(entry.get("run") or "-"),
            str(entry["what"]),
            _words(entry),
        ]
        for entry in shown
    ]
    header = ("AT", "WHO", "FROM", "CLUSTER", "RUN", "WHAT", "")
    write_text(text_table(header, rows), None)


@audit.command("verify")
@click.option(
    "--holds", metavar="HASH", help="Also check that an entry with this hash still exists."
)
@json_option
def verify(holds: str | None, as_json: bool) -> int:
    """Verify the hash chain of the audit log.

    Prints the first line that was changed, removed or inserted. A file that was rewritten as a
    whole, or lost its newest entries, still verifies: keep a hash elsewhere and check it with
    --holds.
    """
    verdict = follow(read())
    missing = holds is not None and not any(
        line.entry is not None and line.entry["hash"] == holds for line in read()
    )
    if as_json:
        emit(asdict(verdict) | {"holds": None if holds is None else not missing})
    elif verdict.problem:
        say(f"{verdict.problem} The {verdict.entries} entries before it are intact.")
    else:
        print_lines(f"{verdict.entries} entries, all intact; the last hash is {verdict.last_hash}.")
        if verdict.mended:
            say(f"{verdict.mended} entries were cut short by the end of a process; each is noted.")
        if verdict.cut:
            say("The file ends within an entry, as after a crash; the next entry will note that.")
    if missing and not as_json:
        say(f"There is no entry {holds}: the file was cut or rewritten.")
    return ExitCode.NO if verdict.problem or missing else ExitCode.DONE


def _words(entry: Any) -> str:
    match entry["what"]:
        case "apply":
            return f"{entry.get('count', '?')} partitions"
        case "request":
            return str(entry.get("kind", "?"))
        case "submit":
            return _abridge(entry.get("targets", ()))
        case "create topics" | "add partitions" | "delete topics":
            return _abridge(entry.get("topics", ()))
        case "cancel" | "elect":
            return _abridge(entry.get("partitions", ()))
        case "configs":
            return _abridge(f"{op} {name} of {of}" for of, name, op, _ in entry.get("changes", ()))
        case "answer":
            faults = entry.get("faults") or {}
            refused = f", refused {_abridge(faults)}" if faults else ""
            return f"{entry.get('to', '?')}: {entry.get('taken', '?')} taken{refused}"
        case _:
            return ""


def _abridge(things: Any) -> str:
    first, *rest = [*map(str, things)] or [""]
    return f"{first} and {len(rest):,} more" if rest else first
