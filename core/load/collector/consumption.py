"""What consumer groups read in an interval, from what they committed; pure.

Only the commits are seen. A group that goes back is left out, and so is one that jumps forward;
what one reads whose coordinator is away is unknown until it is back, and then counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN
from core.cluster.state import Bool, Int64
from core.load.collector.reading import CollectorMemory, Commits, Reading
from core.load.load import Float64
from core.load.samples import Method

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
        usable &= ~_is_too_soon(reading, before, earlier)
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
    before: CollectorMemory | None,
    known: Bool,
    replaced: Bool,
) -> Mapping[str, Commits]:
    """Return the commits to measure the next interval against.

    They are as old as each partition's last known end offset, because its time counts from there,
    and as the last that was told of the group.
    """
    out: dict[str, Commits] = {}
    if before is not None:
        out = {group: before.commits[group] for group in missing_groups(reading, before)}
    for group, offsets in reading.committed.items():
        earlier = None if before is None else before.commits.get(group)
        if before is None or earlier is None:
            earlier = Commits(
                np.full_like(offsets, UNKNOWN), np.full(len(offsets), np.nan), reading.end
            )
            newest = known | replaced
        else:
            newest = known & ~_is_too_soon(reading, before, earlier) | replaced
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


def _is_too_soon(reading: Reading, before: CollectorMemory, earlier: Commits) -> Bool:
    """Return where commits were told so soon after the earlier ones that they tell no rate.

    Groups commit every few seconds. So it is when a poll that has waited is followed at once.
    """
    soon: Bool = (
        2 * (reading.committed_at - earlier.read_at) <= reading.monotonic - before.observed_at
    )
    return soon


def max_group_lag(reading: Reading) -> Int64:
    """Return how far the slowest group is behind, -1 where no group has committed."""
    lag = np.full(len(reading.end), UNKNOWN, np.int64)
    for offsets in reading.committed.values():
        usable = (offsets >= 0) & (reading.end >= 0)
        lag[usable] = np.maximum(lag[usable], np.maximum(0, (reading.end - offsets)[usable]))
    return lag
