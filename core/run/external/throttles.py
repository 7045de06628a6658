"""Every throttle in a cluster, explained: whose it is, and whether a move in flight needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.cluster.client import ClusterClient
from core.cluster.configs import LOG_DIRS_RATE, ConfigSource, ConfigValue, Resource, ResourceKind
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import ClusterState
from core.plan.copies import Side
from core.run.journal.throttle_values import (
    ALL,
    LISTED,
    RATES,
    Configs,
    as_rate,
    entries,
    joined,
    own_list,
)
from core.run.reporting.runs import KnownRun
from core.run.throttles.write_and_read_back import fetch_throttle_configs
from core.units import counted, format_rate


@dataclass(frozen=True, slots=True)
class Throttle:
    """One rate of a broker, or the entries of one topic list that belong together."""

    resource: Resource
    config: str
    value: str
    source: ConfigSource
    run: str | None
    """The run of ours that set it."""
    needed: bool
    """Whether a move in flight runs under it; what is not known counts as one."""
    why: str

    def to_json(self) -> dict[str, Any]:
        return {
            "resource": self.resource.kind.value,
            "name": self.resource.name,
            "config": self.config,
            "value": self.value,
            "source": self.source.value,
            "whose": "foreign" if self.run is None else "ours",
            "run": self.run,
            "needed": self.needed,
            "why": self.why,
        }


class Throttles(NamedTuple):
    """Every throttle that is set, brokers first, and what could not be asked for its own."""

    throttles: tuple[Throttle, ...]
    faults: Mapping[Resource, Fault]


def fetch_throttles(
    client: ClusterClient, state: ClusterState, runs: Iterable[KnownRun]
) -> Throttles:
    """Return every throttle in the cluster; `runs` are those that may have set some.

    Brokers that are down are left out: only they know their rates.
    """
    in_flight = client.fetch_reassignments()
    rates = fetch_throttle_configs(client, brokers=state.alive_ids)
    lists = fetch_throttle_configs(client, (topic.name for topic in state.topics))
    return explain_throttles({**rates, **lists}, in_flight, _fetch_dir_copies(client, rates), runs)


def any_rate(rates: Configs) -> bool:
    """Return whether any broker is throttled by a rate."""
    answers = (answer for answer in rates.values() if not isinstance(answer, Fault))
    return any(_limit(answer, name) is not None for answer in answers for name in RATES)


def explain_throttles(
    answers: Configs,
    in_flight: Mapping[TopicPartition, Reassignment],
    copies: Mapping[int, int],
    runs: Iterable[KnownRun],
) -> Throttles:
    """Return the throttles in what brokers say, as far as moves in flight are known."""
    runs = tuple(runs)
    throttles: list[Throttle] = []
    faults: dict[Resource, Fault] = {}
    for resource, answer in sorted(answers.items(), key=lambda entry: _order(entry[0])):
        if isinstance(answer, Fault):
            if not is_missing(answer):  # deleted meanwhile
                faults[resource] = answer
        elif resource.kind is ResourceKind.BROKER:
            throttles += _rates(resource, answer, in_flight, copies.get(int(resource.name)), runs)
        else:
            throttles += _lists(resource, answer, in_flight, runs)
    return Throttles(tuple(throttles), faults)


def _order(resource: Resource) -> tuple[bool, int, str]:
    """Return brokers by id first, then topics by name."""
    is_topic = resource.kind is ResourceKind.TOPIC
    return is_topic, 0 if is_topic else int(resource.name), resource.name


def _fetch_dir_copies(client: ClusterClient, rates: Configs) -> dict[int, int]:
    """Return how many replicas brokers copy between their log dirs, of those with a rate for it.

    One that does not say is left out.
    """
    limited = [
        int(resource.name)
        for resource, answer in rates.items()
        if not isinstance(answer, Fault) and _limit(answer, LOG_DIRS_RATE) is not None
    ]
    answers = client.describe_log_dirs(limited) if limited else ()
    return {
        answer.broker: sum(log.future for log in answer.replicas)
        for answer in answers
        if answer.error is None
    }


def _limit(answer: Mapping[str, ConfigValue], rate_config: str) -> int | None:
    value = answer.get(rate_config)
    return None if value is None else as_rate(value.value)


def _rates(
    resource: Resource,
    answer: Mapping[str, ConfigValue],
    in_flight: Mapping[TopicPartition, Reassignment],
    copies: int | None,
    runs: tuple[KnownRun, ...],
) -> Iterator[Throttle]:
    broker = int(resource.name)
    moving = sum(broker in r.replicas for r in in_flight.values())
    for name in RATES:
        limit = _limit(answer, name)
        if limit is None:
            continue
        ours = next(
            (
                run
                for run in runs
                for rate in run.state.throttles.rates.values()
                if rate.broker == broker and rate.side.rate_config == name and rate.is_ours(answer)
            ),
            None,
        )
        if name != LOG_DIRS_RATE:
            needed = moving > 0
            does = f"the broker takes part in {counted(moving, 'move')} in flight"
        elif copies is not None:
            needed = copies > 0
            does = f"the broker copies {counted(copies, 'replica')} between its log dirs"
        else:
            needed, does = True, "whether the broker copies between its log dirs is not known"
        why = ours.says if ours else f"not ours; {does if needed else 'the broker moves nothing'}"
        yield Throttle(
            resource,
            name,
            answer[name].value or "",
            answer[name].source,
            ours.state.run_id if ours else None,
            needed,
            f"{format_rate(limit)}: {why}",
        )


def _lists(
    resource: Resource,
    answer: Mapping[str, ConfigValue],
    in_flight: Mapping[TopicPartition, Reassignment],
    runs: tuple[KnownRun, ...],
) -> Iterator[Throttle]:
    for side in LISTED:
        value = own_list(answer, side)
        if value is not None:
            for text, run, needed, why in _parts(
                resource.name, side, entries(value), in_flight, runs
            ):
                name, run_id = side.list_config, run.state.run_id if run else None
                yield Throttle(resource, name, text, ConfigSource.TOPIC, run_id, needed, why)


def _parts(
    topic: str,
    side: Side,
    there: frozenset[str],
    in_flight: Mapping[TopicPartition, Reassignment],
    runs: tuple[KnownRun, ...],
) -> Iterator[tuple[str, KnownRun | None, bool, str]]:
    """Yield entries of a list that belong together, whose they are, if needed, and why."""
    if not there:
        yield "", None, False, "set to nothing: it throttles no replica"
    if ALL in there:
        moving = any(tp.topic == topic for tp in in_flight)
        yield ALL, None, moving, "not ours; every replica of the topic"
        return
    moved = {pair for pair in there if _is_in_flight(topic, pair, in_flight)}
    for run in runs:
        intent = run.state.throttles.lists.get((topic, side))
        mine = there & set(intent.pairs) if intent else frozenset[str]()
        if mine:
            there -= mine
            yield joined(mine), run, not mine.isdisjoint(moved), run.says
    if there & moved:
        yield joined(there & moved), None, True, "not ours; for moves in flight"
    if there - moved:
        yield joined(there - moved), None, False, "not ours; matches no move in flight"


def _is_in_flight(topic: str, pair: str, in_flight: Mapping[TopicPartition, Reassignment]) -> bool:
    partition, broker = (int(part) for part in pair.split(":"))
    reassignment = in_flight.get(TopicPartition(topic, partition))
    return reassignment is not None and broker in reassignment.replicas
