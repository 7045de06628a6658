"""Options and output for where replicas of new topics and partitions are placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from core.cli.common.context import Context
from core.cli.common.options import refuse_together
from core.cli.common.output import say, write_text
from core.cluster.client import ClusterClient
from core.cluster.observer import fetch_cluster_state
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load_source import newest_load
from core.text.tables import text_table
from core.units import id_list, parse_flow, parse_size

if TYPE_CHECKING:
    from core.plan.planner.new_topic import Expected, Replicas

ROWS = 50
rule_option = click.option(
    "--rule",
    type=click.Choice(["load", "kafka"]),
    default="load",
    show_default=True,
    help="Place replicas by the load of brokers, or round-robin as Kafka's own tools do.",
)
rate_option = click.option(
    "--in",
    "rate",
    metavar="RATE",
    help="Expected rate of a partition, like 2MB/s (default: the cluster's usual rate).",
)
size_option = click.option(
    "--size",
    metavar="SIZE",
    help="Expected size of a partition, like 50GB (default: the cluster's usual size).",
)
rf_option = click.option(
    "--rf",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Number of replicas of each partition.",
)


def parse_expected(rate: str | None, size: str | None) -> Expected:
    """Return what is expected of a partition; raises UsageError for what is no rate or size."""
    from core.plan.planner.new_topic import Expected

    return Expected(
        in_bytes_per_s=None if rate is None else float(parse_flow(rate)),
        size_bytes=None if size is None else float(parse_size(size)),
    )


def refuse_with_replicas() -> None:
    """Raise UsageError for options that would place the replicas that are given."""
    ctx = click.get_current_context()
    for name in ("partitions", "rf", "rule", "rate", "size"):
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        refuse_together({"--replicas": True, "--in" if name == "rate" else f"--{name}": is_given})


def parse_layout(text: str) -> list[Replicas]:
    """Return the replicas that were typed like 1:2,2:3, as Kafka's tool takes them."""
    try:
        return [tuple(int(b) for b in part.split(":")) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"Not replicas: {text!r}.",
            next="Write the brokers of a partition like 1:2:3, with commas between partitions.",
        ) from error


def place_in_turn(state: ClusterState, partitions: int, rf: int, start: int = 0) -> list[Replicas]:
    """Return where new partitions go on live brokers by Kafka's rule."""
    from core.plan.planner.new_topic import place_round_robin

    racks = {broker.id: broker.rack for broker in state.brokers if broker.alive}
    return place_round_robin(racks, partitions, rf, start=start % len(racks))


def plan_replicas(
    context: Context,
    client: ClusterClient,
    state: ClusterState,
    partitions: int,
    rf: int,
    rule: str,
    expected: Expected,
    start: int,
) -> list[Replicas]:
    """Return where new partitions go, by the rule that was asked for."""
    from core.plan.planner.new_topic import place_by_load, without_rack, without_room

    if rule == "kafka":
        return place_in_turn(state, partitions, rf, start)
    state = fetch_cluster_state(client)
    load = newest_load(state, context.target.snapshots)
    placement = place_by_load(state, load, partitions, rf, expected)
    for note in (*without_rack(state), *without_room(state, load, placement, expected)):
        say(note)
    return placement


def plan_added_replicas(
    context: Context,
    client: ClusterClient,
    state: ClusterState,
    topic: str,
    partitions: int,
    rule: str,
    expected: Expected,
) -> list[Replicas]:
    """Return the replicas of the partitions that are to be added."""
    from core.plan.planner.new_topic import refuse_replicas

    rows = state.partitions_of(topic)
    if partitions < len(rows):
        raise UsageError(
            f"{topic} has {len(rows)} partitions, and Kafka cannot take any away.",
            next="Create a topic with fewer, and move the clients to it.",
        )
    if partitions == len(rows):
        raise UsageError(
            f"{topic} has {len(rows)} partitions already.", next="Give a larger number."
        )
    first = state.row(rows.start)
    rf = len(first.replicas) - len(first.adding)
    refuse_replicas(state, rf, next="Start broker {down} first.")
    added = partitions - len(rows)
    # In turn from where the topic has come to, so that its leaders stay in turn.
    alive = sorted(broker.id for broker in state.brokers if broker.alive)
    at = alive.index(first.replicas[0]) if first.replicas[0] in alive else 0
    return plan_replicas(context, client, state, added, rf, rule, expected, at + len(rows))


def print_layout(topic: str, first: int, layout: Sequence[Replicas]) -> None:
    if not layout:
        return
    rows = [(f"{topic}-{first + n}", id_list(r)) for n, r in enumerate(layout)]
    write_text(text_table(("PARTITION", "REPLICAS"), rows, limit=ROWS), None)


def layout_json(first: int, layout: Sequence[Replicas]) -> list[dict[str, Any]]:
    return [{"partition": first + n, "replicas": list(r)} for n, r in enumerate(layout)]
