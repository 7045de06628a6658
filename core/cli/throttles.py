"""`trimtab throttles`: every throttle in the cluster, explained."""

from __future__ import annotations

import click

from core.cli.context import Context, emit, json_option, say

SAID = 5


@click.group()
def throttles() -> None:
    """Replication throttles in the cluster."""


@throttles.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List every throttle: whose it is, and whether a move in flight needs it."""
    from core.cli.table import table
    from core.run.runs import unreadable, with_throttles
    from core.run.throttles import find_throttles

    with context.connected() as connection:
        state = connection.client.describe()
        found, unread = find_throttles(connection.client, state, with_throttles(state.cluster_id))
    for wrong in unreadable(state.cluster_id):
        say(wrong)
    down = [str(broker.id) for broker in state.brokers if not broker.alive]
    if down:
        say(f"Brokers that are down could not be asked: {', '.join(down)}.")
    for resource, fault in list(unread.items())[:SAID]:
        say(f"The throttles of {resource.kind.value} {resource.name} are not known: {fault}.")
    if len(unread) > SAID:
        say(f"Nor are those of {len(unread) - SAID} more.")
    if as_json:
        emit([throttle.to_json() for throttle in found])
        return
    if not found:
        say("No throttle is set." if not unread else "No other throttle is set.")
        return
    rows = [
        [
            f"{throttle.resource.kind.value} {throttle.resource.name}",
            throttle.config,
            throttle.value,
            throttle.source.value,
            throttle.why,
        ]
        for throttle in found
    ]
    click.echo(table(("WHERE", "CONFIG", "VALUE", "SOURCE", "WHY"), rows), nl=False)
