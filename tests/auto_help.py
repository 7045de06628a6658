"""What an autopilot sees in tests: two brokers, one of them hot, and a look that may be bent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from clusters import MB, NOON, cluster, load_of

from core.auto.history import Acted, History
from core.auto.observed import Observed, Sight, judged
from core.auto.settings import Mode, Settings
from core.cluster.state import ClusterState, TopicPartition
from core.load.snapshot import Load, Source

EAGER = Settings(mode=Mode.ACT, lasting_seconds=30, lasting_looks=3, cool_down_seconds=60)


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
    settings: Settings = EAGER,
    *,
    now: datetime = NOON,
    load: Load | None = None,
    good: float = 1.0,
    looks: int = 1,
    **changes: object,
) -> Observed:
    """Return one look at a cluster, with its load as of now unless one is given."""
    load = load or loaded(state, as_of=now)
    found = Observed(
        now=now,
        state=state,
        reassignments={},
        sight=Sight(f"s-{load.as_of}", load, good, looks),
        imbalance=judged(settings, state, load),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def lasted(
    settings: Settings, observed: Observed, history: History | None = None, *, seconds: float = 60
) -> History:
    """Return what is remembered when it has looked like this for so long, three looks."""
    history = history or History()
    for part in (1.0, 0.5, 0.0):
        now = observed.now - timedelta(seconds=seconds * part)
        sight = observed.sight
        if sight is not None:
            as_of = sight.load.as_of and sight.load.as_of - timedelta(seconds=seconds * part)
            sight = replace(sight, id=f"s-{as_of}", load=replace(sight.load, as_of=as_of))
        history = history.seeing(settings, replace(observed, now=now, sight=sight))
    return history


def acted(
    at: datetime,
    moved: Sequence[TopicPartition] = (),
    *,
    bytes: float = 0.0,
    ended_at: datetime | None = None,
) -> Acted:
    return Acted(at, f"run-{at:%H%M%S}", frozenset(moved), bytes, ended_at)
