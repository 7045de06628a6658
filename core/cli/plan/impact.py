"""`trimtab plan impact`: which groups, producers and topics a plan affects while it runs."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options, plan_argument
from core.cli.common.output import Answer, say
from core.cli.plan.plan_file import bind_plan, read_plan_document
from core.cluster.documents.cluster_document import DocumentGroup, fetch_document_groups
from core.cluster.documents.reader import read_document
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UsageError
from core.load.load import Load
from core.load.load_source import document_load
from core.plan.impact.clients import (
    GroupImpact,
    Impact,
    estimate_impact,
    groups_sentence,
    headroom_sentences,
    to_read_words,
)
from core.plan.impact.retention import retention_command, retention_sentences
from core.text.tables import text_table
from core.units import counted, format_duration, format_rate, parse_duration

ROWS = 20
"""Groups and topics that are printed; --json has them all."""


@click.command(cls=Command)
@plan_argument
@click.option(
    "--retention",
    metavar="DURATION",
    help=(
        "Show what `apply --retention` of this would save, like 6h (default: the shortest that "
        "every consumer group can bear)."
    ),
)
@answer_options
@click.pass_obj
def impact(context: Context, plan_file: Path, retention: str | None, answer: Answer) -> None:
    """Show which groups, producers and topics a plan affects.

    Also shows how much less would be copied with a shorter retention. With --from, the groups are
    those of the document.
    """
    seconds = None if retention is None else round(parse_duration(retention))
    if seconds is not None and seconds < 1:
        raise UsageError(f"A retention of {retention} is too short.", next="Give one like 6h.")
    document = read_plan_document(context, plan_file)
    state, load, groups = _picture(context)
    plan = bind_plan(document, state)
    effect = estimate_impact(state, load, plan, groups, seconds)
    answer.write(lambda: _document(effect), lambda: _text(effect, str(plan_file)))


def _picture(
    context: Context,
) -> tuple[ClusterState, Load, tuple[DocumentGroup, ...] | None]:
    """Return the cluster, its load and its groups; None where it is not known which."""
    context.require_target()
    if context.target.from_file is not None:
        document = read_document(context.target.from_file)
        return document.state, document_load(document), document.groups
    state, load = context.picture()
    try:
        with context.connected() as connection:
            return state, load, fetch_document_groups(connection.client)
    except AccessDeniedError as error:
        say(f"Consumer groups are left out: {error.title}")
        return state, load, None


def _text(effect: Impact, plan: str) -> str:
    parts = [
        f"{counted(effect.moves, 'partition')}: {effect.copied} copied, "
        f"{effect.leader_changes:,} with another leader.\n"
    ]
    notes = headroom_sentences(effect.headroom)
    if effect.headroom_unknown:
        notes.append(
            f"min.insync.replicas of {counted(effect.headroom_unknown, 'partition')} is not known."
        )
    parts += [textwrap.fill(sentence, 79) + "\n" for sentence in notes]
    if readers := groups_sentence(effect):
        parts.append(textwrap.fill(readers, 79) + "\n")
    if effect.groups:
        parts.append("\n" + _groups_text(effect.groups))
    if effect.topics:
        parts.append("\n" + _topics_text(effect))
    if effect.shrinking is not None:
        sentences = retention_sentences(effect.shrinking)
        parts.append("\n" + textwrap.fill(" ".join(sentences), 79) + "\n")
        command = retention_command(effect.shrinking, plan)
        parts.append(f"  {command}\n" if command else "")
    return "".join(parts)


def _groups_text(groups: tuple[GroupImpact, ...]) -> str:
    rows = [
        (
            group.id,
            group.state,
            str(len(group.partitions)),
            str(group.leader_changes),
            "?" if group.lag is None else f"{group.lag:,}",
            "?" if group.behind_seconds is None else format_duration(group.behind_seconds),
            to_read_words(group),
        )
        for group in groups
    ]
    heads = ("group", "", "partitions", "new leaders", "lag", "behind", "then to read")
    return text_table(heads, rows, "  >>>>>", ROWS)


def _topics_text(effect: Impact) -> str:
    rows = [
        (
            topic.topic,
            format_rate(topic.in_bytes_per_s),
            str(topic.leader_changes),
            str(topic.copied),
        )
        for topic in effect.topics
    ]
    heads = ("produced to", "at", "new leaders", "copied")
    return text_table(heads, rows, " >>>", ROWS)


def _document(effect: Impact) -> dict[str, Any]:
    document = asdict(effect)
    if effect.groups is not None:
        for row, group in zip(document["groups"], effect.groups, strict=True):
            row["partitions"] = [tp._asdict() for tp in group.partitions]
    document["headroom"] = [
        h.tp._asdict()
        | {
            "in_sync": list(h.in_sync),
            "min_insync": h.min_insync,
            "during": h.during,
            "after": h.after,
        }
        for h in effect.headroom
    ]
    if effect.shrinking is not None:
        for row in document["shrinking"]["topics"]:
            row |= {"least_bytes": row.pop("min_bytes"), "most_bytes": row.pop("max_bytes")}
        document["shrinking"] |= {
            "least_bytes": effect.shrinking.min_bytes,
            "most_bytes": effect.shrinking.max_bytes,
            "is_advised": effect.shrinking.is_advised,
        }
    return document
