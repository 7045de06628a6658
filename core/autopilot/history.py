"""An autopilot's history: its actions, how long conditions have lasted, the last controller change.

A value; each look makes the next one. What must outlive its process is in the decision log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.autopilot.observation import BrokerMeasure, Imbalance, LoadView, Observation
from core.autopilot.settings import AutopilotSettings
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState

MOVE_COOL_DOWN = timedelta(days=1)
"""How long a partition that was moved is left where it is."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PastAction:
    """One run, or election, of the autopilot's; `ended_at` is None while it is in progress.

    `run` is "" while it is being started, only the decision is known then, and of an election.
    """

    at: datetime
    run: str
    moved: frozenset[TopicPartition]
    bytes: float
    ended_at: datetime | None = None
    elected: frozenset[TopicPartition] = frozenset()
    """Partitions that an election gave back; they do not rest: no replica of theirs has moved."""

    def reaches(self, since: datetime, now: datetime) -> bool:
        """Return whether some of it can have been done after `since`."""
        return (self.ended_at or now) > since


@dataclass(frozen=True, slots=True)
class ImbalanceSpan:
    """For how long one broker has been outside by one measure, in every snapshot."""

    since: datetime
    until: datetime
    snapshots: int

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """What is remembered before a decision; `seeing` takes a look in."""

    acts: tuple[PastAction, ...] = ()
    lasting: Mapping[BrokerMeasure, ImbalanceSpan] = field(default_factory=dict)
    last_load_id: str | None = None
    last_as_of: datetime | None = None
    controller: int | None = None
    controller_since: datetime | None = None
    """When the controller was seen to change, or missing last; None when it never was."""
    failed_at: datetime | None = None
    """When a run could not be started, last."""

    def seeing(self, settings: AutopilotSettings, observed: Observation) -> DecisionHistory:
        """Return what is remembered after one look more."""
        after = self._until(observed.now)._with_controller(observed)
        since = observed.now - max(MOVE_COOL_DOWN, HOUR)
        kept = tuple(act for act in after.acts if act.reaches(since, observed.now))
        return replace(after, acts=kept)._with_load(settings, observed)

    def _until(self, now: datetime) -> DecisionHistory:
        """Return the same with nothing later than `now`: a clock that was ahead has been set back.

        What it stamped was before now, nobody knows how long: it is waited for as if it were now.
        """

        def past(at: datetime | None) -> datetime | None:
            return None if at is None else min(at, now)

        acts = (replace(a, at=min(a.at, now), ended_at=past(a.ended_at)) for a in self.acts)
        since, failed_at = past(self.controller_since), past(self.failed_at)
        return replace(self, acts=tuple(acts), controller_since=since, failed_at=failed_at)

    def _with_controller(self, observed: Observation) -> DecisionHistory:
        controller = observed.state.controller
        if controller is None:  # whichever comes next is a new one
            return replace(self, controller=None, controller_since=observed.now)
        if controller == self.controller:
            return self
        first = self.controller is None and self.controller_since is None
        since = None if first else observed.now
        return replace(self, controller=controller, controller_since=since)

    def _with_load(self, settings: AutopilotSettings, observed: Observation) -> DecisionHistory:
        load_view, imbalance = observed.load_view, observed.imbalance
        if load_view is None or imbalance is None or load_view.load.as_of is None:
            return replace(self, lasting={}, last_load_id=None, last_as_of=None)
        if load_view.id == self.last_load_id:
            return self
        as_of, last = load_view.load.as_of, self.last_as_of
        gap = last is not None and (as_of - last).total_seconds() > settings.stale_seconds
        anew = gap or (last is not None and as_of <= last)
        by_leader = observed.leader_imbalance
        outside = imbalance.outside | (by_leader.outside if by_leader else frozenset())
        lasting = _extend_spans({} if anew else self.lasting, outside, as_of)
        return replace(self, lasting=lasting, last_load_id=load_view.id, last_as_of=as_of)

    def acting(self, act: PastAction) -> DecisionHistory:
        """Return what is remembered once a run has been started, or leaders were elected."""
        after = replace(self, acts=(*self.acts, act))
        # What lasted before an election is over.
        return replace(after, lasting={}) if act.elected else after

    def failing(self, at: datetime) -> DecisionHistory:
        """Return what is remembered once something could not be done."""
        return replace(self, failed_at=at, lasting={})

    @property
    def is_starting_run(self) -> bool:
        """Return whether the run of what was decided last is not known (yet)."""
        return bool(self.acts) and not (self.acts[-1].run or self.acts[-1].elected)

    def ending(self, run: str, at: datetime, moved_bytes: float) -> DecisionHistory:
        """Return what is remembered once a run has ended; it may have copied more than planned.

        What lasted before it says nothing of how brokers are now.
        """
        acts = tuple(
            replace(act, ended_at=at, bytes=max(act.bytes, moved_bytes)) if act.run == run else act
            for act in self.acts
        )
        return replace(self, acts=acts, lasting={})

    def spent(self, now: datetime) -> tuple[float, int]:
        """Return the bytes, and the moves and elections, of all that can lie in the last hour.

        All of a run that reaches into it is counted: then no hour, wherever it begins, has more
        than the budget.
        """
        acts = [act for act in self.acts if act.reaches(now - HOUR, now)]
        moves = sum(len(act.moved) + len(act.elected) for act in acts)
        return sum(act.bytes for act in acts), moves

    def backing_off(self, now: datetime) -> frozenset[TopicPartition]:
        """Return the partitions that were moved within a day."""
        acts = [act for act in self.acts if act.reaches(now - MOVE_COOL_DOWN, now)]
        return frozenset(tp for act in acts for tp in act.moved)


@dataclass(frozen=True, eq=False, slots=True)
class Situation:
    """What a decision is made of: the settings, what is remembered, and one look at the cluster."""

    settings: AutopilotSettings
    history: DecisionHistory
    observed: Observation

    @property
    def state(self) -> ClusterState:
        return self.observed.state

    @property
    def now(self) -> datetime:
        return self.observed.now

    @property
    def load_view(self) -> LoadView:
        """Return the load of a look that has one."""
        assert self.observed.load_view is not None
        return self.observed.load_view

    @property
    def imbalance(self) -> Imbalance:
        """Return how uneven brokers are, by a look that has a load."""
        assert self.observed.imbalance is not None
        return self.observed.imbalance

    @property
    def imbalance_lasts(self) -> bool:
        """Return whether one and the same broker has been outside for as long as a run is worth."""
        return self._is_lasting(self.observed.imbalance)

    @property
    def leader_imbalance_lasts(self) -> bool:
        """Return the same by who leads now."""
        return self._is_lasting(self.observed.leader_imbalance)

    def _is_lasting(self, imbalance: Imbalance | None) -> bool:
        # Who is outside may have changed by the same snapshot, as leaders and sizes do.
        spans, outside = self.history.lasting, imbalance.outside if imbalance else ()
        spans_outside = (spans[place] for place in outside if place in spans)
        return any(
            span.seconds >= self.settings.min_imbalance_seconds
            and span.snapshots >= self.settings.min_snapshots
            for span in spans_outside
        )


def _extend_spans(
    before: Mapping[BrokerMeasure, ImbalanceSpan], outside: Iterable[BrokerMeasure], as_of: datetime
) -> dict[BrokerMeasure, ImbalanceSpan]:
    """Return for how long each that is outside has been, by one snapshot more."""
    return {
        place: ImbalanceSpan(old.since, as_of, old.snapshots + 1)
        if (old := before.get(place))
        else ImbalanceSpan(as_of, as_of, 1)
        for place in outside
    }
