"""`trimtab plan place`: where the replicas of a new topic should go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.cli.context import Context, emit, json_option, output_option, write_text
from core.cli.table import brokers, table
from core.plan.placing import Expected, by_load, in_turn, refuse
from core.units import parse_rate, parse_size

ROWS = 50
"""Partitions that are printed; the line for Kafka's tool has them all."""


@click.command()
@click.argument("topic")
@click.option("--partitions", metavar="N", type=click.IntRange(1, 10_000), required=True)
@click.option(
    "--rf",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    default=3,
    show_default=True,
)
@click.option(
    "--rule",
    type=click.Choice(["load", "kafka"]),
    default="load",
    show_default=True,
    help="By what brokers carry, or in turn as Kafka's own tools do.",
)
@click.option("--in", "rate", metavar="RATE", help="Expected a partition, like 2MB/s; else usual.")
@click.option("--size", metavar="SIZE", help="Expected a partition, like 50GB; else usual.")
@json_option
@output_option
@click.pass_obj
def place(
    context: Context,
    topic: str,
    partitions: int,
    rf: int,
    rule: str,
    rate: str | None,
    size: str | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Say where the replicas of a new TOPIC should go; nothing is created.

    Different racks first. The last line is what Kafka's own tool creates it with.
    """
    expected = Expected(
        in_bytes_per_s=None if rate is None else float(parse_rate(rate)),
        size_bytes=None if size is None else float(parse_size(size)),
    )
    state, load = context.picture()
    refuse(state, topic, rf)
    if rule == "kafka":
        racks = {broker.id: broker.rack for broker in state.brokers if broker.alive}
        found = in_turn(racks, partitions, rf)
    else:
        found = by_load(state, load, partitions, rf, expected)
    assignment = ",".join(":".join(map(str, replicas)) for replicas in found)
    if as_json:
        document: dict[str, Any] = {
            "topic": topic,
            "rule": rule,
            "partitions": [
                {"partition": n, "replicas": list(replicas)} for n, replicas in enumerate(found)
            ],
            "replica_assignment": assignment,
        }
        emit(document, output)
        return
    rows = [(f"{topic}-{n}", brokers(replicas)) for n, replicas in enumerate(found[:ROWS])]
    text = table(("partition", "replicas"), rows)
    if len(found) > ROWS:
        text += f"… and {len(found) - ROWS} more\n"
    text += f"\nkafka-topics.sh --create --topic {topic} --replica-assignment {assignment}\n"
    write_text(text, output)
