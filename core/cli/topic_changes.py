"""`trimtab topics create | alter`: shown, asked for, audited, and looked at afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import click

from core.cli.confirm import confirm
from core.cli.context import Context, emit, json_option, say
from core.cli.topic_steps import settled, there, yes_option
from core.errors import ExitCode, IncompleteError, TrimtabError, UsageError

if TYPE_CHECKING:
    from core.cluster.client import ClusterClient, ConfigChange, Fault
    from core.cluster.state import ClusterState
    from core.plan.placing import Expected, Replicas

ROWS = 50
rule_option = click.option(
    "--rule",
    type=click.Choice(["load", "kafka"]),
    default="load",
    show_default=True,
    help="Place by what brokers carry, or in turn as Kafka's own tools do.",
)
rate_option = click.option(
    "--in", "rate", metavar="RATE", help="Expected a partition, like 2MB/s; else usual."
)
size_option = click.option(
    "--size", metavar="SIZE", help="Expected a partition, like 50GB; else usual."
)
dry_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


@click.command()
@click.argument("topic")
@click.option("--partitions", metavar="N", type=click.IntRange(1, 10_000))
@click.option(
    "--rf",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    default=3,
    show_default=True,
)
@click.option("--replicas", metavar="1:2,2:3", help="Exactly these, instead of --partitions.")
@rule_option
@rate_option
@size_option
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="Set for it.")
@dry_option
@yes_option
@json_option
@click.pass_obj
def create(
    context: Context,
    topic: str,
    partitions: int | None,
    rf: int,
    replicas: str | None,
    rule: str,
    rate: str | None,
    size: str | None,
    configs: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Create TOPIC, its replicas placed by racks first, then by load.

    --dry-run shows where they would go; so does `plan place`.
    """
    from core.cluster.client import NewTopic
    from core.plan.placing import refuse
    from core.run.audited import audited

    if (partitions is None) == (replicas is None):
        raise UsageError("How many partitions?", next="Say --partitions N, or --replicas.")
    values = _settings(configs)
    expected = _expected(rate, size)
    if not dry_run:
        context.require_writable()
    with context.connected() as connection:
        client = connection.client
        state = client.describe()
        if replicas is not None:
            layout = _layout(replicas)
            refuse(state, topic, max(map(len, layout)))
            rule = "given"
        else:
            assert partitions is not None
            refuse(state, topic, rf)
            start = crc32(topic.encode())
            layout = _placed(context, client, state, partitions, rf, rule, expected, start)
        if not as_json:
            _show_layout(topic, 0, layout)
        if not dry_run:
            _sure(context, state, yes, "create it", "Creating a topic", "nothing was created")
            new = NewTopic(topic, tuple(layout), values)
            answers = audited(client, state.cluster_id, None).create_topics([new])
            _raise_for(answers.get(topic), f"Topic {topic} was not created")
            settled(connection, lambda now: _is_led(now, topic, len(layout)), topic)
    if as_json:
        emit(
            {
                "topic": topic,
                "rule": rule,
                "partitions": _layout_json(0, layout),
                "configs": values,
                "dry_run": dry_run,
            }
        )
    elif not dry_run:
        say(f"Created {topic}.")
    return ExitCode.DONE


