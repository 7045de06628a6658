"""From two readings of a cluster to the samples of the interval between them; pure.

Only the collector knows why a series broke, so deltas and their reasons are made here. An interval
that cannot be trusted is censored (null), never clamped to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.state import UNKNOWN, Bool, ClusterState, Int32, Int64
from core.load.sample import Flag, Method
from core.load.snapshot import Float64

CLOCK_STEP_SECONDS = 2.0
SMOOTHING = 0.3
"""Weight of the newest clean interval in the mean bytes per message."""

Int8 = npt.NDArray[np.int8]

_A = TypeVar("_A", bound=npt.NDArray[Any])


@dataclass(frozen=True, eq=False)
class Reading:
    """One poll, laid upon `state`: offsets are int64[P], -1 unknown; sizes are in the state.

    `at` and `monotonic` are the midpoint of asking for offsets; `silent` are the brokers whose
    log dirs are unknown. `committed` is None when groups could not be read.
    """

    state: ClusterState
    at: datetime
    monotonic: float
    end: Int64
    start: Int64
    committed: Mapping[str, Int64] | None
    silent: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Memory:
    """What is kept of earlier polls, laid upon `state`: the last accepted value of each series."""

    state: ClusterState
    at: datetime
    monotonic: float
    """Of the newest poll; `seen` has each partition's own."""
    seen: Float64
    """Monotonic seconds of each partition's last known end offset, NaN never."""
    end: Int64
    start: Int64
    leader: Int32
    size: Int64
    committed: Mapping[str, Int64]
    bytes_per_message: Float64


@dataclass(frozen=True, eq=False)
class Interval:
    """One poll's samples before they become rows: partition columns [P], replica columns [R].

    NaN and -1 are null; `messages` -1 means there is no delta.
    """

    reading: Reading
    dt_seconds: Float64
    messages: Int64
    in_bytes: Float64
    in_method: Int8
    out_bytes: Float64
    out_method: Int8
    group_lag: Int64
    partition_flags: Int32
    size_delta: Int64
    """[R], meaningful where `size_delta_known`; may be negative for nothing but bad input."""
    size_delta_known: Bool
    replica_flags: Int32
    memory: Memory = field(repr=False)


def measure(reading: Reading, memory: Memory | None) -> Interval:
    """Return the samples of `reading`, and the memory to measure the next one against."""
    state = reading.state
    count = state.partition_count
    leading = _leader_replica(state)
    if memory is None:
        return _first(reading, leading)
    before = memory if _same_layout(memory.state, state) else _laid(memory, state)

    recreated = _recreated(memory.state, state)
    stepped = _clock_stepped(reading, memory)
    known = reading.end >= 0
    had = (before.end >= 0) & ~recreated
    truncated = known & had & (reading.end < before.end)
    moved = had & (before.leader != state.leader) & (before.leader >= 0)
    delta_known = known & had & ~truncated & (not stepped)
    dt = np.where(delta_known, reading.monotonic - before.seen, np.nan)
    messages = np.where(delta_known, reading.end - before.end, UNKNOWN)

    flags = np.zeros(count, np.int32)
    flags[~had & ~recreated] |= Flag.FIRST
    flags[recreated] |= Flag.RECREATED
    flags[truncated] |= Flag.TRUNCATED
    flags[moved] |= Flag.LEADER_CHANGED
    if stepped:
        flags |= np.int32(Flag.CLOCK_STEP)

    of = state.partition_of_replica
    # Sizes are the newest poll's; a leader's offsets must be too, as they share a row's time.
    adjacent = before.seen == memory.monotonic
    size_known = (state.size_bytes >= 0) & (before.size >= 0) & ~recreated[of] & (not stepped)
    size_known &= ~(state.is_leader & (delta_known & ~adjacent)[of])
    change = np.where(size_known, state.size_bytes - before.size, 0)
    shrunk = size_known & (change < 0)
    size_known &= ~shrunk
    replica_flags = flags[of].copy()
    replica_flags[shrunk] |= Flag.SIZE_SHRUNK
    replica_flags[np.isin(state.replica_broker, list(reading.silent))] |= Flag.PARTIAL_POLL

    per_message = np.where(recreated, np.nan, before.bytes_per_message)
    led = leading >= 0
    led_change = np.zeros(count, np.int64)
    led_clean = np.zeros(count, np.bool_)
    led_change[led] = change[leading[led]]
    led_clean[led] = size_known[leading[led]]
    compacted = np.array(
        ["compact" in (topic.cleanup_policy or "") for topic in state.topics], np.bool_
    )
    start_kept = (reading.start == before.start) & (reading.start >= 0)
    clean = delta_known & led_clean & ~moved & (start_kept | compacted[state.topic_of])
    # Bytes without messages are the log's own doing (a compaction's copy) or of messages that came
    # between asking for offsets and for sizes; the next interval then has messages without bytes.
    clean &= adjacent & ((messages > 0) == (led_change > 0))
    in_bytes, in_method = _inward(messages, led_change, clean, delta_known, per_message)
    per_message = _learned(per_message, messages, led_change, clean)
    out_bytes, out_method, lag = _outward(reading, before, per_message, delta_known)
    return Interval(
        reading=reading,
        dt_seconds=dt,
        messages=messages.astype(np.int64),
        in_bytes=in_bytes,
        in_method=in_method,
        out_bytes=out_bytes,
        out_method=out_method,
        group_lag=lag,
        partition_flags=flags,
        size_delta=change,
        size_delta_known=size_known,
        replica_flags=replica_flags,
        memory=Memory(
            state=state,
            at=reading.at,
            monotonic=reading.monotonic,
            seen=np.where(known, reading.monotonic, np.where(recreated, np.nan, before.seen)),
            end=np.where(known, reading.end, np.where(recreated, UNKNOWN, before.end)),
            start=np.where(reading.start >= 0, reading.start, before.start),
            leader=np.where(state.leader >= 0, state.leader, before.leader),
            size=state.size_bytes,
            committed=_committed(reading, before, known | recreated),
            bytes_per_message=per_message,
        ),
    )


