"""From two readings of a cluster to the samples of the interval between them; pure.

Only the collector knows why a series broke, so deltas and their reasons are made here. An interval
that cannot be trusted is censored (null), never clamped to zero. Of what groups read only the
commits are seen: a group that goes back or jumps forward is left out, and what one reads whose
coordinator is away is unknown until it is back, and then counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN
from core.cluster.state import Bool, Int32, Int64
from core.load.collector.reading import (
    CollectorMemory,
    Commits,
    Reading,
    empty_memory,
    has_same_layout,
    realign_memory,
    recreated_partitions,
)
from core.load.load import Float64
from core.load.samples import Flag, Method

MAX_CATCH_UP = 2
"""A group without members is taken for one that reads at up to so many times the inward rate."""


def estimate_out_bytes(
    reading: Reading,
    before: CollectorMemory,
    per_message: Float64,
    delta_known: Bool,
) -> tuple[Float64, npt.NDArray[np.int8], Bool]:
    """Return consumed bytes, method, and where a group's offsets were set and not read.

    A partition that no group reads carries 0 with method NONE: nobody is known to read it. Where
    a group went back or jumped, that group is left out; where nothing else is known, the value
    is NaN. So it is where a group reads that was not told of this time, and everywhere as long as
    not every coordinator has listed its groups once. One that nobody here has ever been told of,
    or that is hidden, may read anything: then no value is 0.
    """
    count = len(reading.end)
    jumped = np.zeros(count, np.bool_)
    if not (reading.listed or before.listed):
        return np.full(count, np.nan), np.zeros(count, np.int8), jumped
    consumed, counted = np.zeros(count), np.zeros(count, np.bool_)
    readers = np.zeros(count, np.bool_)
    dt = reading.monotonic - before.observed_at
    for group, offsets in reading.committed.items():
        readers |= offsets >= 0
        earlier = before.commits.get(group)
        if earlier is None:
            continue
        usable = (offsets >= 0) & (earlier.offsets >= 0) & (offsets >= earlier.offsets)
        usable &= ~_is_too_soon_for_rate(reading, before, earlier)
        # Told later than the ends; long after them when a broker that is away is waited for.
        took = reading.committed_at - earlier.read_at
        read = np.zeros(count)
        read[usable] = ((offsets - earlier.offsets) * dt)[usable] / took[usable]
        if group in reading.unattended or group in before.unattended:
            # Kafka refuses to reset a group that has members. Readers that assign themselves
            # their partitions have none either: what they commit is as much as came meanwhile.
            came = reading.end - earlier.moved
            far = usable & (read > MAX_CATCH_UP * np.maximum(came, 0))
            jumped |= far
            usable &= ~far
        consumed[usable] += read[usable]
        counted |= usable
    value = np.where(consumed > 0, consumed * per_message, 0.0)
    value[readers & ~counted] = np.nan
    if reading.hidden or reading.untold - before.commits.keys():
        value[consumed == 0] = np.nan
    for group in missing_groups(reading, before):
        value[before.commits[group].offsets >= 0] = np.nan
    value[~delta_known] = np.nan
    method = np.where(counted & ~np.isnan(value), int(Method.BYTES_PER_MESSAGE), 0).astype(np.int8)
    return value, method, jumped & delta_known


def merge_commits(
    reading: Reading,
    before: CollectorMemory,
    known: Bool,
    replaced: Bool,
) -> Mapping[str, Commits]:
    """Return the commits to measure the next interval against.

    They are as old as each partition's last known end offset, because its time counts from there,
    and as the last that was told of the group.
    """
    out = {group: before.commits[group] for group in missing_groups(reading, before)}
    for group, offsets in reading.committed.items():
        earlier = before.commits.get(group)
        if earlier is None:
            earlier = Commits(
                np.full_like(offsets, UNKNOWN), np.full(len(offsets), np.nan), reading.end
            )
            newest = known | replaced
        else:
            newest = known & ~_is_too_soon_for_rate(reading, before, earlier) | replaced
        same = (offsets == earlier.offsets) | (reading.end < 0)
        out[group] = Commits(
            np.where(newest, offsets, earlier.offsets),
            np.where(newest, reading.committed_at, earlier.read_at),
            np.where(same, earlier.moved, reading.end),
        )
    return out


def missing_groups(reading: Reading, before: CollectorMemory) -> set[str]:
    """Return groups that were there before and that this reading does not tell of.

    One that is missing from a list of all groups is gone.
    """
    missing = before.commits.keys() - reading.committed.keys()
    return missing & reading.untold if reading.listed else missing


def _is_too_soon_for_rate(reading: Reading, before: CollectorMemory, earlier: Commits) -> Bool:
    """Return where commits were told so soon after the earlier ones that they tell no rate.

    Groups commit every few seconds. So it is when a poll that has waited is followed at once.
    """
    seconds = reading.monotonic - before.observed_at
    return np.asarray(2 * (reading.committed_at - earlier.read_at) <= seconds, np.bool_)


def max_group_lag(reading: Reading) -> Int64:
    """Return how far the slowest group is behind, -1 where no group has committed."""
    lag = np.full(len(reading.end), UNKNOWN, np.int64)
    for offsets in reading.committed.values():
        usable = (offsets >= 0) & (reading.end >= 0)
        lag[usable] = np.maximum(lag[usable], np.maximum(0, (reading.end - offsets)[usable]))
    return lag


CLOCK_STEP_SECONDS = 2.0
MAX_SPAN_DIFFERENCE = 0.1
"""Offsets and sizes tell of the same interval when its lengths by each differ by no more of it."""
SMOOTHING = 0.3
"""Weight of the newest clean interval in the mean bytes per message."""

Int8 = npt.NDArray[np.int8]


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
    size_delta: Int64
    """[R], meaningful where `size_delta_known`; may be negative for nothing but bad input."""
    size_delta_known: Bool
    replica_flags: Int32
    memory: CollectorMemory = field(repr=False)


def measure_interval(reading: Reading, memory: CollectorMemory | None) -> Interval:
    """Return the samples of `reading`, and the memory to measure the next one against."""
    state = reading.state
    count = state.partition_count
    leading = np.full(count, UNKNOWN, np.int64)  # each partition's leader among the replicas
    leading[state.partition_of_replica[state.is_leader]] = np.flatnonzero(state.is_leader)
    if memory is None:
        memory = empty_memory(reading, _mean_message_size(reading, leading))
    last = memory.newest
    before = memory if has_same_layout(last.state, state) else realign_memory(memory, state)

    replaced = recreated_partitions(last.state, state)
    wall_seconds = (reading.at - last.at).total_seconds()
    stepped = abs(wall_seconds - (reading.monotonic - last.monotonic)) > CLOCK_STEP_SECONDS
    known = reading.end >= 0
    had = (before.end >= 0) & ~replaced
    truncated = known & had & (reading.end < before.end)
    has_new_leader = had & (before.leader != state.leader) & (before.leader >= 0)
    delta_known = known & had & ~truncated & (not stepped)
    dt = np.where(delta_known, reading.monotonic - before.observed_at, np.nan)
    messages = np.where(delta_known, reading.end - before.end, UNKNOWN)

    flags = np.zeros(count, np.int32)
    flags[~had & ~replaced] |= Flag.FIRST
    flags[replaced] |= Flag.RECREATED
    flags[truncated] |= Flag.TRUNCATED
    flags[has_new_leader] |= Flag.LEADER_CHANGED
    if stepped:
        flags |= np.int32(Flag.CLOCK_STEP)

    of = state.partition_of_replica
    # A leader's sizes and offsets share a row's time. They are of different ones where a partition
    # had no leader, and where a poll waited between the two for a broker that is away.
    together = np.abs(reading.sized - last.sized - dt) <= MAX_SPAN_DIFFERENCE * dt
    size_known = (state.size_bytes >= 0) & (before.size >= 0) & ~replaced[of] & (not stepped)
    size_known &= ~(state.is_leader & (delta_known & ~together)[of])
    change = np.where(size_known, state.size_bytes - before.size, 0)
    shrunk = size_known & (change < 0)
    size_known &= ~shrunk
    replica_flags = flags[of].copy()
    replica_flags[shrunk] |= Flag.SIZE_SHRUNK
    replica_flags[np.isin(state.replica_broker, list(reading.silent))] |= Flag.PARTIAL_POLL

    per_message = np.where(replaced, np.nan, before.bytes_per_message)
    has_leader = leading >= 0
    leader_change = np.zeros(count, np.int64)
    is_leader_clean = np.zeros(count, np.bool_)
    leader_change[has_leader] = change[leading[has_leader]]
    is_leader_clean[has_leader] = size_known[leading[has_leader]]
    compacted = np.array(
        ["compact" in (topic.cleanup_policy or "") for topic in state.topics], np.bool_
    )
    start_kept = (reading.start == before.start) & (reading.start >= 0)
    clean = (
        delta_known & is_leader_clean & ~has_new_leader & (start_kept | compacted[state.topic_of])
    )
    # Bytes without messages are the log's own doing (a compaction's copy) or of messages that came
    # between asking for offsets and for sizes; the next interval then has messages without bytes.
    clean &= together & ((messages > 0) == (leader_change > 0))
    in_bytes, in_method = _estimate_in_bytes(
        messages, leader_change, clean, delta_known, per_message
    )
    per_message = _update_message_size(per_message, messages, leader_change, clean)
    out_bytes, out_method, jumped = estimate_out_bytes(reading, before, per_message, delta_known)
    replica_flags[jumped[of] & state.is_leader] |= Flag.GROUP_JUMPED
    return Interval(
        reading=reading,
        dt_seconds=dt,
        messages=messages.astype(np.int64),
        in_bytes=in_bytes,
        in_method=in_method,
        out_bytes=out_bytes,
        out_method=out_method,
        group_lag=max_group_lag(reading),
        size_delta=change,
        size_delta_known=size_known,
        replica_flags=replica_flags,
        memory=CollectorMemory(
            newest=replace(reading, committed={}),
            observed_at=np.where(
                known, reading.monotonic, np.where(replaced, np.nan, before.observed_at)
            ),
            end=np.where(known, reading.end, np.where(replaced, UNKNOWN, before.end)),
            start=np.where(reading.start >= 0, reading.start, before.start),
            leader=np.where(state.leader >= 0, state.leader, before.leader),
            size=state.size_bytes,
            commits=merge_commits(reading, before, known, replaced),
            unattended=reading.unattended | (before.unattended & missing_groups(reading, before)),
            listed=reading.listed or before.listed,
            bytes_per_message=per_message,
        ),
    )


def _mean_message_size(reading: Reading, leading: Int64) -> Float64:
    """Return size over messages held: a first guess, before any clean interval has been seen."""
    held = (reading.end - reading.start).astype(np.float64)
    size = np.full(len(held), np.nan)
    has_leader = leading >= 0
    size[has_leader] = reading.state.size_bytes[leading[has_leader]]
    usable = (reading.end >= 0) & (reading.start >= 0) & (held > 0) & (size > 0)
    return np.where(usable, size / np.where(usable, held, 1), np.nan)


def _estimate_in_bytes(
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


def _update_message_size(
    per_message: Float64, messages: Int64, change: Int64, clean: Bool
) -> Float64:
    usable = clean & (messages > 0) & (change > 0)
    newest = np.where(usable, change / np.where(usable, messages, 1), np.nan)
    mixed = np.where(
        np.isnan(per_message), newest, per_message + SMOOTHING * (newest - per_message)
    )
    return np.where(usable, mixed, per_message)
