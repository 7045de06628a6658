"""`trimtab plan place`: where the replicas of a new topic should go."""

from __future__ import annotations

from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options
from core.cli.common.output import Answer, emit, say, write_text
from core.cli.topics.layout import (
    ROWS,
    layout_json,
    parse_expected,
    place_in_turn,
    rate_option,
    rf_option,
    rule_option,
    size_option,
)
from core.plan.planner.new_topic import (
    place_by_load,
    refuse_topic,
    without_rack,
    without_room,
)
from core.text.tables import text_table
from core.units import id_list


@click.command(cls=Command)
@click.argument("topic")
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 10_000),
    required=True,
    help="Number of partitions of the new topic.",
)
@rf_option
@rule_option
@rate_option
@size_option
@answer_options
@click.pass_obj
def place(
    context: Context,
    topic: str,
    partitions: int,
    rf: int,
    rule: str,
    rate: str | None,
    size: str | None,
    answer: Answer,
) -> None:
    """Show where the replicas of a new TOPIC should go; nothing is created.

    Replicas go to different racks first. The last line is the command for Kafka's own tool.
    """
    expected = parse_expected(rate, size)
    state, load = context.picture()
    refuse_topic(state, topic, rf)
    if rule == "kafka":
        notes: list[str] = []
        layout = place_in_turn(state, partitions, rf)
    else:
        layout = place_by_load(state, load, partitions, rf, expected)
        notes = without_rack(state)
    notes += without_room(state, load, layout, expected)
    assignment = ",".join(":".join(map(str, replicas)) for replicas in layout)
    if answer.as_json:
        document: dict[str, Any] = {
            "topic": topic,
            "rule": rule,
            "partitions": layout_json(0, layout),
            "replica_assignment": assignment,
            "notes": notes,
        }
        emit(document, answer.output)
        return
    for note in notes:
        say(note)
    rows = [(f"{topic}-{n}", id_list(replicas)) for n, replicas in enumerate(layout)]
    text = text_table(("partition", "replicas"), rows, limit=ROWS)
    where = context.target.address.bootstrap if context.target.address else "HOST:PORT"
    text += f"\nkafka-topics.sh --bootstrap-server {where} --create --topic {topic}"
    text += f" --replica-assignment {assignment}\n"
    write_text(text, answer.output)
