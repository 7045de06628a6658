"""What an autopilot sees in tests: two brokers, one of them hot, and a look that may be bent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from clusters import MB, NOON, cluster, load_of

from core.autopilot.decide import decide
from core.autopilot.decision import Act, Decision
from core.autopilot.history import DecisionHistory, PastAction
from core.autopilot.observation import LoadView, Observation, leader_imbalance, placement_imbalance
from core.autopilot.settings import AutopilotSettings, Mode
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.load.load import Load, Source
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.snapshot.writer import write_snapshot

EAGER = AutopilotSettings(
    mode=Mode.ACT, min_imbalance_seconds=30, min_snapshots=3, cool_down_seconds=60
)


def hot(brokers: Sequence[int] = (1, 2), partitions: int = 8) -> ClusterState:
    """Return a cluster whose last broker holds everything."""
    return steady(
        cluster(
            {f"t-{n}": [brokers[-1]] for n in range(partitions)}, brokers=brokers, size_bytes=MB
        )
    )


def steady(state: ClusterState) -> ClusterState:
    return replace(state, controller=1)


def loaded(
    state: ClusterState,
    rates: Mapping[str, float] | float = MB,
    *,
    as_of: datetime | None = NOON,
    source: Source = Source.SPARK,
) -> Load:
    return replace(load_of(state, rates), as_of=as_of, source=source)


def look(
    state: ClusterState,
    settings: AutopilotSettings = EAGER,
    *,
    now: datetime = NOON,
    load: Load | None = None,
    good: float = 1.0,
    poll_count: int = 1,
    usual: Load | None = None,
    **changes: object,
) -> Observation:
    """Return one look at a cluster, with its load as of now unless one is given."""
    load = load or loaded(state, as_of=now)
    observation = Observation(
        now=now,
        state=state,
        reassignments={},
        load_view=LoadView(f"s-{load.as_of}", load, good, poll_count, lambda: usual),
        imbalance=placement_imbalance(settings, state, load),
        leader_imbalance=leader_imbalance(settings, state, load),
    )
    return replace(observation, **changes)  # type: ignore[arg-type]


def lasted(
    settings: AutopilotSettings,
    observed: Observation,
    history: DecisionHistory | None = None,
    *,
    seconds: float = 60,
) -> DecisionHistory:
    """Return what is remembered when it has looked like this for so long, three looks."""
    history = history or DecisionHistory()
    for part in (1.0, 0.5, 0.0):
        now = observed.now - timedelta(seconds=seconds * part)
        load_view = observed.load_view
        if load_view is not None:
            as_of = load_view.load.as_of and load_view.load.as_of - timedelta(
                seconds=seconds * part
            )
            load_view = replace(
                load_view, id=f"s-{as_of}", load=replace(load_view.load, as_of=as_of)
            )
        history = history.seeing(settings, replace(observed, now=now, load_view=load_view))
    return history


def acted(
    at: datetime,
    moved: Sequence[TopicPartition] = (),
    *,
    bytes: float = 0.0,
    ended_at: datetime | None = None,
) -> PastAction:
    return PastAction(at, f"run-{at:%H%M%S}", frozenset(moved), bytes, ended_at)


def publish(root: Path, client: SimulatedCluster) -> None:
    """Publish a window of Spark's as of now, in which every partition takes 1 MB/s."""
    state = client.describe_cluster()
    count = state.partition_count
    snapshot = LoadSnapshot(
        cluster_id=state.cluster_id,
        snapshot_id="0001-00000001",
        source=Source.SPARK,
        published_at=client.clock.now(),
        window_end=client.clock.now(),
        topics=tuple(topic.name for topic in state.topics),
        topic_of=state.topic_of,
        partition=state.partition,
        rates={("5m", "in_bytes_per_s", "avg"): np.full(count, 1e6)},
        size_bytes=state.partition_size_bytes,
        growth_bytes_per_s=np.full(count, np.nan),
        quality=np.full(count, Quality.FULL, np.int8),
        method=np.zeros(count, np.int8),
    )
    write_snapshot(root, snapshot)


def decided(
    observed: Observation,
    settings: AutopilotSettings = EAGER,
    history: DecisionHistory | None = None,
) -> Decision:
    """Decide on what has lasted, with what was done before it."""
    before = history or DecisionHistory()
    remembered = replace(lasted(settings, observed), acts=before.acts, failed_at=before.failed_at)
    return decide(settings, remembered, observed)


def act_on(
    observed: Observation,
    settings: AutopilotSettings = EAGER,
    history: DecisionHistory | None = None,
) -> Act:
    """Decide where that must be to act."""
    decision = decided(observed, settings, history)
    assert isinstance(decision, Act)
    return decision


def ids(decision: Decision) -> list[str]:
    return [reason.id for reason in decision.reasons]
