"""`trimtab topics`: list, describe and delete them; `changes` creates and alters them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from core.cli.common.context import Context, report_unknown
from core.cli.common.options import Group, answer_options, json_option, yes_option
from core.cli.common.output import Answer, emit, say, say_none
from core.cli.common.prompts import confirm
from core.cli.topics.changes import alter, create
from core.cli.topics.topic_data import (
    Configs,
    describe_content,
    fetch_topic_configs,
    matching_topics,
    require_topic,
    wait_until_visible,
)
from core.cluster.client import ClusterClient
from core.cluster.configs import MIN_INSYNC
from core.cluster.kafka_errors import Fault, advice_for
from core.cluster.observer import fetch_hidden_topics
from core.cluster.state import ClusterState
from core.cluster.topics import INTERNAL_TOPICS, TopicHealth, topic_health
from core.errors import ExitCode, RefusedError
from core.text.tables import text_table
from core.units import id_list


@click.group(cls=Group)
def topics() -> None:
    """List, describe, create, alter and delete topics."""


topics.add_command(create)
topics.add_command(alter)


@topics.command("ls")
@click.argument("regex", required=False)
@answer_options
@click.pass_obj
def ls(context: Context, regex: str | None, answer: Answer) -> None:
    """List topics, all or those whose whole name matches REGEX."""
    with context.connected() as connection:
        state = _describe_with_hidden(connection.client)
        names = _names(connection.client, state, regex)
    answer.write_table(
        topic_health(state, names),
        _health_json,
        ("TOPIC", "PARTITIONS", "REPLICAS", ""),
        lambda h: (h.name, str(h.partitions), "/".join(map(str, h.replicas)), _topic_status(h)),
        " >>",
        none="There is no topic.",
    )


@topics.command("describe")
@click.argument("regex", required=False)
@click.option("--all-configs", is_flag=True, help="Also print configs with their default value.")
@answer_options
@click.pass_obj
def describe(context: Context, regex: str | None, all_configs: bool, answer: Answer) -> None:
    """Describe topics: partitions, leaders, replicas, ISRs and configs.

    All topics, or those whose whole name matches REGEX. --json always has all configs.
    """
    with context.connected() as connection:
        state = _describe_with_hidden(connection.client)
        names = _names(connection.client, state, regex)
        configs = fetch_topic_configs(connection.client, names)
    descriptions = [_described(state, name, configs[name]) for name in names]
    if not descriptions and not answer.as_json:
        say_none("There is no topic.", answer.output)
        return
    answer.write(
        lambda: descriptions,
        lambda: "\n".join(_text(description, all_configs) for description in descriptions),
    )


@topics.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC …")
@click.option(
    "--allow", type=click.Choice(["internal"]), help="Allow deleting Kafka's internal topics."
)
@yes_option
@json_option
@click.pass_obj
def delete(
    context: Context, names: tuple[str, ...], allow: str | None, yes: bool, as_json: bool
) -> int:
    """Delete topics with all of their records; you confirm each name.

    Refused while a topic moves, and for Kafka's internal topics.
    """
    from core.run.audited_client import audited
    from core.run.external.leftovers import refuse_if_moving

    names = tuple(dict.fromkeys(names))
    with context.described(to_change=True) as (connection, state):
        client = connection.client
        for name in names:
            require_topic(client, state, name)
            if name in INTERNAL_TOPICS and allow != "internal":
                raise RefusedError(
                    f"{name} is Kafka's own: the state of groups or transactions is lost with it.",
                    next="Add --allow internal to delete it anyway.",
                    checks=("internal",),
                )
        refuse_if_moving(state, names, "deleted")
        for name, content in describe_content(client, state, names).items():
            say(content)
            if not yes:
                doing = ("delete it for good", "Deleting a topic", "nothing was deleted")
                confirm(name, *doing, of="topic")
        # To ask may have taken long.
        refuse_if_moving(client.describe_cluster(), names, "deleted")
        answers = audited(client, state.cluster_id, None).delete_topics(names)
        gone = [name for name in names if answers.get(name) is None]
        wait_until_visible(
            connection, lambda now: not any(now.topic(name) for name in gone), "the topics"
        )
    faults = {name: fault for name, fault in answers.items() if fault is not None}
    failed = {name: str(fault) for name, fault in faults.items()}
    if as_json:
        emit({"deleted": gone, "failed": failed})
    else:
        for name in gone:
            say(f"Deleted {name}.")
    for name, fault in faults.items():
        say(f"{name} was not deleted: {fault}. {advice_for(fault, 'DELETE', name)}".rstrip())
    if not failed:
        return ExitCode.DONE
    return ExitCode.INCOMPLETE if gone else ExitCode.FAILED


def _describe_with_hidden(client: ClusterClient) -> ClusterState:
    state = client.describe_cluster()
    return report_unknown(replace(state, hidden=fetch_hidden_topics(client, state)))


def _names(client: ClusterClient, state: ClusterState, regex: str | None) -> list[str]:
    if regex is None:
        return [topic.name for topic in state.topics]
    return matching_topics(client, state, regex, "The name")


def _described(state: ClusterState, name: str, configs: Configs | Fault) -> dict[str, Any]:
    (health,) = topic_health(state, [name])
    known = {} if isinstance(configs, Fault) else configs
    insync_config = known.get(MIN_INSYNC)
    min_insync = (
        int(insync_config.value) if insync_config is not None and insync_config.value else None
    )
    rows = [state.row(row) for row in state.partitions_of(name)]
    return {
        **_health_json(health),
        "min_insync": min_insync,
        "partitions": [
            {
                "partition": row.partition,
                "leader": None if row.leader < 0 else row.leader,
                "replicas": list(row.replicas),
                "isr": list(row.isr),
                "adding": list(row.adding),
                "removing": list(row.removing),
                "under_replicated": len(row.isr) < len(row.replicas) - len(row.adding),
                "under_min_isr": None if min_insync is None else len(row.isr) < min_insync,
            }
            for row in rows
        ],
        "configs": [
            {
                "name": config,
                "value": value.value,
                "source": value.source.value,
                "default": None
                if value.inherited is None
                else {
                    "name": value.inherited.name,
                    "value": value.inherited.value,
                    "source": value.inherited.source.value,
                },
            }
            for config, value in sorted(known.items())
        ],
        "configs_unknown": str(configs) if isinstance(configs, Fault) else None,
    }


def _health_json(health: TopicHealth) -> dict[str, Any]:
    return {
        "topic": health.name,
        "id": health.id,
        "partition_count": health.partitions,
        "replication_factors": list(health.replicas),
        "under_replicated": health.under_replicated,
        "offline": health.offline,
        "moving": health.moving,
    }


def _topic_status(health: TopicHealth) -> str:
    marks = (
        (health.offline, "without a leader"),
        (health.under_replicated, "under-replicated"),
        (health.moving, "moving"),
    )
    return ", ".join(f"{count} {what}" for count, what in marks if count)


def _text(topic: dict[str, Any], all_configs: bool) -> str:
    factors = "/".join(map(str, topic["replication_factors"]))
    min_isr = "not known" if topic["min_insync"] is None else topic["min_insync"]
    lines = [
        f"{topic['topic']}  id {topic['id'] or 'not told'}  partitions {topic['partition_count']}  "
        f"replicas {factors}  min ISR {min_isr}\n"
    ]
    rows = [
        (
            str(p["partition"]),
            "-" if p["leader"] is None else str(p["leader"]),
            id_list(p["replicas"]),
            id_list(p["isr"]) or "-",
            _partition_status(p),
        )
        for p in topic["partitions"]
    ]
    header = ("PARTITION", "LEADER", "REPLICAS", "ISR", "")
    lines.append(text_table(header, rows, right=">>"))
    if topic["configs_unknown"]:
        lines.append(f"Its configs are not known: {topic['configs_unknown']}.\n")
    shown = [c for c in topic["configs"] if all_configs or c["source"] != "default"]
    if shown:
        values = [(c["name"], _value(c["value"]), c["source"], _default_text(c)) for c in shown]
        lines.append(text_table(("CONFIG", "VALUE", "SOURCE", "DEFAULT"), values))
    return "".join(lines)


def _partition_status(partition: dict[str, Any]) -> str:
    marks = (
        (partition["leader"] is None, "no leader"),
        (partition["under_replicated"], "under-replicated"),
        (partition["under_min_isr"], "under min ISR"),
        (partition["adding"], f"adding {', '.join(map(str, partition['adding']))}"),
        (partition["removing"], f"removing {', '.join(map(str, partition['removing']))}"),
    )
    return ", ".join(text for holds, text in marks if holds)


def _value(value: str | None) -> str:
    return "-" if value is None else value or '""'


def _default_text(config: dict[str, Any]) -> str:
    """Return what it would be if it were not set: with its name where the units may differ."""
    default = config["default"]
    if default is None:
        return "-"
    same = default["name"] in (config["name"], f"log.{config['name']}")
    value = _value(default["value"])
    return value if same else f"{default['name']}={value}"
