"""`trimtab bug-report`: one archive with what a bug's report needs, and no secrets.

What is known to be harmless is kept; of all else only that it is there.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.options import Command, json_option
from core.cli.common.output import emit, fill_file, write_text
from core.errors import TrimtabError
from core.text.json_text import json_text
from core.text.redaction import SECRET_NAME, redact_values, redactor
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


# -- what it is made of --------------------------------------------------------------------------

LOG_FILES, LOG_LINES, LOG_BYTES = 12, 200, 400_000
"""How many logs, newest first, and how much of the end of each."""
MAX_RUNS = 100

_VARIABLES = (
    *("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TRIMTAB_HOME", "TRIMTAB_CLUSTER", "TRIMTAB_BOOTSTRAP"),
    *("TRIMTAB_TIMEOUT", "JAVA_HOME", "SPARK_HOME", "PYTHONPATH", "PEX", *paths.XDG),
)
"""Variables of the environment that are told; of `_SET` only whether they are set."""
_SET = ("TMUX", "STY", "SSH_CONNECTION", "TRIMTAB_SNAPSHOTS", "http_proxy", "https_proxy")
_KEPT = ("theme", "balancer_topics", "keys")
_KEPT_OF_NOTIFY = ("bell", "desktop")
_KEPT_OF_CLUSTER = (
    *("bootstrap", "command_config", "read_only", "in_capacity", "out_capacity", "timeout"),
    *("addresses", "color", "metrics"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a report."""

    name: str
    what: str
    text: str


def collect_parts(context: Context) -> Iterator[Part]:
    """Yield the parts; one that cannot be collected says why instead, and keeps no other back."""
    config = _read_config()
    properties = dict(_properties_files(context, config))
    redact = redactor(_secrets(config, properties))

    def part(name: str, what: str, collect: Callable[[], Any]) -> Part:
        try:
            content = collect()
        except TrimtabError as error:
            content = f"It could not be collected.\n{error}\n"
        except Exception:  # noqa: BLE001 - a bug here must not keep the report of another one back
            from core.bug_log import log_bug

            content = f"It could not be collected: this is a bug in trimtab. {log_bug()}\n"
        if isinstance(content, str):
            return Part(name, what, redact(content))
        return Part(name, what, json_text(redact_values(content, redact)))

    yield part("versions.txt", "versions of trimtab, Python and libraries", _versions)
    yield part("terminal.json", "terminal and environment, by an allow-list", _terminal_document)
    yield part("doctor.json", "what doctor finds", lambda: _doctor_document(context))
    yield part("config.json", "config.toml, without secrets", lambda: _config(config))
    for name, path in properties.items():
        yield part(
            f"client-{name}.properties",
            "client properties, without secrets",
            partial(_redacted_properties, path),
        )
    yield part("runs.json", "runs and their states", _runs)
    for path in _logs():
        what = f"the last {LOG_LINES} lines of a log"
        yield part(f"log/{path.name}", what, partial(_log_tail, path, redact))


def _versions() -> str:
    from core.cli.main import version_lines

    system = os.uname()
    glibc = os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else None
    lines = [*version_lines(), f"{system.sysname} {system.release} {system.machine}"]
    return "\n".join([*lines, *([glibc] if glibc else [])]) + "\n"


def _terminal_document() -> dict[str, Any]:
    size = shutil.get_terminal_size()
    return {
        "columns": size.columns,
        "lines": size.lines,
        "stdout_is_terminal": sys.stdout.isatty(),
        "stdout_encoding": sys.stdout.encoding,
        "environment": {name: os.environ.get(name) for name in _VARIABLES},
        "is_set": {name: name in os.environ for name in _SET},
    }


def _doctor_document(context: Context) -> dict[str, Any]:
    from core.cli.cluster.doctor import document, examine

    return document(tuple(examine(context)))


def _runs() -> list[dict[str, Any]]:
    from core.run.reporting.documents import summary_document
    from core.run.reporting.runs import clusters_with_runs, list_runs, unreadable

    ids = clusters_with_runs()
    runs = sorted(
        (run for cluster_id in ids for run in list_runs(cluster_id)), key=lambda run: run.started_at
    )
    wrong = [{"unreadable": sentence} for cluster_id in ids for sentence in unreadable(cluster_id)]
    return [*map(summary_document, reversed(runs[-MAX_RUNS:])), *wrong]


