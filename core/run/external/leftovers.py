"""What runs that died or gave up have left in a cluster, and what must not start beside it.

A new run would take it for what was there before, keep it or put it back: it would never go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import replace

import numpy as np

from core.cluster.client import ClusterClient
from core.cluster.configs import Resource, ResourceKind
from core.cluster.connect import Address, connect
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.metadata import TopicPartition
from core.cluster.probe.produce_latency import TOPIC_PREFIX
from core.cluster.state import TO_SEE_MOVES, ClusterState
from core.errors import AccessDeniedError, RefusedError, rights_advice
from core.plan.copies import Side
from core.run.journal.retention_records import RETENTION
from core.run.journal.throttle_values import (
    LISTS,
    RATES,
    RateIntent,
    as_rate,
    entries,
    own_list,
    own_rate,
    own_value,
)
from core.run.reporting.progress import leftovers
from core.run.reporting.runs import KnownRun, left_behind, refuse_unreadable, with_throttles
from core.run.reporting.views import Leftovers, LoweredRetention
from core.units import format_duration, name_list

REMEDY = (
    "Bring the run back with `runs attach`, which deletes it; where the run is unknown and nobody "
    "else's, delete the topic: nothing reads it."
)


def find_left_probes(state: ClusterState, runs: Iterable[KnownRun]) -> tuple[str, ...]:
    """Return in words which topics of probes belong to no run that is in progress here."""
    living = {run.state.run_id for run in runs if run.living}
    candidates = ((topic.name, topic.name.removeprefix(TOPIC_PREFIX)) for topic in state.topics)
    return tuple(
        f"topic {topic} is of the probe of run {run}, which is not in progress here"
        for topic, run in candidates
        if topic.startswith(TOPIC_PREFIX) and run not in living
    )


def fetch_leftovers(client: ClusterClient, left: Leftovers, *, surely: bool = False) -> Leftovers:
    """Return what of `left` still stands, asked of the cluster itself.

    What cannot be asked, as brokers that are down, is taken for standing unless `surely`.
    """
    in_flight = {*client.fetch_reassignments(), *_copied(client, left)}
    topics = sorted({t for t, _, _ in left.lists} | {r.topic for r in left.retention})
    limited = {rate.broker for rate in left.rates}
    brokers = sorted(limited.intersection(client.describe_cluster().alive_ids))
    resources = [*map(Resource.topic, topics), *map(Resource.broker, brokers)]
    names = [*LISTS, *RATES, RETENTION]
    configs = client.describe_configs(resources, names) if resources else {}

    def pairs(topic: str, side: str, ours: tuple[str, ...]) -> tuple[str, ...]:
        answer = configs.get(Resource.topic(topic), {})
        if isinstance(answer, Fault):
            return () if surely or is_missing(answer) else ours
        there = entries(own_list(answer, Side(side)))
        return tuple(pair for pair in ours if pair in there)

    def kept_rate(rate: RateIntent) -> RateIntent | None:
        answer = configs.get(Resource.broker(rate.broker))
        if answer is None or isinstance(answer, Fault):
            return None if surely else rate
        if not rate.is_ours(answer):
            return None
        held = as_rate(own_rate(answer, rate.side))
        return replace(rate, rate_bytes_per_s=held, perhaps=())

    def lowered(retention: LoweredRetention) -> bool:
        answer = configs.get(Resource.topic(retention.topic), {})
        if isinstance(answer, Fault):
            return not (surely or is_missing(answer))
        own = own_value(answer.get(RETENTION), ResourceKind.TOPIC)
        return own == str(retention.retention_ms)

    lists = [(topic, side, pairs(topic, side, ours)) for topic, side, ours in left.lists]
    return Leftovers(
        moves=tuple(tp for tp in left.moves if tp in in_flight),
        lists=tuple(entry for entry in lists if entry[2]),
        rates=tuple(rate for rate in map(kept_rate, left.rates) if rate is not None),
        retention=tuple(filter(lowered, left.retention)),
    )


def _copied(client: ClusterClient, left: Leftovers) -> set[TopicPartition]:
    """Return the partitions of which a replica is on its way to another log dir, or may be."""
    brokers = sorted({broker for _, broker in left.copies})
    tps = set()
    for answer in client.describe_log_dirs(brokers) if brokers else ():
        here = {tp for tp, broker in left.copies if broker == answer.broker}
        copies = {TopicPartition(r.topic, r.partition) for r in answer.replicas if r.future}
        tps |= here if answer.error is not None else here & copies
    return tps


_SHOWN = 3


def refuse_conflicts(cluster_id: str, address: Address) -> None:
    """Raise RefusedError while something of another run's is left in this cluster.

    Raises IncompleteError when a journal that may tell of such cannot be read.
    The cluster is asked only where a journal tells of what an ended run left, which it does ever
    after. Throttles of brokers that are down cannot be cleared either: they do not count.
    """
    if dead := left_behind(cluster_id):
        raise RefusedError(
            f"Run {dead[0]} has died in the middle of its work on this cluster.",
            detail="What it left would be taken for what was there before.",
            next=f"Bring it back first: trimtab runs attach {dead[0]} --yes (to undo what it "
            f"began, ask for that before: trimtab runs cancel {dead[0]} --yes).",
        )
    refuse_unreadable(cluster_id, "has left something")
    ended = [run.state for run in with_throttles(cluster_id) if run.state.ended is not None]
    if not ended:
        return
    with closing(connect(address).client) as client:
        for state in ended:
            left = replace(leftovers(state), moves=(), copies=())  # others' moves are looked for
            refuse_leftovers(state.run_id, fetch_leftovers(client, left, surely=True))


def refuse_leftovers(run: str, left: Leftovers) -> None:
    """Raise RefusedError when a run that has ended left throttles, or a retention lowered."""
    places = [f"broker {broker}" for broker in sorted({rate.broker for rate in left.rates})]
    places += [f"topic {topic}" for topic in sorted({topic for topic, _, _ in left.lists})]
    if places:
        between_dirs = sorted({r.broker for r in left.rates if r.side is Side.LOG_DIRS})
        by_name = "".join(f" broker:{broker}" for broker in between_dirs)
        raise RefusedError(
            f"Run {run} has left throttles in this cluster ({name_list(places)}): "
            f"clear them first, by trimtab throttles clear{by_name}.",
            detail="They would be taken for what was there before.",
        )
    if left.retention:
        first, more = left.retention[0], len(left.retention) - 1
        others = f" and {more} more topic{'s' * (more > 1)}" if more else ""
        lowered = format_duration(first.retention_ms / 1000)
        raise RefusedError(
            f"Run {run} has left the retention of {first.topic}{others} lowered to {lowered}: "
            "put it back first.",
            detail="It would be taken for what was there before.",
            next="; ".join(retention.puts_back for retention in left.retention[:_SHOWN])
            + (f"; the others: trimtab runs show {run}" if more >= _SHOWN else ""),
        )


ALLOW = "moving"
"""By this id it can be allowed, where that is offered at all."""


def refuse_if_moving(
    state: ClusterState, topics: Collection[str], doing: str, *, allowable: bool = False
) -> None:
    """Raise RefusedError when one of these topics is under a move, by a run of ours or not.

    `doing` is what is refused ("deleted"); the refusal says how to allow it where it is
    `allowable`. Raises IncompleteError when a journal that may name them cannot be read, and
    AccessDeniedError when the user may not see what is in flight.
    """
    allow = f"; or, if you know better: --allow {ALLOW}" if allowable else ""
    refuse_unreadable(state.cluster_id, "moves a topic")
    for run in with_throttles(state.cluster_id):
        if run.state.ended is not None:
            continue
        held = {move.move.tp.topic for move in run.state.moves}.intersection(topics)
        if held:
            raise RefusedError(
                f"Topic {min(held)} cannot be {doing}: run {run.state.run_id} moves it.",
                next=f"Wait for its end, or: trimtab runs cancel {run.state.run_id}{allow}",
            )
    if state.moves_unknown:
        raise AccessDeniedError(state.moves_unknown, next=f"{rights_advice(TO_SEE_MOVES)}{allow}")
    for row in np.flatnonzero(state.reassigning).tolist():
        tp = state.tp(row)
        if tp.topic in topics:
            raise RefusedError(
                f"Topic {tp.topic} cannot be {doing}: {tp} is being reassigned.",
                next=f"Wait for the end of that move: trimtab runs show foreign{allow}",
            )