def _first(reading: Reading, leading: Int64) -> Interval:
    state = reading.state
    count, replicas = state.partition_count, state.replica_count
    flags = np.full(count, int(Flag.FIRST), np.int32)
    replica_flags = flags[state.partition_of_replica].copy()
    replica_flags[np.isin(state.replica_broker, list(reading.silent))] |= Flag.PARTIAL_POLL
    known = reading.end >= 0
    return Interval(
        reading=reading,
        dt_seconds=np.full(count, np.nan),
        messages=np.full(count, UNKNOWN, np.int64),
        in_bytes=np.full(count, np.nan),
        in_method=np.zeros(count, np.int8),
        out_bytes=np.full(count, np.nan),
        out_method=np.zeros(count, np.int8),
        group_lag=_group_lag(reading),
        partition_flags=flags,
        size_delta=np.zeros(replicas, np.int64),
        size_delta_known=np.zeros(replicas, np.bool_),
        replica_flags=replica_flags,
        memory=Memory(
            state=state,
            at=reading.at,
            monotonic=reading.monotonic,
            seen=np.where(known, reading.monotonic, np.nan),
            end=reading.end,
            start=reading.start,
            leader=state.leader,
            size=state.size_bytes,
            committed=dict(reading.committed or {}),
            bytes_per_message=_mean_message(reading, leading),
        ),
    )


def _mean_message(reading: Reading, leading: Int64) -> Float64:
    """Return size over messages held: a first guess, before any clean interval has been seen."""
    held = (reading.end - reading.start).astype(np.float64)
    size = np.full(len(held), np.nan)
    led = leading >= 0
    size[led] = reading.state.size_bytes[leading[led]]
    usable = (reading.end >= 0) & (reading.start >= 0) & (held > 0) & (size > 0)
    return np.where(usable, size / np.where(usable, held, 1), np.nan)


def _inward(
    messages: Int64, change: Int64, clean: Bool, known: Bool, per_message: Float64
) -> tuple[Float64, Int8]:
    method = np.zeros(len(messages), np.int8)
    value = np.full(len(messages), np.nan)
    quiet = known & (messages == 0)
    value[quiet] = 0.0
    guessed = known & ~np.isnan(per_message)
    value[guessed] = messages[guessed] * per_message[guessed]
    method[quiet | guessed] = Method.BYTES_PER_MESSAGE
    value[clean] = change[clean]
    method[clean] = Method.CLEAN_SIZE
    return value, method


def _learned(per_message: Float64, messages: Int64, change: Int64, clean: Bool) -> Float64:
    usable = clean & (messages > 0) & (change > 0)
    newest = np.where(usable, change / np.where(usable, messages, 1), np.nan)
    mixed = np.where(
        np.isnan(per_message), newest, per_message + SMOOTHING * (newest - per_message)
    )
    return np.where(usable, mixed, per_message)


def _outward(
    reading: Reading,
    before: Memory,
    per_message: Float64,
    delta_known: Bool,
) -> tuple[Float64, Int8, Int64]:
    """Return consumed bytes, method and lag.

    A partition that no group reads carries 0 with method NONE: nobody is known to read it. Where
    a group rewound, that group is left out; where nothing else is known, the value is NaN.
    """
    count = len(reading.end)
    if reading.committed is None:
        unknown = np.full(count, np.nan)
        lag = np.full(count, UNKNOWN, np.int64)
        return unknown, np.zeros(count, np.int8), lag
    consumed, counted = np.zeros(count), np.zeros(count, np.bool_)
    readers = np.zeros(count, np.bool_)
    for group, offsets in reading.committed.items():
        earlier = before.committed.get(group)
        readers |= offsets >= 0
        if earlier is None:
            continue
        usable = (offsets >= 0) & (earlier >= 0) & (offsets >= earlier)
        consumed[usable] += (offsets - earlier)[usable]
        counted |= usable
    value = np.where(consumed > 0, consumed * per_message, 0.0)
    value[readers & ~counted] = np.nan
    value[~delta_known] = np.nan
    method = np.where(counted & ~np.isnan(value), int(Method.BYTES_PER_MESSAGE), 0).astype(np.int8)
    return value, method, _group_lag(reading)


