"""What brokers say of their log dirs, and how sizes, lags and places come into a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from core.cluster.metadata import UNKNOWN, FutureReplica, LogDir, TopicPartition
from core.cluster.state import Bool, ClusterState, Int64, read_only


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One replica's log on one broker; `future` marks a move between log dirs."""

    topic: str
    partition: int
    size_bytes: int
    lag: int
    log_dir: str
    future: bool = False


@dataclass(frozen=True, slots=True)
class BrokerLogs:
    """What one broker said of its log dirs; `error` means everything else is unknown."""

    broker: int
    log_dirs: tuple[LogDir, ...] = ()
    replicas: tuple[ReplicaLog, ...] = ()
    error: str | None = None


def with_log_dirs(state: ClusterState, logs: Iterable[BrokerLogs]) -> ClusterState:
    """Return the state with sizes, lags and log dirs of the brokers that answered.

    Brokers that did not answer keep what was known before. Future logs (a move between log
    dirs of one broker) do not count as the replica's size: they are its `future_replicas`.
    """
    size, lag, place = state.size_bytes.copy(), state.lag.copy(), state.log_dir.copy()
    paths = {path: i for i, path in enumerate(state.log_dir_paths)}
    keys = (state.topic_of.astype(np.int64) << 32) | state.partition
    dirs: dict[int, tuple[LogDir, ...]] = {}
    copies: list[FutureReplica] = []
    for answer in logs:
        if answer.error is not None:
            continue
        dirs[answer.broker] = answer.log_dirs
        copies += _future_replicas(state, answer)
        hosted = np.flatnonzero(state.replica_broker == answer.broker)
        size[hosted], lag[hosted], place[hosted] = UNKNOWN, UNKNOWN, UNKNOWN
        logged = [log for log in answer.replicas if not log.future]
        at, is_present = _positions(
            keys[state.partition_of_replica[hosted]],
            np.fromiter((_key(state, log) for log in logged), np.int64),
        )
        replicas = hosted[at[is_present]]
        known = [log for log, there in zip(logged, is_present.tolist(), strict=True) if there]
        size[replicas] = [log.size_bytes for log in known]
        lag[replicas] = [log.lag for log in known]
        place[replicas] = [paths.setdefault(log.log_dir, len(paths)) for log in known]
    return replace(
        state,
        brokers=tuple(
            replace(b, log_dirs=dirs[b.id]) if b.id in dirs else b for b in state.brokers
        ),
        size_bytes=read_only(size),
        lag=read_only(lag),
        log_dir=read_only(place),
        log_dir_paths=tuple(paths),
        future_replicas=(
            *(copy for copy in state.future_replicas if copy.broker not in dirs),
            *copies,
        ),
    )


def _future_replicas(state: ClusterState, answer: BrokerLogs) -> list[FutureReplica]:
    copies = [
        FutureReplica(
            TopicPartition(log.topic, log.partition), answer.broker, log.log_dir, log.size_bytes
        )
        for log in answer.replicas
        if log.future
    ]
    rows = ((copy, state.find(copy.tp)) for copy in copies)
    return [copy for copy, row in rows if row is not None and copy.broker in state.replicas(row)]


def _key(state: ClusterState, log: ReplicaLog) -> int:
    """Return topic index and partition number as one integer, -1 for a topic not in the state."""
    index = state.topic_index.get(log.topic)
    return -1 if index is None else (index << 32) | log.partition


def _positions(ascending: Int64, values: Int64) -> tuple[Int64, Bool]:
    """Return where each value stands in `ascending`, and whether it is there at all."""
    at = np.minimum(np.searchsorted(ascending, values), max(len(ascending) - 1, 0))
    is_present = ascending[at] == values if len(ascending) else np.zeros(len(values), np.bool_)
    return at.astype(np.int64), is_present
