"""`trimtab topics delete`: says what is lost and asks for each topic's name."""

from __future__ import annotations

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, json_option, yes_option
from core.cli.common.output import emit, say
from core.cli.common.prompts import confirm
from core.cli.topics.topic_data import describe_content, require_topic, wait_until_visible
from core.errors import ExitCode, RefusedError


@click.command(cls=Command)
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
    from core.cluster.topics import INTERNAL_TOPICS
    from core.run.audited_client import audited
    from core.run.external.leftovers import refuse_if_moving

    context.require_writable()
    names = tuple(dict.fromkeys(names))
    with context.connected() as connection:
        client = connection.client
        state = client.describe_cluster()
        context.require_writable(state)
        for name in names:
            require_topic(state, name)
            if name in INTERNAL_TOPICS and allow != "internal":
                raise RefusedError(
                    f"{name} is Kafka's own: the state of groups or transactions is lost with it.",
                    next="Add --allow internal to delete it anyway.",
                    checks=("internal",),
                )
        refuse_if_moving(state, names, "deleted")
        for name, said in describe_content(client, state, names).items():
            say(said)
            if not yes:
                confirm(
                    name,
                    "delete it for good",
                    "Deleting a topic",
                    "nothing was deleted",
                    of="topic",
                )
        # To ask may have taken long.
        refuse_if_moving(client.describe_cluster(), names, "deleted")
        answers = audited(client, state.cluster_id, None).delete_topics(names)
        gone = [name for name in names if answers.get(name) is None]
        wait_until_visible(
            connection, lambda now: not any(now.topic(name) for name in gone), "the topics"
        )
    failed = {name: str(fault) for name, fault in answers.items() if fault is not None}
    if as_json:
        emit({"deleted": gone, "failed": failed})
    else:
        for name in gone:
            say(f"Deleted {name}.")
    for name, why in failed.items():
        say(f"{name} was not deleted: {why}.")
    if not failed:
        return ExitCode.DONE
    return ExitCode.INCOMPLETE if gone else ExitCode.FAILED
