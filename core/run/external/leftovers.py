"""Finds what died or abandoned runs left in a cluster, by describing the cluster itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from core.cluster.client import ClusterClient
from core.cluster.configs import Resource, ResourceKind
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.metadata import TopicPartition
from core.cluster.probe.produce_latency import TOPIC_PREFIX
from core.cluster.state import ClusterState
from core.plan.throttle_lists import entries
from core.run.journal import throttle_values as throttle
from core.run.journal.retention import RETENTION
from core.run.journal.throttle_values import RateIntent, Side
from core.run.reporting.runs import KnownRun
from core.run.reporting.views import Leftovers, LoweredRetention

REMEDY = (
    "Bring the run back with `runs attach`, which deletes it; where the run is unknown and nobody "
    "else's, delete the topic: nothing reads it."
)


def find_left_probes(state: ClusterState, runs: Iterable[KnownRun]) -> tuple[str, ...]:
    """Return in words which topics of probes belong to no run that is in progress here."""
    living = {run.state.run_id for run in runs if run.living}
    found = ((topic.name, topic.name.removeprefix(TOPIC_PREFIX)) for topic in state.topics)
    return tuple(
        f"topic {topic} is of the probe of run {run}, which is not in progress here"
        for topic, run in found
        if topic.startswith(TOPIC_PREFIX) and run not in living
    )


def fetch_leftovers(client: ClusterClient, left: Leftovers, *, surely: bool = False) -> Leftovers:
    """Return what of `left` still stands, asked of the cluster itself.

    What cannot be asked, as brokers that are down, is taken for standing unless `surely`.
    """
    flying = {*client.fetch_reassignments(), *_copied(client, left)}
    topics = sorted({t for t, _, _ in left.lists} | {r.topic for r in left.retention})
    alive = {broker.id for broker in client.describe_cluster().brokers if broker.alive}
    brokers = sorted(alive & {rate.broker for rate in left.rates})
    resources = [*map(Resource.topic, topics), *map(Resource.broker, brokers)]
    names = [*throttle.LISTS, *throttle.RATES, RETENTION]
    found = client.describe_configs(resources, names) if resources else {}

    def pairs(topic: str, side: str, ours: tuple[str, ...]) -> tuple[str, ...]:
        answer = found.get(Resource.topic(topic), {})
        if isinstance(answer, Fault):
            return () if surely or is_missing(answer) else ours
        there = entries(throttle.own_list(answer, Side(side)))
        return tuple(pair for pair in ours if pair in there)

    def kept_rate(rate: RateIntent) -> RateIntent | None:
        answer = found.get(Resource.broker(rate.broker))
        if answer is None or isinstance(answer, Fault):
            return None if surely else rate
        if not throttle.is_ours(rate, answer):
            return None
        held = throttle.as_rate(throttle.own_rate(answer, rate.side))
        return replace(rate, rate_bytes_per_s=held, perhaps=())

    def lowered(one: LoweredRetention) -> bool:
        answer = found.get(Resource.topic(one.topic), {})
        if isinstance(answer, Fault):
            return not (surely or is_missing(answer))
        own = throttle.own_value(answer.get(RETENTION), ResourceKind.TOPIC)
        return own == str(one.retention_ms)

    lists = [(topic, side, pairs(topic, side, ours)) for topic, side, ours in left.lists]
    return Leftovers(
        moves=tuple(tp for tp in left.moves if tp in flying),
        lists=tuple(entry for entry in lists if entry[2]),
        rates=tuple(rate for rate in map(kept_rate, left.rates) if rate is not None),
        retention=tuple(filter(lowered, left.retention)),
    )


def _copied(client: ClusterClient, left: Leftovers) -> set[TopicPartition]:
    """Return the partitions of which a replica is on its way to another log dir, or may be."""
    answers = (
        client.describe_log_dirs(sorted({broker for _, broker in left.copies}))
        if left.copies
        else ()
    )
    silent = {answer.broker for answer in answers if answer.error is not None}
    found = {tp for tp, broker in left.copies if broker in silent}
    for answer in answers:
        here = {tp for tp, broker in left.copies if broker == answer.broker}
        copies = {TopicPartition(r.topic, r.partition) for r in answer.replicas if r.future}
        found |= here & copies
    return found
