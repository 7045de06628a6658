"""What commands print with --json is held to the schemas that the page of formats promises."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from core.cli.main import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
SCHEMAS = DOCS / "schemas"


@cache
def promised() -> dict[str, list[str]]:
    """Return the schemas of each command, from the table in docs/reference/formats.md."""
    text = (DOCS / "reference" / "formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z -]+)` \| (`.*) \|$", text, re.M)
    # Options beside them in the table begin with dashes.
    return {command: re.findall(r"`([a-z][a-z-]+[a-z])`", names) for command, names in rows}


@cache
def validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text()))


def validate(schema: str, document: Any) -> None:
    validator(schema).validate(document)


def check_answer(words: Sequence[str], out: str) -> None:
    """Raise where a command has printed with --json what none of its schemas is of."""
    begin = next((n for n, word in enumerate(words) if word in COMMANDS), None)
    if begin is None or "--json" not in words[begin:] or not out:
        return
    name = " ".join(words[begin : begin + 2])
    schemas = promised()[name if name in promised() else words[begin]]
    for document in _documents(out):
        if not any(validator(schema).is_valid(document) for schema in schemas):
            validate(schemas[0], document)


def _documents(out: str) -> list[Any]:
    """Return the one document that was printed, else one a line."""
    try:
        return [json.loads(out, parse_constant=_refuse_constant)]
    except json.JSONDecodeError:
        return [json.loads(line, parse_constant=_refuse_constant) for line in out.splitlines()]


def _refuse_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")
