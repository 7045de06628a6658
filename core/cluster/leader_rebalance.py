"""Whether leaders return by themselves: what brokers report of `auto.leader.rebalance`."""

from __future__ import annotations

from collections.abc import Mapping

from core.cluster.client import ClusterClient, Fault, Resource
from core.cluster.observe import alive_brokers
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UnreachableError

REBALANCE_CONFIGS = (
    "auto.leader.rebalance.enable",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
)
"""What decides whether leaders return by themselves. KRaft brokers do not report the last one:
their controller acts on any imbalance."""
ENABLED, INTERVAL, _ = REBALANCE_CONFIGS
USUAL_SECONDS = 300.0
"""Kafka's own interval, of brokers that do not report theirs."""

Answers = Mapping[int, Mapping[str, str | None] | Fault]


def rebalance_settings(
    client: ClusterClient, state: ClusterState
) -> dict[int, Mapping[str, str | None] | Fault]:
    """Return what each live broker reports of the automatic return of leaders.

    A fault where it may not be asked; names that a broker does not report are left out.
    """
    alive = alive_brokers(state)
    try:
        answers = client.configs([Resource.broker(b) for b in alive], REBALANCE_CONFIGS)
    except (AccessDeniedError, UnreachableError) as error:
        return dict.fromkeys(alive, Fault("NOT_KNOWN", error.title))
    found: dict[int, Mapping[str, str | None] | Fault] = {}
    for broker in alive:
        answer = answers[Resource.broker(broker)]
        found[broker] = (
            answer
            if isinstance(answer, Fault)
            else {name: answer[name].value for name in REBALANCE_CONFIGS if name in answer}
        )
    return found


def returns_every_seconds(answers: Answers) -> float | None:
    """Return how often leaders that are away are given back; None where no broker says so.

    Which broker controls may change: one that does it is enough.
    """
    told = (answer for answer in answers.values() if not isinstance(answer, Fault))
    every = [
        float(interval) if (interval := values.get(INTERVAL)) else USUAL_SECONDS
        for values in told
        if values.get(ENABLED) == "true"
    ]
    return max(every, default=None)
