"""Which moves of a plan nothing can speak against, all at once: large plans are checked in time.

`check_plan` looks at each of the others; this never passes a doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.snapshot.format import Load
from core.plan.plan import Move

NOBODY = -1


def plain(
    state: ClusterState,
    load: Load,
    moves: Sequence[Move],
    moving: Collection[TopicPartition],
) -> list[bool]:
    """Return for each move whether none of the checks of single moves finds anything.

    `moving` are partitions in flight. Some of the others may be without a doubt, too.
    """
    found = [False] * len(moves)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    rows = [state.find(move.tp) for move in moves]
    for at, (move, row) in enumerate(zip(moves, rows, strict=True)):
        usual = len(move.before) == len(move.after) > 0 and move.log_dirs is None
        if row is not None and usual and move.tp not in moving:
            alike[len(move.after)].append(at)
    for replicas, chosen in alike.items():
        at_rows = np.array([rows[at] for at in chosen], np.int64)
        fine = _at_rest(state, load, at_rows, replicas) & _sound(
            state,
            at_rows,
            np.array([moves[at].before for at in chosen], np.int32),
            np.array([moves[at].after for at in chosen], np.int32),
        )
        for at, row, is_fine in zip(chosen, at_rows.tolist(), fine.tolist(), strict=True):
            topic = state.topics[int(state.topic_of[row])]
            same = not (moves[at].topic_id and topic.id) or moves[at].topic_id == topic.id
            found[at] = is_fine and same and (topic.min_insync or 0) <= replicas
    return found


def _at_rest(state: ClusterState, load: Load, rows: Int64, replicas: int) -> Bool:
    """Return which partitions are led, in sync, not moving, known, and have so many replicas."""
    off = state.moving.copy()
    off[state.partition_of_replica[~state.in_sync]] = True
    off |= (state.leader < 0) | (state.partition_size_bytes < 0) | np.isnan(load.in_bytes_per_s)
    return np.asarray(~off[rows] & (np.diff(state.replica_start)[rows] == replicas), np.bool_)


def _sound(state: ClusterState, rows: Int64, before: Int32, after: Int32) -> Bool:
    """Return which moves begin where the cluster is, and end on live brokers, as well spread."""
    places = state.replica_start[:-1][rows][:, None] + np.arange(before.shape[1])
    held = state.replica_broker[np.minimum(places, state.replica_count - 1)]
    alive = np.array([broker.id for broker in state.brokers if broker.alive], np.int32)
    known = np.isin(before, state.broker_ids) & np.isin(after, alive)
    fine = ((held == before) & known & (_together(after) == 1)).all(axis=1)
    names = sorted({broker.rack for broker in state.brokers if broker.rack is not None})
    if names:
        old, new = _racks(state, names, before), _racks(state, names, after)
        was, becomes = _together(old), _together(new)
        even = -(-after.shape[1] // len(names))
        fine &= (old != NOBODY).all(axis=1) & (new != NOBODY).all(axis=1)
        fine &= _kinds(becomes) >= _kinds(was)
        fine &= becomes.max(axis=1) <= np.maximum(even, was.max(axis=1))
    return np.asarray(fine, np.bool_)


def _racks(state: ClusterState, names: Sequence[str], brokers: Int32) -> Int32:
    """Return the racks of broker ids, as numbers; any for ids that there are not."""
    racks = [NOBODY if b.rack is None else names.index(b.rack) for b in state.brokers]
    at = np.minimum(np.searchsorted(state.broker_ids, brokers), len(racks) - 1)
    return np.array(racks, np.int32)[at]


def _together(values: Int32) -> Int64:
    """Return for each value how many of its row are the same, itself among them."""
    return np.asarray((values[:, :, None] == values[:, None, :]).sum(axis=2), np.int64)


def _kinds(together: Int64) -> Int64:
    """Return how many different values each row has: each adds one over how often it is there."""
    return np.asarray(np.rint((1 / together).sum(axis=1)), np.int64)
