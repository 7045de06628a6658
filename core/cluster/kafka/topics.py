"""Topics with replicas exactly where they are wanted, for workloads and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.cluster.kafka.admin import quiet_admin
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.reach import unreachable
from core.errors import TrimtabError

_PATIENCE_SECONDS = 30.0


def create_topics(
    settings: ConnectionSettings,
    layouts: Mapping[str, Sequence[Sequence[int]]],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create topics with exactly these replicas; one that is there already is left as it is.

    Returns once every partition has a leader. Raises TrimtabError.
    """
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic

    admin = quiet_admin(settings)
    wanted = [
        NewTopic(
            name,
            num_partitions=len(layout),
            replica_assignment=[list(r) for r in layout],
            config=dict(configs or {}),
        )
        for name, layout in layouts.items()
    ]
    carried_out(
        {topic.topic: topic for topic in wanted},
        lambda topics: admin.create_topics(topics, request_timeout=30),
        KafkaError.TOPIC_ALREADY_EXISTS,
        "created",
    )
    _wait(settings, lambda: _all_led(admin, layouts), "the new topics have no leaders yet")


def delete_topics(settings: ConnectionSettings, names: Sequence[str]) -> None:
    """Delete topics and return once they are gone; missing ones are no error."""
    from confluent_kafka import KafkaError

    admin = quiet_admin(settings)
    carried_out(
        {name: name for name in names},
        lambda topics: admin.delete_topics(topics, request_timeout=30),
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        "deleted",
    )
    _wait(
        settings,
        lambda: not admin.list_topics(timeout=5).topics.keys() & set(names),
        "the deleted topics are still there",
    )


def carried_out(
    wanted: Mapping[str, Any],
    ask: Callable[[list[Any]], Mapping[str, Any]],
    done_already: int,
    doing: str,
) -> None:
    """Ask for each topic until it is done; an answer lost with its connection is asked for again.

    librdkafka drops the connections that it began with once it knows the brokers by id.
    """
    from confluent_kafka import KafkaError, KafkaException

    lost = (KafkaError._DESTROY_BROKER, KafkaError._TRANSPORT)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    left = dict(wanted)
    while left:
        for name, future in ask(list(left.values())).items():
            try:
                future.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code in lost and time.monotonic() < deadline:
                    continue
                if code != done_already:
                    raise TrimtabError(
                        f"Topic {name} cannot be {doing}: {error.args[0].str()}"
                    ) from error
            del left[name]


def _all_led(admin: Any, layouts: Mapping[str, Sequence[Sequence[int]]]) -> bool:
    topics = admin.list_topics(timeout=5).topics
    return all(
        name in topics
        and len(topics[name].partitions) >= len(layout)
        and all(p.leader >= 0 for p in topics[name].partitions.values())
        for name, layout in layouts.items()
    )


def _wait(settings: ConnectionSettings, holds: Callable[[], bool], late: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise unreachable(None, f"{settings.bootstrap}: {late}.")
        time.sleep(0.05)
