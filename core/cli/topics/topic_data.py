"""Shared by topic commands: look topics up, sum their data, wait until brokers know a change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from core.cli.common.output import say
from core.cluster.client import ClusterClient
from core.cluster.configs import MIN_INSYNC, ConfigValue, Resource
from core.cluster.connect import Connection
from core.cluster.groups import UNDESCRIBABLE, Group
from core.cluster.kafka_errors import Fault, access_denied
from core.cluster.log_dirs import with_log_dirs
from core.cluster.state import ClusterState
from core.cluster.topics import is_legal_name
from core.errors import AccessDeniedError, TrimtabError, UnreachableError, UsageError
from core.patterns import matching, named
from core.units import format_bytes, name_list

SETTLE_SECONDS = 10.0
"""How long brokers are given to hear of a change; librdkafka and they refresh much sooner."""

Configs = Mapping[str, "ConfigValue"]


def require_topic(client: ClusterClient, state: ClusterState, topic: str) -> None:
    """Raise UsageError for a topic that is not there, with a near name.

    Raises AccessDeniedError for one that this user may not know of.
    """
    if state.topic(topic) is None:
        _refuse_denied_topic(client, topic)
    named(topic, [known.name for known in state.topics], "topic")


def matching_topics(
    client: ClusterClient, state: ClusterState, regex: str, option: str
) -> list[str]:
    """Return the topics whose whole name an expression matches; raises UsageError for none.

    Raises AccessDeniedError where it is the name of a topic that this user may not know of.
    """
    try:
        return matching(regex, option, [topic.name for topic in state.topics], "topic")
    except UsageError:
        if is_legal_name(regex):
            _refuse_denied_topic(client, regex)
        raise


def _refuse_denied_topic(client: ClusterClient, topic: str) -> None:
    if client.fetch_denied_topics([topic]):
        raise access_denied(
            f"This user may not see whether there is a topic {topic}.", f"DESCRIBE on {topic}"
        )


def wait_until_visible(
    connection: Connection, holds: Callable[[ClusterState], bool], what: str
) -> None:
    """Return once brokers tell of a change that the controller has taken, so that all see it.

    Says it if they don't. A cluster that does not answer has not undone it.
    """
    deadline = connection.clock.monotonic() + SETTLE_SECONDS
    silent = ""
    while True:
        try:
            if holds(connection.client.describe_cluster()):
                return
            silent = ""
        except UnreachableError as error:
            silent = f" {error.title}"
        if connection.clock.monotonic() > deadline:
            say(f"The change is made, but not all brokers know of {what} yet.{silent}")
            return
        connection.clock.sleep(0.05)


def fetch_topic_configs(client: ClusterClient, names: Sequence[str]) -> dict[str, Configs | Fault]:
    """Return each topic's configs, or why they are not known; the rest is told all the same."""
    if not names:
        return {}
    try:
        answers = client.describe_configs([Resource.topic(name) for name in names])
    except (AccessDeniedError, UnreachableError) as error:
        return dict.fromkeys(names, Fault("NOT_KNOWN", error.title))
    missing = Fault("UNKNOWN_TOPIC_OR_PARTITION", "the topic is gone meanwhile")
    return {name: answers.get(Resource.topic(name), missing) for name in names}


def fetch_default_min_insync(client: ClusterClient, brokers: Collection[int]) -> str | None:
    """Return the highest min.insync.replicas of these brokers; None where none of them tells."""
    try:
        answers = client.describe_configs(
            [Resource.broker(b) for b in sorted(brokers)], [MIN_INSYNC]
        )
    except (AccessDeniedError, UnreachableError):
        return None
    values = (a.get(MIN_INSYNC) for a in answers.values() if not isinstance(a, Fault))
    return max(
        (config.value for config in values if config and config.value), key=int, default=None
    )


def describe_content(
    client: ClusterClient, state: ClusterState, topics: Sequence[str]
) -> dict[str, str]:
    """Return in words what each topic holds: bytes, and who has read it."""
    from core.plan.impact.clients import kinds_unknown

    sized, lost, more = state, "", ""
    groups: tuple[Group, ...] = ()
    try:
        sized = with_log_dirs(
            state, client.describe_log_dirs([b.id for b in state.brokers if b.alive])
        )
        faults: list[Fault] = []
        groups = client.describe_groups(lost=faults.append)
        faults += [
            fault
            for group in groups
            if group.protocol not in UNDESCRIBABLE
            and group.has_unknown_reads
            and (fault := group.fault or group.committed_fault)
        ]
        kinds = kinds_unknown([group.protocol for group in groups])
        lost = f"who reads is not known for {kinds}" if kinds else ""
        lost = f"who else has read it is not known: {faults[0]}" if faults else lost
    except TrimtabError as error:
        more = f"more is not known: {error.title}"
    descriptions = {}
    for topic in topics:
        parts = (_size(sized, topic), _readers_text(groups, topic), lost, more)
        descriptions[topic] = f"{topic}: {', '.join(filter(None, parts))}."
    return descriptions


def _size(state: ClusterState, topic: str) -> str:
    rows = state.partitions_of(topic)
    sizes = state.partition_size_bytes[rows.start : rows.stop]
    partitions = f"{len(rows):,} partitions"
    if not (sizes >= 0).any():
        return partitions
    size = format_bytes(float(sizes[sizes >= 0].sum()))
    prefix = "" if (sizes >= 0).all() else "at least "
    return f"{partitions}, {prefix}{size} before replication"


def _readers_text(groups: Iterable[Group], topic: str) -> str:
    readers = [group.id for group in groups if any(tp.topic == topic for tp in group.committed)]
    return f"read by {name_list(readers)}" if readers else ""
