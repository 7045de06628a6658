"""What an autopilot observes, as values, and how uneven the cluster is. Pure.

Sizes are of one moment, and up to half a minute old: logs that fill at the same rate are then a
batch, or a segment, apart. Rates of a few short intervals are as uncertain as these differ: where a
client or a broker stalls, partitions take turns. What is known better is hidden up to a part only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from core.autopilot.settings import AutopilotSettings
from core.cluster.capacity import UNKNOWN_CAPACITY, Capacity
from core.cluster.leaders import partition_rows, preferred_elections
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import Bool, ClusterState, read_only
from core.load.load import Float64, Load, Source
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.plan import Plan
from core.plan.planner.evenness import Evenness, evenness, select_elections
from core.plan.planner.model.measures import Measure

FILLED_SECONDS = 60.0
"""What is produced in so long may lie between sizes that are alike: young topics are no larger."""
MAX_STANDARD_ERRORS = 3.0
"""So many standard errors rates may be apart and be the same."""


def level_similar(state: ClusterState, load: Load, part: float) -> tuple[ClusterState, Load]:
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
    error = np.zeros(len(topic_of))
    if load.in_error_bytes_per_s is not None:
        # Of all partitions of a topic together: of three intervals one alone tells little.
        squares = np.nan_to_num(load.in_error_bytes_per_s) ** 2
        error = MAX_STANDARD_ERRORS * np.sqrt(_mean(squares, topic_of, known, topics))
    alike = known & _is_near(produced, usual, np.maximum(part * usual, error))
    size = _medians(sizes, topic_of, known, topics)
    alike &= _is_near(sizes, size, np.maximum(part * size, FILLED_SECONDS * (usual + error)))
    sent = alike & ~np.isnan(read)
    often = _medians(read, topic_of, sent, topics)
    sent &= _is_near(read, often, part * often)
    whole = _mean(sizes, topic_of, alike, topics)
    held = state.partition_of_replica
    even = np.where(state.size_bytes >= 0, np.rint(whole[held]), state.size_bytes)
    even = np.where(alike[held], even, state.size_bytes).astype(np.int64)
    return (
        replace(state, size_bytes=read_only(even)),
        replace(
            load,
            in_bytes_per_s=_mean(produced, topic_of, alike, topics),
            out_bytes_per_s=_mean(read, topic_of, sent, topics),
        ),
    )


def _is_near(values: Float64, usual: Float64, max_distance: Float64) -> Bool:
    return np.asarray(np.abs(values - usual) <= max_distance, np.bool_)


def _medians(values: Float64, topic_of: np.ndarray, mask: Bool, topics: int) -> Float64:
    """Return for every partition [P] its topic's (upper) median of some; NaN where there is none.

    It is a value that one of them has.
    """
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((values[rows], topic_of[rows]))]
    many = np.bincount(topic_of[rows], minlength=topics)
    first = np.cumsum(many) - many
    medians = np.full(topics, np.nan)
    has = many > 0
    medians[has] = values[rows[first[has] + many[has] // 2]]
    return np.asarray(medians[topic_of])


def _mean(values: Float64, topic_of: np.ndarray, mask: Bool, topics: int) -> Float64:
    """Return the values [P], of some the mean of their topic's."""
    many = np.maximum(np.bincount(topic_of[mask], minlength=topics), 1)
    sums = np.bincount(topic_of[mask], values[mask], topics)
    return np.where(mask, (sums / many)[topic_of], values)


MIN_GAIN = 0.01
"""Shares that whatever is done must bring into the band to be any help."""