def _committed(reading: Reading, before: Memory, newest: Bool) -> Mapping[str, Int64]:
    """Return the commits to measure the next interval against.

    They are as old as each partition's last known end offset, because its time counts from there;
    where groups could not be read they are not known.
    """
    out: dict[str, Int64] = {}
    for group, offsets in (reading.committed or {}).items():
        earlier = before.committed.get(group)
        out[group] = np.where(newest, offsets, UNKNOWN if earlier is None else earlier)
    return out


def _group_lag(reading: Reading) -> Int64:
    """Return how far the slowest group is behind, -1 where no group has committed."""
    lag = np.full(len(reading.end), UNKNOWN, np.int64)
    for offsets in (reading.committed or {}).values():
        usable = (offsets >= 0) & (reading.end >= 0)
        lag[usable] = np.maximum(lag[usable], np.maximum(0, (reading.end - offsets)[usable]))
    return lag


def _leader_replica(state: ClusterState) -> Int64:
    """Return for each partition the index of its leader's replica, -1 without a leader."""
    out = np.full(state.partition_count, UNKNOWN, np.int64)
    at = np.flatnonzero(state.is_leader)
    out[state.partition_of_replica[at]] = at
    return out


def _clock_stepped(reading: Reading, memory: Memory) -> bool:
    wall = (reading.at - memory.at).total_seconds()
    return abs(wall - (reading.monotonic - memory.monotonic)) > CLOCK_STEP_SECONDS


def _same_layout(old: ClusterState, new: ClusterState) -> bool:
    return (
        [topic.name for topic in old.topics] == [topic.name for topic in new.topics]
        and np.array_equal(old.topic_of, new.topic_of)
        and np.array_equal(old.partition, new.partition)
        and np.array_equal(old.replica_start, new.replica_start)
        and np.array_equal(old.replica_broker, new.replica_broker)
    )


def _recreated(old: ClusterState, new: ClusterState) -> Bool:
    """Return for each partition whether its topic's id is another than before."""
    before = {topic.name: topic.id for topic in old.topics}
    changed = np.array(
        [
            topic.id is not None
            and before.get(topic.name) is not None
            and before[topic.name] != topic.id
            for topic in new.topics
        ],
        np.bool_,
    )
    return changed[new.topic_of] if len(changed) else np.zeros(0, np.bool_)


def _laid(memory: Memory, state: ClusterState) -> Memory:
    """Return `memory` upon another layout: rows that are new are unknown."""
    old = memory.state
    offset = np.array([old.partitions_of(topic.name).start for topic in state.topics], np.int64)
    at = np.full(state.partition_count, UNKNOWN, np.int64)
    for t, topic in enumerate(state.topics):
        rows, was = state.partitions_of(topic.name), old.partitions_of(topic.name)
        if len(was) == 0:
            continue
        here = state.partition[rows.start : rows.stop]
        there = old.partition[was.start : was.stop]
        found = np.searchsorted(there, here)
        hit = (found < len(there)) & (there[np.minimum(found, len(there) - 1)] == here)
        at[rows.start : rows.stop] = np.where(hit, found + offset[t], UNKNOWN)
    size = np.full(state.replica_count, UNKNOWN, np.int64)
    old_keys = (old.partition_of_replica << 32) | old.replica_broker.astype(np.int64)
    order = np.argsort(old_keys, kind="stable")
    mapped = at[state.partition_of_replica]
    keys = (mapped << 32) | state.replica_broker.astype(np.int64)
    if len(order):
        found = np.minimum(np.searchsorted(old_keys[order], keys), len(order) - 1)
        same = (mapped >= 0) & (old_keys[order][found] == keys)
        size[same] = memory.size[order[found[same]]]
    return Memory(
        state=memory.state,
        at=memory.at,
        monotonic=memory.monotonic,
        seen=_picked(memory.seen, at, np.nan),
        end=_picked(memory.end, at, UNKNOWN),
        start=_picked(memory.start, at, UNKNOWN),
        leader=_picked(memory.leader, at, UNKNOWN),
        size=size,
        committed={
            group: _picked(offsets, at, UNKNOWN) for group, offsets in memory.committed.items()
        },
        bytes_per_message=_picked(memory.bytes_per_message, at, np.nan),
    )


def _picked(column: _A, at: Int64, unknown: float) -> _A:
    """Return `column[at]`, `unknown` where `at` is -1."""
    out = np.full(len(at), unknown, column.dtype)
    hit = at >= 0
    out[hit] = column[at[hit]]
    return out  # type: ignore[return-value]
