"""A cluster as it was: a picture, and the changes after it. Pure, and quick for many partitions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np

from core.cluster.metadata import UNKNOWN, Broker, Topic, TopicPartition
from core.cluster.state import ClusterState, Int64
from core.watch.timeline.events import Event, Kind, Replicas
from core.watch.timeline.packing import flags_in, flags_of, state_of


def replayed(state: ClusterState, events: Iterable[Event], at: datetime) -> ClusterState:
    """Return `state` after these events, in their order, as of `at`."""
    controller = state.controller
    brokers = dict(state.broker_by_id)
    topics = {topic.name: topic for topic in state.topics}
    anew: set[str] = set()
    latest: dict[TopicPartition, Replicas | None] = {}
    for event in events:
        match event.before, event.after:
            case (Broker() as old, None):
                brokers.pop(old.id, None)
            case (_, Broker() as new):
                brokers[new.id] = new
            case (Topic() as old, None):
                topics.pop(old.name, None)
                anew.add(old.name)
                latest = {tp: kept for tp, kept in latest.items() if tp.topic != old.name}
            case (_, Topic() as new):
                topics[new.name] = new
            case (_, Replicas() as now) if event.tp is not None:
                latest[event.tp] = now
            case (Replicas(), None) if event.tp is not None:
                latest[event.tp] = None
            case _ if event.kind is Kind.CONTROLLER and isinstance(event.after, int):
                controller = event.after
    return _with(state, at, controller, brokers.values(), topics, anew, latest)


def _with(
    state: ClusterState,
    at: datetime,
    controller: int | None,
    brokers: Iterable[Broker],
    topics: dict[str, Topic],
    anew: set[str],
    latest: dict[TopicPartition, Replicas | None],
) -> ClusterState:
    """Return the state with these topics, and these partitions instead of its own."""
    names = sorted(topics)
    if not anew and names == [topic.name for topic in state.topics]:
        columns = _in_place(state, latest)
        if columns is not None:
            known = [topics[name] for name in names]
            return state_of(state.cluster_id, at, controller, list(brokers), known, columns)
    number = {name: i for i, name in enumerate(names)}
    stays = np.array(
        [number.get(t.name, -1) if t.name not in anew else -1 for t in state.topics], np.int64
    )
    of_kept = stays[state.topic_of] if len(stays) else np.empty(0, np.int64)
    kept = of_kept >= 0
    for tp in latest:
        if (row := state.find(tp)) is not None:
            kept[row] = False
    put = [(tp, now) for tp, now in latest.items() if now is not None and tp.topic in number]
    rows = np.flatnonzero(kept)
    topic_of = np.concatenate([of_kept[rows], [number[tp.topic] for tp, _ in put]])
    partition = np.concatenate([state.partition[rows], [tp.partition for tp, _ in put]])
    order = np.lexsort((partition, topic_of))
    counts = np.concatenate(
        [np.diff(state.replica_start)[rows], [len(now.replicas) for _, now in put]]
    ).astype(np.int64)
    flags = flags_in(state)
    at_kept = _expanded(state.replica_start[rows], counts[: len(rows)])
    replica = np.concatenate(
        [state.replica_broker[at_kept], [b for _, now in put for b in now.replicas]]
    )
    flags = np.concatenate([flags[at_kept], [f for _, now in put for f in flags_of(now)]])
    start = np.cumsum(counts) - counts
    in_order = _expanded(start[order], counts[order])
    leader = np.concatenate([state.leader[rows], [now.leader for _, now in put]])
    epoch = np.concatenate([state.leader_epoch[rows], np.full(len(put), UNKNOWN)])
    columns = {
        "topic_of": topic_of[order],
        "partition": partition[order],
        "leader": leader[order],
        "leader_epoch": epoch[order],
        "replica_start": counts[order],
        "replica_broker": replica[in_order],
        "flags": flags[in_order].astype(np.uint8),
    }
    known = [topics[name] for name in names]
    return state_of(state.cluster_id, at, controller, list(brokers), known, columns)


def _in_place(
    state: ClusterState, latest: dict[TopicPartition, Replicas | None]
) -> dict[str, Any] | None:
    """Return the columns where no partition comes, goes, or has another number of replicas.

    So it is nearly always, and then nothing has to be put in order anew. None where it is not so.
    """
    found = [(state.find(tp), now) for tp, now in latest.items()]
    rows = np.array([-1 if row is None else row for row, _ in found], np.int64)
    counts = np.array([-1 if now is None else len(now.replicas) for _, now in found], np.int64)
    sizes = np.diff(state.replica_start)
    if (rows < 0).any() or (sizes[rows] != counts).any():
        return None
    put = [now for _, now in found if now is not None]
    at = _expanded(state.replica_start[rows], counts)
    leader, epoch = state.leader.copy(), state.leader_epoch.copy()
    replica, flags = state.replica_broker.copy(), flags_in(state)
    leader[rows] = [now.leader for now in put]
    epoch[rows] = UNKNOWN
    replica[at] = [b for now in put for b in now.replicas]
    flags[at] = [f for now in put for f in flags_of(now)]
    return {
        "topic_of": state.topic_of,
        "partition": state.partition,
        "leader": leader,
        "leader_epoch": epoch,
        "replica_start": sizes,
        "replica_broker": replica,
        "flags": flags,
    }


def _expanded(start: Int64, counts: Int64) -> Int64:
    """Return the places of all items of these runs, run after run."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(start, counts) + within
