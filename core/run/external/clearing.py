"""Clears throttles that no move needs: which go, which stay and why.

What a run of ours in progress works with is never touched. What a dead one left goes as that run
would have put it back. A `*`, and what moves in flight run under, goes only when it is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import (
    LOG_DIRS_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.state import ClusterState
from core.run.external.throttles import Throttle, fetch_throttles
from core.run.journal.throttle_values import (
    ALL,
    LISTED,
    LISTS,
    RATES,
    Configs,
    ListKey,
    entries,
    joined,
    own_list,
)
from core.run.reporting.runs import KnownRun
from core.run.throttles.changes import restore_changes
from core.run.throttles.write_and_read_back import await_shown, faults_of, fetch_lists


@dataclass(frozen=True, slots=True)
class Clearing:
    """What would be changed to clear `cleared`; `kept` with the reason of each."""

    cleared: tuple[Throttle, ...] = ()
    kept: tuple[tuple[Throttle, str], ...] = ()
    changes: tuple[ConfigChange, ...] = ()
    faults: Mapping[Resource, Fault] = field(default_factory=dict)


def plan_clearing(
    client: ClusterClient,
    state: ClusterState,
    runs: Collection[KnownRun],
    named: Collection[Resource] = (),
) -> Clearing:
    """Look at every throttle and return what would be cleared; of `named` resources only, if any.

    Nothing is changed.
    """
    throttles, faults = fetch_throttles(client, state, runs)
    reasons = {
        t: _reason_to_keep(t, runs, named=bool(named))
        for t in throttles
        if not named or t.resource in named
    }
    cleared = tuple(t for t, reason in reasons.items() if not reason)
    resources = list(dict.fromkeys(t.resource for t in cleared))
    names = [*LISTS, *RATES]
    configs = client.describe_configs(resources, names) if resources else {}
    return Clearing(
        cleared,
        tuple((t, reason) for t, reason in reasons.items() if reason),
        tuple(_changes(cleared, configs, runs)),
        faults,
    )


def clear(client: ClusterClient, clock: Clock, clearing: Clearing) -> dict[Resource, str]:
    """Make the changes and read them back; return in words what could not be cleared.

    A list is emptied of what was listed, and unset where the controller holds nothing more in it:
    what somebody has appended meanwhile stays.
    """
    pairs = _pairs(clearing.cleared)
    deletes = {
        key: c
        for c in clearing.changes
        if c.op is ConfigOp.DELETE and c.resource.kind is ResourceKind.TOPIC
        for key in [(c.resource.name, _SIDES[c.name])]
        if ALL not in pairs[key]
    }
    first = [c for c in clearing.changes if c not in deletes.values()]
    first += [
        replace(c, op=ConfigOp.SUBTRACT, value=joined(pairs[key]))
        for key, c in deletes.items()
        if pairs[key]
    ]
    failed = _alter(client, first)
    deletes = {key: c for key, c in deletes.items() if c.resource not in failed}
    held, faults = fetch_lists(client, clock, deletes)
    failed |= {resource: str(fault) for resource, fault in faults.items()}
    empty = [change for key, change in deletes.items() if held.get(key) == frozenset()]
    failed |= _alter(client, empty)
    left = (change for change in (*first, *empty) if change.resource not in failed)
    not_shown = await_shown(client, clock, left)
    return failed | {change.resource: "it is set still" for change in not_shown}


def _alter(client: ClusterClient, changes: Sequence[ConfigChange]) -> dict[Resource, str]:
    faults = faults_of(client.alter_configs(changes)) if changes else {}
    return {r: str(fault) for r, fault in faults.items() if not is_missing(fault)}


_SIDES = {side.list_config: side for side in LISTED}


def _pairs(cleared: Iterable[Throttle]) -> Mapping[ListKey, set[str]]:
    """Return what is to go of each topic's list."""
    gone: defaultdict[ListKey, set[str]] = defaultdict(set)
    for t in cleared:
        if t.resource.kind is ResourceKind.TOPIC:
            gone[t.resource.name, _SIDES[t.config]] |= entries(t.value)
    return gone


def _reason_to_keep(throttle: Throttle, runs: Iterable[KnownRun], *, named: bool) -> str:
    for run in runs:
        moves = [m.move for m in run.state.moves] if run.living else []
        if throttle.resource.kind is ResourceKind.TOPIC:
            is_used = any(move.tp.topic == throttle.resource.name for move in moves)
        else:
            broker = int(throttle.resource.name)
            is_used = any(broker in (*move.before, *move.after) for move in moves)
        if is_used:
            return f"run {run.state.run_id} is in progress and works with it"
    if throttle.source in (ConfigSource.STATIC, ConfigSource.DEFAULT):
        return "it is in the broker's own configuration file"
    if throttle.source is ConfigSource.BROKER_DEFAULT:
        return "it is a default of the whole cluster"
    if throttle.source not in (ConfigSource.BROKER, ConfigSource.TOPIC):
        return "nothing tells who set it"
    if named:
        return ""
    if throttle.config == LOG_DIRS_RATE:  # whether there are such moves may not be known
        return "it is for moves between log dirs: name the broker to clear it"
    if throttle.needed:
        return "moves in flight run under it"
    if throttle.value == ALL:
        return "it is for every replica of the topic: name the topic to clear it"
    return ""


def _changes(
    cleared: Collection[Throttle], configs: Configs, runs: Collection[KnownRun]
) -> Iterable[ConfigChange]:
    for t in cleared:
        if t.resource.kind is not ResourceKind.TOPIC:
            yield _rate_change(t, configs, runs)
    for (topic, side), pairs in _pairs(cleared).items():
        resource = Resource.topic(topic)
        answer = configs.get(resource, {})
        if isinstance(answer, Fault):
            continue
        if entries(own_list(answer, side)) <= pairs:
            yield ConfigChange(resource, side.list_config, ConfigOp.DELETE)
        else:
            yield ConfigChange(resource, side.list_config, ConfigOp.SUBTRACT, joined(pairs))


def _rate_change(t: Throttle, configs: Configs, runs: Collection[KnownRun]) -> ConfigChange:
    """Return what clears a rate: as it was found before a run of ours that died, else no rate."""
    for run in runs:
        if run.state.run_id == t.run:
            for intent in run.state.throttles.rates.values():
                if (str(intent.broker), intent.side.rate_config) == (t.resource.name, t.config):
                    back = restore_changes(intent, configs)
                    if back:
                        return back[0]
    return ConfigChange(t.resource, t.config, ConfigOp.DELETE)
