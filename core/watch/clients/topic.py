"""The probe's own topic: what it is and costs in words, made, and deleted."""

from __future__ import annotations

from core.clock import Clock
from core.cluster.client import ClusterClient, NewTopic
from core.cluster.faults import Fault
from core.cluster.observer import alive_brokers
from core.cluster.probe.probe_config import TOPIC_CONFIGS
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, TrimtabError
from core.run.audited_client import audited
from core.units import counted, format_rate
from core.watch.clients.places import RATE, TOPIC, cost

SETTLE_SECONDS = 10.0
_DENIED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


def explained(state: ClusterState) -> str:
    """Say in words what probing this cluster does, and what it costs."""
    brokers = len(alive_brokers(state))
    messages, rate = cost(brokers)
    made = "" if state.topic(TOPIC) is not None else f", which is made for it: {_layout(brokers)}"
    return (
        f"The probe writes {RATE} small messages a second to each of {brokers} brokers and reads "
        f"them back: {messages} messages/s, about {format_rate(rate)} of network in all.\n"
        f"They go to a topic of its own, {TOPIC}{made}.\n"
        "Nothing else is touched. `trimtab probe --remove` deletes the topic."
    )


def _layout(brokers: int) -> str:
    partitions = counted(brokers, "partition")
    return (
        f"{partitions}, one on each broker, one replica, at most some MB each, kept a minute; "
        "a new broker gets one, too"
    )


def make(client: ClusterClient, state: ClusterState, clock: Clock) -> None:
    """Make the topic if it is not there, audited, and return once it is known.

    Raises AccessDeniedError, TrimtabError when the cluster refuses.
    """
    if state.topic(TOPIC) is not None:
        return
    layout = tuple((broker,) for broker in alive_brokers(state))
    answers = audited(client, state.cluster_id, None).create_topics(
        [NewTopic(TOPIC, layout, dict(TOPIC_CONFIGS))]
    )
    fault = answers.get(TOPIC)
    if fault is not None and fault.name != "TOPIC_ALREADY_EXISTS":
        raise _refused(fault, "made")
    deadline = clock.monotonic() + SETTLE_SECONDS
    while client.describe().topic(TOPIC) is None and clock.monotonic() < deadline:
        clock.sleep(0.1)


def remove(client: ClusterClient, state: ClusterState) -> bool:
    """Delete the topic, audited; False when it is not there.

    Raises AccessDeniedError, TrimtabError when the cluster refuses.
    """
    if state.topic(TOPIC) is None:
        return False
    fault = audited(client, state.cluster_id, None).delete_topics([TOPIC]).get(TOPIC)
    if fault is not None and fault.name != "UNKNOWN_TOPIC_OR_PARTITION":
        raise _refused(fault, "deleted")
    return True


def _refused(fault: Fault, what: str) -> TrimtabError:
    if fault.name in _DENIED:
        return AccessDeniedError(
            f"The probe's topic {TOPIC} was not {what}: this user may not.",
            next="Ask for the rights, or name another user with --command-config.",
        )
    return TrimtabError(f"The probe's topic {TOPIC} was not {what}: {fault}.")
