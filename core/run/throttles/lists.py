"""Fetches topics' throttle lists from the controller, as brokers' metadata may lag."""

from __future__ import annotations

from collections.abc import Collection

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import Resource
from core.cluster.kafka_errors import Fault, is_missing
from core.plan.throttle_lists import entries
from core.run.journal.throttle_values import LISTS, ListKey, own_list

LAG_SECONDS = 1.0
"""For how long one broker may show what another does not any more."""
UNSUPPORTED = "UNSUPPORTED_VERSION"


def fetch_lists(
    client: ClusterClient, clock: Clock, keys: Collection[ListKey]
) -> tuple[dict[ListKey, frozenset[str]], dict[Resource, Fault]]:
    """Return what lists hold now, and why some cannot be asked; those that are gone neither."""
    answers = fetch_list_answers(client, clock, keys)
    faults = {Resource.topic(t): a for (t, _), a in answers.items() if isinstance(a, Fault)}
    told = {key: a for key, a in answers.items() if not isinstance(a, Fault)}
    return told, {r: fault for r, fault in faults.items() if not is_missing(fault)}


def fetch_list_answers(
    client: ClusterClient, clock: Clock, keys: Collection[ListKey]
) -> dict[ListKey, frozenset[str] | Fault]:
    """Return the entries of these lists as the controller holds them.

    Of a cluster that does not tell, what two looks some time apart have shown alike.
    """
    named = {(Resource.topic(topic), side.list_config): (topic, side) for topic, side in keys}
    answers = client.fetch_list_entries(list(named)) if named else {}
    found = {named[asked]: answer for asked, answer in answers.items()}
    silent_broker = [k for k, a in found.items() if isinstance(a, Fault) and a.name == UNSUPPORTED]
    return found | _shown_twice(client, clock, silent_broker)


def _shown_twice(
    client: ClusterClient, clock: Clock, keys: Collection[ListKey]
) -> dict[ListKey, frozenset[str] | Fault]:
    if not keys:
        return {}
    first = _shown(client, keys)
    clock.sleep(LAG_SECONDS)
    then = _shown(client, keys)
    unsettled = Fault("REQUEST_TIMED_OUT", "brokers do not show the same list yet")
    return {key: now if now == first[key] else unsettled for key, now in then.items()}


def _shown(
    client: ClusterClient, keys: Collection[ListKey]
) -> dict[ListKey, frozenset[str] | Fault]:
    found = client.describe_configs(
        [Resource.topic(t) for t in sorted({t for t, _ in keys})], LISTS
    )
    return {
        (topic, side): answer
        if isinstance(answer := found[Resource.topic(topic)], Fault)
        else entries(own_list(answer, side))
        for topic, side in keys
    }
