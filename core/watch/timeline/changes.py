"""What changed between two states of a cluster, and a state after changes. Pure.

Epochs alone are no change: they rise with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN, Broker, Topic, TopicPartition
from core.cluster.state import ClusterState, Int64, read_only
from core.load.load import align_rows, has_same_partitions
from core.watch.timeline.codec import build_state, replica_flags, state_flags
from core.watch.timeline.events import Event, Kind, Replicas


def find_changes(before: ClusterState, after: ClusterState) -> list[Event]:
    """Return what changed, brokers first, then topics, then partitions by name and number.

    Seen at `after.fetched_at`. Of a topic that came only its partitions tell more; of one that
    went, nothing does.
    """
    at = after.fetched_at
    changes = [*_brokers(before, after, at), *_topics(before, after, at)]
    changes += _partitions(before, after, at)
    if after.controller is not None and before.controller != after.controller:
        changes.insert(0, Event(at, Kind.CONTROLLER, before.controller, after.controller))
    return changes


def _brokers(before: ClusterState, after: ClusterState, at: datetime) -> Iterator[Event]:
    for id in sorted(before.broker_by_id.keys() | after.broker_by_id.keys()):
        old, new = (_without_disks(state.broker_by_id.get(id)) for state in (before, after))
        if old == new:
            continue
        kind = Kind(0)
        was, now = old is not None and old.alive, new is not None and new.alive
        # One that is down may be without its rack and address.
        if old is None or new is None or (was and now):
            kind |= Kind.BROKER
        if was and not now:
            kind |= Kind.BROKER_DOWN
        if now and not was and old is not None:
            kind |= Kind.BROKER_UP
        if kind:  # what is known of one that is down may become less
            yield Event(at, kind, old, new)


def _without_disks(broker: Broker | None) -> Broker | None:
    """Return a broker without what is not kept: disks fill all the time."""
    if broker is None:
        return None
    return Broker(broker.id, broker.rack, broker.host, broker.port, broker.alive)


def _topics(before: ClusterState, after: ClusterState, at: datetime) -> Iterator[Event]:
    if before.topics == after.topics:
        return
    old = {topic.name: topic for topic in before.topics}
    new = {topic.name: topic for topic in after.topics}
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was is not None and now is not None and _is_same_topic(was, now):
            # Of configs only those that are known of both.
            pairs = zip(was.configs.values(), now.configs.values(), strict=True)
            if any(None not in pair and pair[0] != pair[1] for pair in pairs):
                yield Event(at, Kind.CONFIG, was, now, name)
            continue
        if was is not None:
            yield Event(at, Kind.TOPIC_DELETED, was, None, name)
        if now is not None:
            yield Event(at, Kind.TOPIC_CREATED, None, now, name)


def _is_same_topic(was: Topic, now: Topic) -> bool:
    return None in (was.id, now.id) or was.id == now.id


def _partitions(before: ClusterState, after: ClusterState, at: datetime) -> list[Event]:
    old, new = _align_partitions(before, after)
    both = (old >= 0) & (new >= 0)
    differs = np.zeros(len(old), np.bool_)
    differs[both] = _find_differences(before, after, old[both], new[both])
    events = []
    for place in np.flatnonzero(differs | ~both).tolist():
        was = replicas_of(before, int(old[place])) if old[place] >= 0 else None
        now = replicas_of(after, int(new[place])) if new[place] >= 0 else None
        state, row = (before, old) if now is None else (after, new)
        tp = state.tp(int(row[place]))
        kind = Kind.PARTITION if was is None or now is None else _change_kind(was, now)
        events.append(Event(at, kind, was, now, tp.topic, tp.partition))
    return sorted(events, key=lambda event: (event.topic or "", event.partition or 0))


def replicas_of(state: ClusterState, index: int) -> Replicas:
    """Return what the timeline keeps of one partition."""
    row = state.row(index)
    return Replicas(row.leader, row.replicas, row.isr, row.adding, row.removing)


def keep_moves(last: ClusterState, state: ClusterState) -> ClusterState:
    """Return `state` with what was in flight and has its replicas still: nobody saw it end."""
    adding, removing = state.adding.copy(), state.removing.copy()
    for before in np.flatnonzero(last.reassigning).tolist():
        tp = last.tp(before)
        row, was, now = state.find(tp), last.topic(tp.topic), state.topic(tp.topic)
        if row is None or was is None or now is None or not _is_same_topic(was, now):
            continue
        if last.replicas(before) == state.replicas(row):
            here, there = state.replica_slice(row), last.replica_slice(before)
            adding[here], removing[here] = last.adding[there], last.removing[there]
    return replace(state, adding=read_only(adding), removing=read_only(removing))


def _change_kind(was: Replicas, now: Replicas) -> Kind:
    kind = Kind(0)
    if was.leader != now.leader:
        kind |= Kind.OFFLINE if now.leader < 0 else Kind.LEADER
    # A replica that is taken away leaves the ISR as well: that is a matter of the assignment.
    if (set(was.isr) - set(now.isr)) & set(now.replicas):
        kind |= Kind.ISR_SHRINK
    if set(now.isr) - set(was.isr):
        kind |= Kind.ISR_EXPAND
    if (was.replicas, was.adding, was.removing) != (now.replicas, now.adding, now.removing):
        kind |= Kind.ASSIGNMENT
    return kind


def _align_partitions(before: ClusterState, after: ClusterState) -> tuple[Int64, Int64]:
    """Return row numbers of the same partitions side by side, -1 where one has none.

    A topic that was made anew is another one, whatever its name.
    """
    if [(t.name, t.id) for t in before.topics] == [(t.name, t.id) for t in after.topics] and (
        has_same_partitions(before, after)
    ):
        rows = np.arange(before.partition_count)
        return rows, rows
    names = [
        topic.name if (now := after.topic(topic.name)) and _is_same_topic(topic, now) else ""
        for topic in before.topics
    ]
    old_rows = align_rows(names, before.topic_of, before.partition, after)
    gone = np.setdiff1d(np.arange(before.partition_count), old_rows)
    none = np.full(len(gone), UNKNOWN)
    return np.concatenate([gone, old_rows]), np.concatenate([none, np.arange(len(old_rows))])


def _find_differences(
    before: ClusterState, after: ClusterState, old: Int64, new: Int64
) -> npt.NDArray[np.bool_]:
    """Return which of these pairs of rows tell different things."""
    mask: npt.NDArray[np.bool_] = np.not_equal(before.leader[old], after.leader[new])
    counts = np.diff(before.replica_start)[old]
    alike = counts == np.diff(after.replica_start)[new]
    mask |= ~alike
    at = np.flatnonzero(alike)
    of = np.repeat(at, counts[at])
    within = np.arange(len(of)) - np.repeat(np.cumsum(counts[at]) - counts[at], counts[at])
    here, there = before.replica_start[old[of]] + within, after.replica_start[new[of]] + within
    for name in ("replica_broker", "in_sync", "adding", "removing"):
        unlike = getattr(before, name)[here] != getattr(after, name)[there]
        mask[of[unlike]] = True
    return mask


def apply_changes(state: ClusterState, events: Iterable[Event], at: datetime) -> ClusterState:
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
    return _rebuild_state(state, at, controller, brokers.values(), topics, anew, latest)


def _rebuild_state(
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
        columns = _build_patched_columns(state, latest)
        if columns is not None:
            known = [topics[name] for name in names]
            return build_state(state.cluster_id, at, controller, list(brokers), known, columns)
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
    flags = state_flags(state)
    at_kept = _expand_runs(state.replica_start[rows], counts[: len(rows)])
    replica = np.concatenate(
        [state.replica_broker[at_kept], [b for _, now in put for b in now.replicas]]
    )
    flags = np.concatenate([flags[at_kept], [f for _, now in put for f in replica_flags(now)]])
    start = np.cumsum(counts) - counts
    in_order = _expand_runs(start[order], counts[order])
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
    return build_state(state.cluster_id, at, controller, list(brokers), known, columns)


def _build_patched_columns(
    state: ClusterState, latest: dict[TopicPartition, Replicas | None]
) -> dict[str, Any] | None:
    """Return the columns where no partition comes, goes, or has another number of replicas.

    So it is nearly always, and then nothing has to be put in order anew. None where it is not so.
    """
    updates = [(state.find(tp), now) for tp, now in latest.items()]
    rows = np.array([-1 if row is None else row for row, _ in updates], np.int64)
    counts = np.array([-1 if now is None else len(now.replicas) for _, now in updates], np.int64)
    sizes = np.diff(state.replica_start)
    if (rows < 0).any() or (sizes[rows] != counts).any():
        return None
    put = [now for _, now in updates if now is not None]
    at = _expand_runs(state.replica_start[rows], counts)
    leader, epoch = state.leader.copy(), state.leader_epoch.copy()
    replica, flags = state.replica_broker.copy(), state_flags(state)
    leader[rows] = [now.leader for now in put]
    epoch[rows] = UNKNOWN
    replica[at] = [b for now in put for b in now.replicas]
    flags[at] = [f for now in put for f in replica_flags(now)]
    return {
        "topic_of": state.topic_of,
        "partition": state.partition,
        "leader": leader,
        "leader_epoch": epoch,
        "replica_start": sizes,
        "replica_broker": replica,
        "flags": flags,
    }


def _expand_runs(start: Int64, counts: Int64) -> Int64:
    """Return the places of all items of these runs, run after run."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(start, counts) + within