@click.command()
@click.argument("topic")
@click.option("--partitions", metavar="N", type=click.IntRange(1, 10_000), help="In all, then.")
@rule_option
@rate_option
@size_option
@click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="Set a config.")
@click.option("--unset", "unsets", metavar="NAME", multiple=True, help="Unset a config.")
@dry_option
@yes_option
@json_option
@click.pass_obj
def alter(
    context: Context,
    topic: str,
    partitions: int | None,
    rule: str,
    rate: str | None,
    size: str | None,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Give TOPIC more partitions, placed like those of a new topic; set and unset its configs.

    Refused for partitions while the topic is under a move. Kafka cannot take partitions away.
    """
    from core.cluster.client import FOLLOWER_LIST, LEADER_LIST, NewPartitions, Resource
    from core.run.audited import audited
    from core.run.in_use import refuse_if_moving

    changes = _changes(topic, _settings(sets), unsets)
    if partitions is None and not changes:
        raise UsageError("Alter what?", next="Say --partitions, --set or --unset.")
    expected = _expected(rate, size)
    if not dry_run:
        context.require_writable()
    with context.connected() as connection:
        client = connection.client
        state = client.describe()
        there(state, topic)
        now = len(state.partitions_of(topic))
        layout: list[Replicas] = []
        if partitions is not None:
            layout = _more(context, client, state, topic, partitions, rule, expected)
        lists = {change.name for change in changes} & {LEADER_LIST, FOLLOWER_LIST}
        if layout or lists:
            refuse_if_moving(state, [topic], "given partitions" if layout else "given throttles")
        if not as_json:
            _show_layout(topic, now, layout)
            for change in changes:
                click.echo(f"{topic}: {_words(change)}")
        if layout:
            say("Records with keys will go to other partitions than before.")
        if not dry_run:
            _sure(context, state, yes, "alter it", "Altering a topic", "nothing was changed")
            writer = audited(client, state.cluster_id, None)
            if changes:
                refused = writer.alter_configs(changes).get(Resource.topic(topic))
                _raise_for(refused, f"The configs of {topic} were not changed")
            if layout:
                assert partitions is not None
                more = NewPartitions(partitions, tuple(layout))
                refused = writer.add_partitions({topic: more}).get(topic)
                if refused is not None and changes:
                    raise IncompleteError(
                        f"Its configs were changed, but {topic} was given no partitions: {refused}."
                    )
                _raise_for(refused, f"{topic} was given no partitions")
                settled(connection, lambda now: _is_led(now, topic, more.total), topic)
    if as_json:
        emit(
            {
                "topic": topic,
                "rule": rule,
                "added": _layout_json(now, layout),
                "changes": [{"name": c.name, "op": c.op.value, "value": c.value} for c in changes],
                "dry_run": dry_run,
            }
        )
    elif not dry_run:
        say(f"Altered {topic}.")
    return ExitCode.DONE


COMMANDS = (create, alter)


# -- what is asked for -----------------------------------------------------------------------------


def _settings(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UsageError(f"Not a setting: {word!r}.", next="Write it like retention.ms=60000.")
        if name in found:
            raise UsageError(f"{name} is set twice.", next="Set it once.")
        found[name] = value
    return found


def _changes(topic: str, sets: Mapping[str, str], unsets: Sequence[str]) -> list[ConfigChange]:
    from core.cluster.client import ConfigChange, ConfigOp, Resource

    both = sets.keys() & set(unsets)
    if both:
        raise UsageError(f"{min(both)} is both set and unset.", next="Say one of them.")
    resource = Resource.topic(topic)
    return [
        *(ConfigChange(resource, name, ConfigOp.SET, value) for name, value in sets.items()),
        *(ConfigChange(resource, name, ConfigOp.DELETE) for name in dict.fromkeys(unsets)),
    ]


def _words(change: ConfigChange) -> str:
    from core.cluster.client import ConfigOp

    if change.op is ConfigOp.DELETE:
        return f"{change.name} unset"
    return f"{change.name}={change.value}"


def _expected(rate: str | None, size: str | None) -> Expected:
    from core.plan.placing import Expected
    from core.units import parse_rate, parse_size

    return Expected(
        in_bytes_per_s=None if rate is None else float(parse_rate(rate)),
        size_bytes=None if size is None else float(parse_size(size)),
    )


def _layout(text: str) -> list[Replicas]:
    """Return the replicas that were typed like 1:2,2:3, as Kafka's tool takes them."""
    try:
        return [tuple(int(b) for b in part.split(":")) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"Not replicas: {text!r}.",
            next="Write brokers of a partition like 1:2:3, and partitions with commas between.",
        ) from error


def _placed(
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
    from core.plan.placing import by_load, in_turn

    if rule == "kafka":
        racks = {broker.id: broker.rack for broker in state.brokers if broker.alive}
        return in_turn(racks, partitions, rf, start=start % len(racks))
    from core.cluster.observe import observe
    from core.load.locate import newest_load

    state = observe(client)
    return by_load(state, newest_load(state, context.target.snapshots), partitions, rf, expected)


def _more(
    context: Context,
    client: ClusterClient,
    state: ClusterState,
    topic: str,
    partitions: int,
    rule: str,
    expected: Expected,
) -> list[Replicas]:
    """Return the replicas of the partitions that are to be added."""
    rows = state.partitions_of(topic)
    if partitions < len(rows):
        raise UsageError(
            f"{topic} has {len(rows)} partitions, and Kafka cannot take any away.",
            next="Make another topic with fewer, and have its clients go over.",
        )
    if partitions == len(rows):
        raise UsageError(
            f"{topic} has {len(rows)} partitions already.", next="Say how many it shall have."
        )
    first = state.row(rows.start)
    rf = len(first.replicas) - len(first.adding)
    added = partitions - len(rows)
    # In turn from where the topic has come to, so that its leaders stay in turn.
    alive = sorted(broker.id for broker in state.brokers if broker.alive)
    at = alive.index(first.replicas[0]) if first.replicas[0] in alive else 0
    return _placed(context, client, state, added, rf, rule, expected, at + len(rows))


# -- doing it --------------------------------------------------------------------------------------


def _sure(
    context: Context, state: ClusterState, yes: bool, verb: str, doing: str, otherwise: str
) -> None:
    if not yes:
        confirm(context.target.name or state.cluster_id[:8], verb, doing, otherwise)


def _raise_for(fault: Fault | None, what: str) -> None:
    if fault is None:
        return
    raise TrimtabError(f"{what}: {fault}.")


def _is_led(state: ClusterState, topic: str, partitions: int) -> bool:
    rows = state.partitions_of(topic)
    at = slice(rows.start, rows.stop)
    return len(rows) >= partitions and bool((state.leader[at] >= 0).all())


def _show_layout(topic: str, first: int, layout: Sequence[Replicas]) -> None:
    from core.cli.table import brokers, table

    if not layout:
        return
    rows = [(f"{topic}-{first + n}", brokers(r)) for n, r in enumerate(layout[:ROWS])]
    text = table(("PARTITION", "REPLICAS"), rows)
    click.echo(
        text + (f"… and {len(layout) - ROWS} more\n" if len(layout) > ROWS else ""), nl=False
    )


def _layout_json(first: int, layout: Sequence[Replicas]) -> list[dict[str, Any]]:
    return [{"partition": first + n, "replicas": list(r)} for n, r in enumerate(layout)]
