"""`trimtab plan rebase`: what of a plan still holds on the cluster as it is by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, json_option, output_option, plan_argument
from core.cli.common.output import emit, say, write_text
from core.cli.plan.plan_file import read_plan_document
from core.cluster.metadata import TopicPartition
from core.errors import ExitCode
from core.plan.formats.plan_file import bind_document, format_plan_file, to_document
from core.plan.plan import Plan
from core.plan.rebase import RebasedPlan
from core.plan.rebase import rebase as onto
from core.text.tables import text_table
from core.units import counted, id_list


@click.command(cls=Command)
@plan_argument
@json_option
@output_option
@click.pass_obj
def rebase(context: Context, plan_file: Path, as_json: bool, output: Path | None) -> int:
    """Rebase a plan on the present state of the cluster.

    Keeps the moves that still apply, drops those that are done or in flight, and lists those that
    have become impossible with the reason. -o FILE writes the new plan. Exit code 6 when a move was
    lost.
    """
    document = read_plan_document(context, plan_file)
    state, _ = context.picture()
    plan = bind_document(document, state, loosely=True)
    found = onto(state, plan)
    if as_json:
        emit(_document(found), output)
    else:
        write_text(_text(found, plan), None)
        if output is not None:
            write_text(format_plan_file(found.plan), output)
        say(_next(found, output, plan_file))
    return ExitCode.NO if found.lost else ExitCode.DONE


def _text(found: RebasedPlan, plan: Plan) -> str:
    """Return what became of the moves that did not stay as they were, the lost ones first."""
    plans = found.plan.by_partition
    rows = [
        *((str(lost.tp), _was(plan, lost.tp), "", f"lost: it {lost.why}") for lost in found.lost),
        *(
            (str(tp), id_list(plans[tp].before), id_list(plans[tp].after), "kept on a new base")
            for tp in found.moved
        ),
        *((str(tp), _was(plan, tp), "", "done, or on its way") for tp in found.done),
    ]
    moves = counted(len(plan), "move")
    if not rows:
        return f"{moves}: all of it holds as it is.\n"
    return text_table(("partition", "from", "to", ""), rows) + f"{moves}: {found.words}.\n"


def _was(plan: Plan, tp: TopicPartition) -> str:
    return id_list(plan.by_partition[tp].before)


def _next(found: RebasedPlan, output: Path | None, plan_file: Path) -> str:
    if not found.plan.moves:
        return "Nothing of it is left to apply."
    if output is not None:
        return f"Written to {output}: trimtab apply {output}"
    if not found.changes:
        return f"Nothing to write: trimtab apply {plan_file}"
    return "Keep it with -o plan.json, then: trimtab apply plan.json"


def _document(found: RebasedPlan) -> dict[str, Any]:
    return {
        "kept": len(found.plan),
        "moved": [tp._asdict() for tp in found.moved],
        "done": [tp._asdict() for tp in found.done],
        "lost": [lost.tp._asdict() | {"why": lost.why} for lost in found.lost],
        "plan": to_document(found.plan),
    }
