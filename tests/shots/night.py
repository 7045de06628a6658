"""The recorded night in the pictures: a broker dies, stays away for minutes, and comes back."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.cluster.simulation.cluster import SimulatedCluster

DEAD_BROKER = 5
LOOK_SECONDS = 5.0
QUIET_SECONDS, AWAY_SECONDS, AFTERWARDS_SECONDS = 40.0, 80.0, 160.0
DELETED = "emails"


@cache
def recorded_night(seed: int) -> tuple[SimulatedCluster, bytes]:
    """Return the cluster after that night, to look at only, and the timeline's file of it.

    It is lived through once, however many pictures show it.
    """
    from core import paths
    from core.cluster.simulation.cluster import SimulatedCluster
    from core.cluster.simulation.demo import demo_spec

    cluster = SimulatedCluster(demo_spec(seed), seed)
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as home:
        os.environ["TRIMTAB_HOME"] = home
        record_death(cluster)
        return cluster, paths.timeline_file(cluster.describe_cluster().cluster_id).read_bytes()


def record_death(cluster: SimulatedCluster) -> None:
    """Let the cluster live for some minutes with a recorder beside it."""
    from core import paths
    from core.cluster.metadata import TopicPartition
    from core.watch.timeline.recorder import Recorder
    from core.watch.timeline.store import Timeline

    timeline = Timeline.write(paths.timeline_file(cluster.describe_cluster().cluster_id))
    recorder = Recorder(cluster, cluster.clock, timeline)

    def live(seconds: float) -> None:
        until = cluster.elapsed_seconds + seconds
        while cluster.elapsed_seconds < until:
            recorder.look()
            cluster.clock.sleep(LOOK_SECONDS)

    live(QUIET_SECONDS)
    state = cluster.describe_cluster()
    moved = next(tp for tp in map(state.tp, range(state.partition_count)) if tp.topic == "audit")
    replicas = state.replicas(state.find(moved) or 0)
    other = next(b for b in state.broker_by_id if b not in replicas and b != DEAD_BROKER)
    cluster.alter_reassignments({TopicPartition(*moved): (other, *replicas[1:])})
    live(QUIET_SECONDS)
    cluster.stop_broker(DEAD_BROKER)
    live(AWAY_SECONDS)
    cluster.start_broker(DEAD_BROKER)
    live(AFTERWARDS_SECONDS / 2)
    cluster.delete_topic(DELETED)
    live(AFTERWARDS_SECONDS / 2)
    recorder.look()
    timeline.close()