# -- config.toml and client properties -------------------------------------------------------------


def _read_config() -> dict[str, Any]:
    """Return config.toml as it stands, also one that trimtab refuses; {} where it is no TOML."""
    try:
        return tomllib.loads(paths.config_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.toml by the keys that are known, and what trimtab says of it."""
    from core.settings import load_settings

    try:
        load_settings()
        wrong = None
    except TrimtabError as error:
        wrong = str(error)
    clusters = {
        name: _kept(_table(table), _KEPT_OF_CLUSTER) | _snapshots(_table(table))
        for name, table in _table(config.get("clusters")).items()
    }
    notify = _kept(_table(config.get("notify")), _KEPT_OF_NOTIFY)
    kept = _kept(config, _KEPT, ("clusters", "notify"))
    return {"wrong": wrong, **kept, "notify": notify, "clusters": clusters}


def _kept(
    table: Mapping[str, Any], names: tuple[str, ...], elsewhere: tuple[str, ...] = ()
) -> dict[str, Any]:
    others = table.keys() - {*names, *elsewhere, "snapshots"}
    kept = {name: table[name] for name in names if name in table}
    return kept | ({"other_keys": len(others)} if others else {})


def _snapshots(table: Mapping[str, Any]) -> dict[str, str]:
    """Return where load is published, without a user and without options."""
    if "snapshots" not in table:
        return {}
    scheme, is_address, place = str(table["snapshots"]).partition("?")[0].partition("://")
    return {"snapshots": f"{scheme}://{place.rpartition('@')[2]}" if is_address else scheme}


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _properties_files(context: Context, config: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for name, table in _table(config.get("clusters")).items():
        if isinstance(place := _table(table).get("command_config"), str) and place:
            yield paths.safe_name(name), paths.config_dir() / Path(place).expanduser()
    address = context.target.address
    if address is not None and address.command_config is not None and address.name is None:
        yield "command-config", address.command_config


def _redacted_properties(path: Path) -> str:
    from core.cluster.connect import redact_properties

    return "\n".join((f"# {path}", *redact_properties(path)[0])) + "\n"


def _secrets(config: Mapping[str, Any], properties: Mapping[str, Path]) -> Iterator[str]:
    """Yield what must be in no part: values that are not kept, wherever they come from."""
    from core.cluster.connect import redact_properties

    for path in properties.values():
        try:
            yield from redact_properties(path)[1]
        except TrimtabError:  # its part says so
            continue
    yield from (value for name, value in os.environ.items() if SECRET_NAME.search(name))
    notify = _table(config.get("notify"))
    kept = {*_KEPT, "clusters", "notify"}
    yield from _texts([value for name, value in config.items() if name not in kept])
    yield from _texts([value for name, value in notify.items() if name not in _KEPT_OF_NOTIFY])
    for table in map(_table, _table(config.get("clusters")).values()):
        others = [value for name, value in table.items() if name not in _KEPT_OF_CLUSTER]
        shown = "".join(_snapshots(table).values())
        yield from (text for text in _texts(others) if text not in shown)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
            yield from _secret_url_parts(value)
        case dict():
            yield from _texts(list(value.values()))
        case list():
            for each in value:
                yield from _texts(each)


def _secret_url_parts(text: str) -> Iterator[str]:
    """Yield what of an address may be a secret by itself: all but scheme and host."""
    try:
        url = urlsplit(text)
    except ValueError:
        return
    if url.scheme:
        parts = (url.username, url.password, url.path.strip("/"))
        yield from (unquote(part) for part in parts if part)
        yield from (value for _, value in parse_qsl(url.query))


# -- logs ------------------------------------------------------------------------------------------


def _logs() -> list[Path]:
    logs = [path for path in paths.log_dir().glob("*.log") if path.is_file()]
    return sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)[:LOG_FILES]


def _log_tail(path: Path, redact: Callable[[str], str]) -> str:
    """Return the last lines; secrets of many lines go before lines are counted."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = redact(text).splitlines()
    return "\n".join(lines[-LOG_LINES:]) + "\n"
