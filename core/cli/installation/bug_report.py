"""`trimtab bug-report`: one archive with what a bug's report needs, and no secrets."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, json_option
from core.cli.common.output import emit, fill_file, write_text
from core.cli.installation.report_parts import Part, collect_parts
from core.text.tables import text_table

FOLDER = "trimtab-bug-report"


@click.command(cls=Command)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Archive to write (default: trimtab-bug-report-TIME.tar.gz in this folder).",
)
@json_option
@click.pass_obj
def bug_report(context: Context, output: Path | None, as_json: bool) -> None:
    """Write an archive for the report of a bug, without secrets.

    It has versions, doctor's findings (with -b also of the cluster), config.toml and client
    properties without secrets, the ends of logs, and the states of runs. It names hosts, topics,
    users and paths: look at it before you pass it on.
    """
    at = datetime.now(UTC)
    path = (output or Path(f"{FOLDER}-{at:%Y%m%dT%H%M%SZ}.tar.gz")).absolute()
    parts = tuple(collect_parts(context))
    fill_file(lambda place: _write_archive(place, parts, at), path)
    if as_json:
        files = [{"name": p.name, "what": p.what, "bytes": len(p.text.encode())} for p in parts]
        emit({"path": str(path), "files": files})
        return
    rows = [(part.name, f"{len(part.text.encode()):,}", part.what) for part in parts]
    table = text_table(("FILE", "BYTES", "WHAT IT IS"), rows, " >")
    advice = "It names hosts, topics, users and paths: look at it before you pass it on."
    write_text(f"{table}\nWritten to {path}\n{advice}\n", None)


def _write_archive(place: Path, parts: Sequence[Part], at: datetime) -> None:
    place.touch(0o600)
    with tarfile.open(place, "w:gz") as archive:
        for part in parts:
            content = part.text.encode()
            member = tarfile.TarInfo(f"{FOLDER}/{part.name}")
            member.size, member.mtime, member.mode = len(content), int(at.timestamp()), 0o600
            archive.addfile(member, io.BytesIO(content))
