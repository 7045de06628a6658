"""docs/reference/run-states.md, made from the table of rules that decides what a run does."""

from __future__ import annotations

import inspect
import sys
import types
import typing

from core.run import steps
from core.run.engine.next_step import RULES, Rule
from core.run.journal.move_state import Phase
from core.run.journal.records import Kind

HEAD = """\
# How a run decides

Made from `core/run/engine/next_step.py` by `make docs`: do not edit.

A run looks at its cluster, folds its journal, and follows the first of these rules that has a \
step. Nothing else decides. A process that was killed folds the same journal, and so takes the \
same step again.
"""


def rows() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each rule's name, when it holds, and the steps that it may choose, in order."""
    return [
        (rule.__name__.replace("_", " "), _first_paragraph(rule), _steps(rule)) for rule in RULES
    ]


def document() -> str:
    lines = [HEAD, "| | rule | when | steps |", "|---|---|---|---|"]
    for number, (name, when, chosen) in enumerate(rows(), start=1):
        linked = ", ".join(f"`{step}`" for step in chosen)
        lines.append(f"| {number} | {name} | {when} | {linked} |")
    lines += ["", "```mermaid", "flowchart TD", "    look([look at the cluster, fold the journal])"]
    before = "look"
    for number, (name, _, chosen) in enumerate(rows(), start=1):
        rule = f"r{number}"
        lines.append(f"    {before} -->{'|no|' if number > 1 else ''} {rule}{{{name}?}}")
        lines.append(f'    {rule} -->|yes| s{number}["{" or ".join(chosen)}"]')
        before = rule
    lines += ["```", "", "## Steps", "", "| step | what it does |", "|---|---|"]
    used = [step for _, _, chosen in rows() for step in chosen]
    for step in dict.fromkeys(used):
        lines.append(f"| `{step}` | {_first_paragraph(getattr(steps, step))} |")
    phases = ", ".join(f"`{phase.value}`" for phase in Phase)
    kinds = ", ".join(f"`{kind.value}`" for kind in Kind)
    lines += ["", f"A move is one of {phases}.", "", f"Kinds of records: {kinds}."]
    return "\n".join(lines) + "\n"


def _steps(rule: Rule) -> tuple[str, ...]:
    """Return the names of the steps in a rule's return type."""
    answer = typing.get_type_hints(rule)["return"]
    parts = typing.get_args(answer) if isinstance(answer, types.UnionType) else (answer,)
    flat = [part for part in parts if part is not type(None)]
    return tuple(part.__name__ for part in flat)


def _first_paragraph(of: object) -> str:
    return " ".join((inspect.getdoc(of) or "").split("\n\n")[0].split())


if __name__ == "__main__":
    sys.stdout.write(document())
