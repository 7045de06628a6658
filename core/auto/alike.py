"""Partitions of one topic that fill alike count as equal: chance does not decide what moves. Pure.

Sizes are of one moment, and up to half a minute old: logs that fill at the same rate are then a
batch, or a segment, apart. Rates of a few short intervals are as uncertain as these differ: where a
client or a broker stalls, partitions take turns. What is known better is hidden up to a part only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.cluster.state import Bool, ClusterState, frozen
from core.load.snapshot import Float64, Load

FILLED_SECONDS = 60.0
"""What is produced in so long may lie between sizes that are alike: young topics are no larger."""
UNSURE = 3.0
"""So many standard errors rates may be apart and be the same."""


def level_alike(state: ClusterState, load: Load, part: float) -> tuple[ClusterState, Load]:
    """Return both with the mean of its topic for every partition that is like most of them.

    That is one whose size and rate are within `part` (0 … 1) of its topic's medians, or differ by
    less than can be told. All of a topic's bytes and rates stay the same; what is not known is
    left so.
    """
    sizes = state.partition_size_bytes.astype(np.float64)
    produced, read = load.in_bytes_per_s, load.out_bytes_per_s
    topics, topic_of = len(state.topics), state.topic_of
    known = ~np.isnan(produced) & (sizes >= 0)
    if not known.any():
        return state, load
    usual = _medians(produced, topic_of, known, topics)
    error = UNSURE * _error(load, topic_of, known, topics)
    alike = known & _near(produced, usual, np.maximum(part * usual, error))
    size = _medians(sizes, topic_of, known, topics)
    alike &= _near(sizes, size, np.maximum(part * size, FILLED_SECONDS * (usual + error)))
    sent = alike & ~np.isnan(read)
    often = _medians(read, topic_of, sent, topics)
    sent &= _near(read, often, part * often)
    whole = _mean(sizes, topic_of, alike, topics)
    held = state.partition_of_replica
    even = np.where(state.size_bytes >= 0, np.rint(whole[held]), state.size_bytes)
    even = np.where(alike[held], even, state.size_bytes).astype(np.int64)
    return (
        replace(state, size_bytes=frozen(even)),
        replace(
            load,
            in_bytes_per_s=_mean(produced, topic_of, alike, topics),
            out_bytes_per_s=_mean(read, topic_of, sent, topics),
        ),
    )


def _error(load: Load, topic_of: np.ndarray, known: Bool, topics: int) -> Float64:
    """Return the standard error of the rates of each partition's topic, [P]; 0 where none is told.

    Of all its partitions together: of three intervals one alone tells little.
    """
    error = load.in_error_bytes_per_s
    if error is None:
        return np.zeros(len(topic_of))
    squares = _mean(np.nan_to_num(error) ** 2, topic_of, known, topics)
    return np.sqrt(squares)


def _near(values: Float64, usual: Float64, most: Float64) -> Bool:
    return np.asarray(np.abs(values - usual) <= most, np.bool_)


def _medians(values: Float64, topic_of: np.ndarray, some: Bool, topics: int) -> Float64:
    """Return for every partition [P] its topic's (upper) median of some; NaN where there is none.

    It is a value that one of them has.
    """
    rows = np.flatnonzero(some)
    rows = rows[np.lexsort((values[rows], topic_of[rows]))]
    many = np.bincount(topic_of[rows], minlength=topics)
    first = np.cumsum(many) - many
    found = np.full(topics, np.nan)
    has = many > 0
    found[has] = values[rows[first[has] + many[has] // 2]]
    return np.asarray(found[topic_of])


def _mean(values: Float64, topic_of: np.ndarray, some: Bool, topics: int) -> Float64:
    """Return the values [P], of some the mean of their topic's."""
    many = np.maximum(np.bincount(topic_of[some], minlength=topics), 1)
    sums = np.bincount(topic_of[some], values[some], topics)
    return np.where(some, (sums / many)[topic_of], values)