class BrokerMeasure(NamedTuple):
    """A broker by its id, and what it carries too much or too little of.

    `by_leader` counts leaders as they are, not as they should be: a placement's preferred.
    """

    broker: int
    measure: Measure
    by_leader: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class LoadView:
    """The load as it is judged; `load` says from where and when it is."""

    id: str
    """Of its snapshot: two looks at the same one are one."""
    load: Load
    good: float
    """The part of partitions whose load is known well enough, 0 … 1."""
    intervals: int = 1
    """How many intervals of the collector's it is the mean of; 1 for a window of Spark's."""
    usual: Callable[[], Load | None] = lambda: None
    """Returns the mean of the day until then, where that is known well enough, too."""

    @property
    def words(self) -> str:
        """Return what a decision by it says of it; "" for a window of Spark's."""
        live = self.load.source is Source.LIVE
        return f" (by {self.intervals} of the collector's intervals)" if live else ""


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How far from their fair shares brokers are."""

    outside: frozenset[BrokerMeasure]
    """Those outside the band that a run is worth."""
    worst: BrokerMeasure | None
    share: float
    """What the worst carries, 1 is even."""
    skew: Mapping[Measure, float] = field(default_factory=dict)
    """What the fullest broker carries, by measure, as far as that is known; 1 is even."""

    @property
    def words(self) -> str:
        if self.worst is None:
            return "nothing is known"
        broker, measure, by_leader = self.worst
        by = " as partitions are led now" if by_leader else ""
        return f"broker {broker} is at {self.share:.0%} of its fair share of {measure.words}{by}"

    @property
    def sentence(self) -> str:
        """Return the words as a sentence begins."""
        return self.words[:1].upper() + self.words[1:]


@dataclass(frozen=True, eq=False, slots=True)
class Observation:
    """One look: the cluster, its load, and who else works on it."""

    now: datetime
    state: ClusterState
    reassignments: Mapping[TopicPartition, Reassignment]
    load_view: LoadView | None = None
    imbalance: Imbalance | None = None
    """By the sight's load and preferred leaders; None without a load."""
    leader_imbalance: Imbalance | None = None
    """By who leads now; None without a load, and where no election would change that."""
    returns_every_seconds: float | None = None
    """How often brokers give leaders back by themselves; None where they do not, or not asked."""
    running: tuple[str, ...] = ()
    """Runs of this machine in progress."""
    died: tuple[str, ...] = ()
    """Runs of this machine whose process died in the middle of its work."""
    unreadable: tuple[str, ...] = ()
    """In words, what is wrong with journals of this machine that cannot be read."""
    run_ended_at: datetime | None = None
    """When a run of this machine ended last."""
    capacity: Capacity = UNKNOWN_CAPACITY
    """What brokers can carry, as it is laid onto them."""
    read_only: bool = False
    """Whether config.toml marks the cluster, which nothing overrides."""
    config_error: str = ""
    """Why it cannot be read now, in a sentence."""
    known: Calibration = NOTHING_LEARNED
    """What runs of this machine teach about how long another takes."""


def placement_imbalance(settings: AutopilotSettings, state: ClusterState, load: Load) -> Imbalance:
    """Return how uneven brokers are that should carry their share."""
    return imbalance_of(settings, evenness(*level_similar(state, load, settings.alike), Plan()))


def leader_imbalance(
    settings: AutopilotSettings, state: ClusterState, load: Load
) -> Imbalance | None:
    """Return how uneven leaders are as they are now; None where no election would change that."""
    elections = preferred_elections(state, partition_rows(state, None))
    if all(election.obstacle for election in elections):
        return None
    level = level_similar(state, load, settings.alike)
    _, even = select_elections(*level, partition_rows(state, ()), 0)
    return imbalance_of(settings, even, by_leader=True)


def imbalance_of(
    settings: AutopilotSettings, even: Evenness, *, after: bool = False, by_leader: bool = False
) -> Imbalance:
    """Return how uneven brokers are now, or `after` what `even` is of."""
    loads = even.after if after else even.before
    rows, columns = np.nonzero(is_outside(settings, even.off(loads)))
    outside = frozenset(
        BrokerMeasure(even.brokers[row], even.measures[column], by_leader)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    furthest = even.furthest(loads)
    if furthest is None:
        return Imbalance(outside, None, 1.0)
    row, measure = furthest
    worst = BrokerMeasure(even.brokers[row], measure, by_leader)
    fullest = loads[even.counts].max(axis=0)
    skew = {measure: float(fullest[measure]) for measure in even.measures}
    return Imbalance(outside, worst, float(loads[row, measure]), skew)


def is_outside(settings: AutopilotSettings, off: Float64) -> Bool:
    """Return who is far enough from its share for a run; the shape of `off`, in fair shares."""
    return off > settings.start_band + 1e-9


def gained_shares(even: Evenness, band: float) -> float:
    """Return how many fair shares come into a band, over all brokers and measures."""
    before, after = (
        float(np.maximum(even.off(loads) - band, 0.0).sum()) for loads in (even.before, even.after)
    )
    return before - after
