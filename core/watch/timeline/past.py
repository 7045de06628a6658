"""The cluster as it was at a moment, for all that shows the past."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from core import paths
from core.cluster.metadata import UNKNOWN
from core.cluster.state import ClusterState, read_only
from core.errors import UsageError
from core.watch.timeline.coverage import find_gaps
from core.watch.timeline.store import Timeline


@dataclass(frozen=True, eq=False, slots=True)
class RecordedState:
    """The cluster as it was at a moment; sizes are not recorded."""

    state: ClusterState
    observed_at: datetime
    """The moment itself; earlier where nobody looked then, and the cluster may have changed."""


def read_state(cluster_id: str, moment: datetime) -> RecordedState | None:
    """Return the cluster as it was; None where it had not been recorded by then.

    Raises TimelineError for a damaged file.
    """
    try:
        opened = Timeline.read(paths.timeline_file(cluster_id))
    except UsageError:  # nothing is there
        return None
    with closing(opened) as timeline, timeline.as_of_now():
        state = timeline.state_at(moment)
        if state is None:
            return None
        gaps = find_gaps(timeline, moment, moment, max(moment, datetime.now(UTC)))
        return RecordedState(state, gaps[0].began if gaps else moment)


def as_placed(now: ClusterState, moment: datetime) -> ClusterState:
    """Return the replicas and leaders of `now`, for the load of a moment that was not recorded.

    What else is known of now (sizes, ISRs, who is down, what moves) is left out: it was not so.
    """
    unknown = read_only(np.full(now.replica_count, UNKNOWN, np.int64))
    none = read_only(np.zeros(now.replica_count, np.bool_))
    return replace(
        now,
        fetched_at=moment,
        brokers=tuple(replace(broker, alive=True, log_dirs=()) for broker in now.brokers),
        in_sync=read_only(np.ones(now.replica_count, np.bool_)),
        adding=none,
        removing=none,
        size_bytes=unknown,
        lag=unknown,
        future_replicas=(),
    )
