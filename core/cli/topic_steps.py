"""What all changes of topics share: the topic is there, and brokers have heard of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from core.cli.context import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.cluster.connect import Connection
    from core.cluster.state import ClusterState

SETTLE_SECONDS = 10.0
"""How long brokers are given to hear of a change; librdkafka and they refresh much sooner."""

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def there(state: ClusterState, topic: str) -> None:
    """Raise UsageError for a topic that is not there, with a near name."""
    from core.patterns import named

    named(topic, [known.name for known in state.topics], "topic")


def settled(connection: Connection, holds: Callable[[ClusterState], bool], what: str) -> None:
    """Return once brokers tell of a change, which the controller has taken; says it if they don't.

    Whoever looks next then sees it.
    """
    deadline = connection.clock.monotonic() + SETTLE_SECONDS
    while not holds(connection.client.describe()):
        if connection.clock.monotonic() > deadline:
            say(f"The controller has taken it; brokers have not all heard of {what} yet.")
            return
        connection.clock.sleep(0.05)
