"""`trimtab topics create | alter`: shows the change, confirms, audits and verifies it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, dry_run_option, json_option, yes_option
from core.cli.common.output import emit, say, write_text
from core.cli.common.prompts import confirm
from core.cli.topics.config_effects import (
    MIN_ISR,
    REMOTE,
    ConfigEffect,
    build_config_effects,
    deletion_sentences,
    refuse_min_isr,
    refuse_remote,
)
from core.cli.topics.layout import (
    layout_json,
    parse_expected,
    parse_layout,
    plan_added_replicas,
    plan_replicas,
    print_layout,
    rate_option,
    refuse_with_replicas,
    rf_option,
    rule_option,
    size_option,
)
from core.cli.topics.topic_data import (
    Configs,
    describe_content,
    fetch_default_min_insync,
    fetch_topic_configs,
    require_topic,
    wait_until_visible,
)
from core.cluster.client import ClusterClient, NewPartitions, NewTopic
from core.cluster.configs import (
    FOLLOWER_LIST,
    LEADER_LIST,
    MIN_INSYNC,
    ConfigChange,
    ConfigOp,
    Resource,
)
from core.cluster.connect import Connection
from core.cluster.kafka_errors import Fault, advice_for
from core.cluster.state import ClusterState
from core.cluster.topics import has_leaders
from core.errors import ExitCode, IncompleteError, TrimtabError, UsageError

if TYPE_CHECKING:
    from core.plan.planner.new_topic import Replicas


@click.command(cls=Command)
@click.argument("topic")
@click.option(
    "--partitions", metavar="N", type=click.IntRange(1, 10_000), help="Number of partitions."
)
@rf_option
@click.option(
    "--replicas",
    metavar="1:2,2:3",
    help="Place replicas on exactly these brokers, instead of --partitions.",
)
@rule_option
@rate_option
@size_option
@click.option(
    "--config",
    "configs",
    metavar="NAME=VALUE",
    multiple=True,
    help="Topic config to set; may be given more than once.",
)
@click.option(
    "--allow",
    type=click.Choice(["min-isr"]),
    help="Create the topic even though producers with acks=all will fail.",
)
@dry_run_option
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
    allow: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Create TOPIC; replicas are placed by rack first, then by load.

    --dry-run and `plan place` show where they would go.
    """
    from core.plan.planner.new_topic import refuse_topic
    from core.run.audited_client import audited

    if partitions is None and replicas is None:
        raise UsageError(
            "The number of partitions is missing.", next="Add --partitions N or --replicas."
        )
    if replicas is not None:
        refuse_with_replicas()
    values = _settings(configs)
    expected = parse_expected(rate, size)
    with context.described(to_change=not dry_run) as (connection, state):
        client = connection.client
        if replicas is not None:
            layout = parse_layout(replicas)
            refuse_topic(state, topic, max(map(len, layout)))
            rule = "given"
        else:
            assert partitions is not None
            refuse_topic(state, topic, rf)
            start = crc32(topic.encode())
            layout = plan_replicas(context, client, state, partitions, rf, rule, expected, start)
        if allow is None:
            min_isr = values.get(MIN_INSYNC) or fetch_default_min_insync(
                client, set().union(*layout)
            )
            refuse_min_isr(
                topic,
                [ConfigEffect(MIN_INSYNC, None, min_isr)],
                min(map(len, layout)),
                instead=f"Ask for {min_isr} replicas, or --config {MIN_INSYNC}=1",
            )
        if not as_json:
            print_layout(topic, 0, layout)
        if not dry_run:
            if not yes:
                doing = ("create it", "Creating a topic", "nothing was created")
                context.confirm(state.cluster_id, *doing)
            new = NewTopic(topic, tuple(layout), values)
            answers = audited(client, state.cluster_id, None).create_topics([new])
            _raise_on_fault(answers.get(topic), f"Topic {topic} was not created", "CREATE", topic)
            wait_until_visible(connection, lambda now: has_leaders(now, topic, len(layout)), topic)
    if as_json:
        emit(
            {
                "topic": topic,
                "rule": rule,
                "partitions": layout_json(0, layout),
                "configs": values,
                "dry_run": dry_run,
            }
        )
    elif not dry_run:
        say(f"Created {topic}.")
    return ExitCode.DONE


