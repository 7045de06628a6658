"""docs/reference/trimtab.1: the manual page, of the commands' own help and README's exit codes."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from commands_page import commands

from core.cli.main import root

ROOT = Path(__file__).parents[1]
FILES = {
    "~/.config/trimtab/config.toml": "Clusters by name, theme, keys, notifications.",
    "~/.local/share/trimtab/": "Journals of runs, load, timelines, the audit.",
    "~/.cache/trimtab/": "What can be downloaded or made again.",
}
VARIABLES = {
    "TRIMTAB_HOME": "One folder for all files.",
    "TRIMTAB_BOOTSTRAP, TRIMTAB_CLUSTER": "The cluster, where no option names one.",
    "TRIMTAB_SNAPSHOTS, TRIMTAB_TIMEOUT": "As --snapshots and --timeout.",
    "JAVA_HOME": "Java 17 or 21, for Spark and for brokers of the sandbox.",
    "NO_COLOR": "Draw without colours.",
}


def page() -> str:
    """Return the page in man(7)'s macros."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (_, top), *others = commands(root)
    yield '.\\" Made from the help by `make docs`.'
    yield f'.TH TRIMTAB 1 "" "trimtab {version}" "User Commands"'
    yield ".SH NAME"
    yield "trimtab \\- balance Kafka clusters from a terminal"
    yield ".SH SYNOPSIS"
    yield "\\fBtrimtab\\fR [\\fIOPTION\\fR]... [\\fICOMMAND\\fR [\\fIARGUMENT\\fR]...]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root.help or "")
    yield ".SH OPTIONS"
    yield "Options of all commands stand before the command."
    yield from _options(top)
    yield ".SH COMMANDS"
    for name, context in others:
        usage = " ".join(context.command.collect_usage_pieces(context)[1:])
        yield f".SS {_text(f'{name} {usage}'.rstrip())}"
        yield from _paragraphs(context.command.help or "")
        yield from _options(context)
    yield ".SH EXIT STATUS"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    yield from _terms(dict(re.findall(r"^\| (\d+) \| (.*) \|$", readme, re.M)))
    yield ".SH ENVIRONMENT"
    yield from _terms(VARIABLES)
    yield ".SH FILES"
    yield from _terms(FILES)


def _options(context: click.Context) -> Iterator[str]:
    options = (param for param in context.command.params if isinstance(param, click.Option))
    records = (option.get_help_record(context) for option in options)
    yield from _terms(dict(record for record in records if record is not None))


def _terms(terms: dict[str, str]) -> Iterator[str]:
    for term, text in terms.items():
        yield ".TP"
        yield f"\\fB{_text(term)}\\fR"
        yield _text(text)


def _paragraphs(help: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", help.replace("\b", "").strip())):
        if number:
            yield ".PP"
        yield _text(paragraph)


def _text(text: str) -> str:
    """Return words on one line as roff has them; a line of a text begins no request."""
    words = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    words = words.replace("`", "\\(ga").replace("…", "...").replace("'", "\\(aq")
    return f"\\&{words}" if words.startswith(".") else words


if __name__ == "__main__":
    sys.stdout.write(page())
