"""What happens in the pictures: a run carried out so far, and a night in which a broker dies."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from enum import Enum
from functools import cache

from core import paths
from core.cluster.configs import FOLLOWER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.connect import Address
from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.load.load import Load
from core.plan.checks.catalogue import Severity
from core.plan.checks.drop import check_drop
from core.plan.plan import Plan
from core.run.engine.executor import Executor
from core.run.journal.replay import fold
from core.run.options import RunOptions, create_journal
from core.run.reporting.progress import run_view
from core.run.reporting.runs import RunReading
from core.watch.timeline.recorder import Recorder
from core.watch.timeline.store import Timeline

MOVES, LEAST_BYTES = 8, 2_000_000_000
RUN_RATE, FOREIGN_RATE = 100_000_000, 5_000_000
SLOW_MOVE, SLOW_BROKER, DEAD_BROKER = 3, 5, 6
SECONDS, PAUSED_SECONDS = 90.0, 45.0
ASKER = {"who": "ana", "host": "ops-1", "from": "ssh 10.0.4.7"}


class Stage(Enum):
    """When the run is looked at."""

    GOING = "going"
    PAUSED = "paused"
    """A destination has gone down, it is paused, and a request waits."""
    DONE = "done"


def run_at(cluster: SimulatedCluster, stage: Stage) -> RunReading:
    """Carry the plan out up to a stage; return the journal as it is then.

    It takes the smallest replicas of broker 7 to its rack, in two batches, while somebody else's
    quota holds one destination back.
    """
    slow = ConfigChange(
        Resource.broker(SLOW_BROKER), FOLLOWER_RATE, ConfigOp.SET, str(FOREIGN_RATE)
    )
    cluster.alter_configs([slow])
    plan = _plan(cluster)
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as home:
        os.environ["TRIMTAB_HOME"] = home
        options = RunOptions(RUN_RATE, cluster_name="prod-eu", batch_size=MOVES - 2)
        address, cluster_id = Address("sim:pictures"), cluster.describe_cluster().cluster_id
        journal = create_journal(address, cluster_id, plan, options, None, at=cluster.now)
        runner = Executor(journal, cluster, cluster.clock)
        begun = cluster.elapsed_seconds

        def until(seconds: float) -> None:
            while cluster.elapsed_seconds < begun + seconds and runner.state.ended is None:
                runner.advance()

        match stage:
            case Stage.GOING:
                until(SECONDS)
            case Stage.PAUSED:
                until(PAUSED_SECONDS)
                cluster.stop_broker(DEAD_BROKER)
                journal.ask(cluster.now, "pause", {"floor": False, **ASKER})
                until(SECONDS)
                last = len(plan) - 1
                journal.ask(cluster.now, "skip", {"moves": [last], **ASKER})
            case Stage.DONE:
                until(float("inf"))
        first, *others = journal.records()
        records = (replace(first, payload={**first.payload, **ASKER}), *others)
        history = fold(records)
        pending = journal.requests(history.last_request)
        view = run_view(records, journal.samples(), living=True, pending=pending)
        journal.close()
    return RunReading(view, records, history)


def _plan(cluster: SimulatedCluster) -> Plan:
    state = cluster.describe_cluster()
    state = with_log_dirs(state, cluster.describe_log_dirs([broker.id for broker in state.brokers]))
    plan = Plan(state.cluster_id)
    for row in state.partition_size_bytes.argsort(kind="stable").tolist():
        tp, target = state.tp(row), SLOW_BROKER if len(plan) == SLOW_MOVE else DEAD_BROKER
        if 7 not in state.replicas(row) or state.partition_size_bytes[row] < LEAST_BYTES:
            continue
        finding = check_drop(state, Load.unknown(state), plan, tp, 7, target)
        if finding is None or finding.severity < Severity.UNSAFE:
            plan = plan.with_move(state, tp, 7, target)
        if len(plan) == MOVES:
            break
    return plan


# -- the night -------------------------------------------------------------------------------------

KILLED_BROKER = 5
LOOK_SECONDS = 5.0
QUIET_SECONDS, AWAY_SECONDS, AFTERWARDS_SECONDS = 40.0, 80.0, 160.0
DELETED = "emails"


@cache
def recorded_night(seed: int) -> tuple[SimulatedCluster, bytes]:
    """Return the cluster after that night, to look at only, and the timeline's file of it.

    It is lived through once, however many pictures show it.
    """
    cluster = SimulatedCluster(demo_spec(seed), seed)
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as home:
        os.environ["TRIMTAB_HOME"] = home
        record_death(cluster)
        return cluster, paths.timeline_file(cluster.describe_cluster().cluster_id).read_bytes()


def record_death(cluster: SimulatedCluster) -> None:
    """Let the cluster live for some minutes with a recorder beside it."""
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
    other = next(b for b in state.broker_by_id if b not in replicas and b != KILLED_BROKER)
    cluster.alter_reassignments({TopicPartition(*moved): (other, *replicas[1:])})
    live(QUIET_SECONDS)
    cluster.stop_broker(KILLED_BROKER)
    live(AWAY_SECONDS)
    cluster.start_broker(KILLED_BROKER)
    live(AFTERWARDS_SECONDS / 2)
    cluster.delete_topic(DELETED)
    live(AFTERWARDS_SECONDS / 2)
    recorder.look()
    timeline.close()