@click.command(cls=Command)
@click.argument("topic")
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="New total number of partitions.",
)
@rule_option
@rate_option
@size_option
@click.option(
    "--set",
    "sets",
    metavar="NAME=VALUE",
    multiple=True,
    help="Topic config to set; may be given more than once.",
)
@click.option(
    "--unset",
    "unsets",
    metavar="NAME",
    multiple=True,
    help="Topic config to reset to its default; may be given more than once.",
)
@click.option(
    "--allow",
    type=click.Choice(["min-isr", "moving", "remote-storage"]),
    multiple=True,
    help=(
        "Override a check: producers with acks=all will fail (min-isr), records are deleted while "
        "the topic moves (moving), or in remote storage as well (remote-storage)."
    ),
)
@dry_run_option
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
    allow: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Add partitions to TOPIC, and set or unset its configs.

    New partitions are placed like those of a new topic. Refused while the topic moves, for
    partitions and for configs that delete records; what a shorter retention deletes is shown, and
    you confirm with the topic's name.
    """
    changes = _changes(topic, _settings(sets), unsets)
    if partitions is None and not changes:
        raise UsageError("Nothing to alter.", next="Add --partitions, --set or --unset.")
    expected = parse_expected(rate, size)
    with context.described(to_change=not dry_run) as (connection, state):
        client = connection.client
        require_topic(client, state, topic)
        layout: list[Replicas] = []
        if partitions is not None:
            layout = plan_added_replicas(context, client, state, topic, partitions, rule, expected)
        planned = _plan_alteration(client, state, topic, layout, changes, allow)
        planned.refuse_while_moving(state, allow)
        if not as_json:
            print_layout(topic, planned.first, layout)
            write_text("".join(f"{topic}: {effect.words}\n" for effect in planned.effects), None)
        for sentence in planned.deletes:
            say(f"{topic}: {sentence}")
        if layout:
            say("Records with the same key may go to other partitions than before.")
        if not dry_run:
            if planned.deletes and not yes:
                say(describe_content(client, state, [topic])[topic])
                doing = ("delete those records", "Deleting records", "nothing was changed")
                confirm(topic, *doing, of="topic")
            elif not yes:
                doing = ("alter it", "Altering a topic", "nothing was changed")
                context.confirm(state.cluster_id, *doing)
            # To ask may have taken long.
            planned.refuse_while_moving(client.describe_cluster(), allow)
            _apply_alteration(connection, state.cluster_id, planned)
    if as_json:
        emit(
            {
                "topic": topic,
                "rule": rule,
                "added": layout_json(planned.first, layout),
                "changes": [
                    {"name": c.name, "op": c.op.value, "value": c.value, "before": effect.before}
                    for c, effect in zip(changes, planned.effects, strict=True)
                ],
                "deletes": planned.deletes,
                "dry_run": dry_run,
            }
        )
    elif not dry_run:
        say(f"Altered {topic}.")
    return ExitCode.DONE


def _settings(words: Sequence[str]) -> dict[str, str]:
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UsageError(f"Not a config: {word!r}.", next="Write it like retention.ms=60000.")
        if name in settings:
            raise UsageError(f"{name} is given twice.", next="Give it once.")
        settings[name] = value
    return settings


def _changes(topic: str, sets: Mapping[str, str], unsets: Sequence[str]) -> list[ConfigChange]:
    both = sets.keys() & set(unsets)
    if both:
        raise UsageError(f"{min(both)} is both set and unset.", next="Give only one of them.")
    resource = Resource.topic(topic)
    return [
        *(ConfigChange(resource, name, ConfigOp.SET, value) for name, value in sets.items()),
        *(ConfigChange(resource, name, ConfigOp.DELETE) for name in dict.fromkeys(unsets)),
    ]


@dataclass(frozen=True, slots=True)
class _Alteration:
    """What is to become of a topic: replicas of its new partitions, configs, what they delete."""

    topic: str
    first: int
    """How many partitions it has, which is the number of its first new one."""
    layout: list[Replicas]
    changes: list[ConfigChange]
    effects: list[ConfigEffect]
    deletes: list[str]

    def refuse_while_moving(self, state: ClusterState, allow: Collection[str]) -> None:
        """Raise RefusedError for what a topic that is being reassigned must not be given."""
        from core.run.external.leftovers import ALLOW, refuse_if_moving

        if self.layout:
            refuse_if_moving(state, [self.topic], "given partitions")
        elif any(change.name in (LEADER_LIST, FOLLOWER_LIST) for change in self.changes):
            refuse_if_moving(state, [self.topic], "given throttles")
        if self.deletes and ALLOW not in allow:
            refuse_if_moving(state, [self.topic], "made to keep less", allowable=True)


def _plan_alteration(
    client: ClusterClient,
    state: ClusterState,
    topic: str,
    layout: list[Replicas],
    changes: list[ConfigChange],
    allow: Collection[str],
) -> _Alteration:
    values: Configs | Fault = fetch_topic_configs(client, [topic])[topic] if changes else {}
    if isinstance(values, Fault):
        say(f"The configs that {topic} has are not known: {values}.")
        values = {}
    effects = build_config_effects(changes, values)
    if MIN_ISR not in allow:
        rows = (state.row(row) for row in state.partitions_of(topic))
        replicas = min(len(row.replicas) - len(row.adding) for row in rows)
        refuse_min_isr(topic, effects, replicas, instead=f"Set it to {replicas} at most")
    deletes = list(deletion_sentences(effects, values))
    if deletes and REMOTE not in allow:
        refuse_remote(topic, values)
    return _Alteration(topic, len(state.partitions_of(topic)), layout, changes, effects, deletes)


def _apply_alteration(connection: Connection, cluster_id: str, planned: _Alteration) -> None:
    from core.run.audited_client import audited

    topic, writer = planned.topic, audited(connection.client, cluster_id, None)
    if planned.changes:
        refused = writer.alter_configs(planned.changes).get(Resource.topic(topic))
        _raise_on_fault(refused, f"The configs of {topic} were not changed", "ALTER_CONFIGS", topic)
    if planned.layout:
        total = planned.first + len(planned.layout)
        more = NewPartitions(total, tuple(planned.layout))
        refused = writer.add_partitions({topic: more}).get(topic)
        if refused is not None and planned.changes:
            raise IncompleteError(
                f"Its configs were changed, but {topic} got no new partitions: {refused}."
            )
        _raise_on_fault(refused, f"{topic} got no new partitions", "ALTER", topic)
        wait_until_visible(connection, lambda now: has_leaders(now, topic, total), topic)


def _raise_on_fault(fault: Fault | None, what: str, operation: str, topic: str) -> None:
    if fault is not None:
        raise TrimtabError(f"{what}: {fault}.", next=advice_for(fault, operation, topic))
