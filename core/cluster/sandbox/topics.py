"""Topics there and led, or gone, by the time the call returns: for workloads and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from core.cluster.client import NewTopic
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka_errors import Fault
from core.cluster.state import ClusterState
from core.errors import TrimtabError

_TIMEOUT_SECONDS = 30.0
_RETRY_SECONDS = 0.05


def create_topics(
    settings: ConnectionSettings,
    layouts: Mapping[str, Sequence[Sequence[int]]],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create topics with exactly these replicas; one that is there already is left as it is.

    Returns once every partition has a leader. Raises TrimtabError.
    """
    wanted = [
        NewTopic(name, tuple(tuple(replicas) for replicas in layout), configs or {})
        for name, layout in layouts.items()
    ]
    with closing(KafkaClient(settings)) as client:
        _raise_faults(client.create_topics(wanted), "TOPIC_ALREADY_EXISTS", "created")
        _wait(
            settings,
            lambda: _all_have_leaders(client.describe_cluster(), layouts),
            "the new topics have no leaders yet",
        )


def delete_topics(settings: ConnectionSettings, names: Sequence[str]) -> None:
    """Delete topics and return once they are gone; missing ones are no error."""
    with closing(KafkaClient(settings)) as client:
        _raise_faults(client.delete_topics(names), "UNKNOWN_TOPIC_OR_PARTITION", "deleted")
        _wait(
            settings,
            lambda: not any(client.describe_cluster().topic(name) for name in names),
            "the deleted topics are still there",
        )


def _raise_faults(answers: Mapping[str, Fault | None], done_already: str, doing: str) -> None:
    for name, fault in answers.items():
        if fault is not None and fault.name != done_already:
            raise TrimtabError(f"Topic {name} cannot be {doing}: {fault}")


def _all_have_leaders(state: ClusterState, layouts: Mapping[str, Sequence[Sequence[int]]]) -> bool:
    rows = {name: state.partitions_of(name) for name in layouts}
    return all(
        len(rows[name]) >= len(layout) and all(state.leader[row] >= 0 for row in rows[name])
        for name, layout in layouts.items()
    )


def _wait(settings: ConnectionSettings, holds: Callable[[], bool], late: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise unreachable(None, f"{settings.bootstrap}: {late}.")
        time.sleep(_RETRY_SECONDS)
