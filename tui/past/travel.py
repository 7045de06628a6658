"""Takes screens to a moment of the past, and back: it is read in a thread, then shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from core.errors import DocumentError, TrimtabError
from tui.screen.base import DashboardScreen
from tui.session import PastMoment

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.load.snapshot.kept import Kept, KeptSnapshot

SLOW_SECONDS = 0.5
"""An object store may take longer: then it is said that something is being read."""
READING = "Reading what was published …"
LIST_KEPT = "`trimtab snapshot ls` lists what is kept."
NOT_OBSERVED = "The cluster had not been seen yet then."
NO_HOURS = "No load has been published for this cluster yet."
OLDEST = "This is the oldest hour that is kept."


@dataclass(frozen=True, slots=True)
class HourSteps:
    """So many hours on from a kept hour, key by key; `since` None is now, no steps is that hour."""

    since: datetime | None
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Arrival:
    """What was found: a moment, or with neither `error` nor `why_not` now."""

    moment: PastMoment | None
    kept: Kept | None
    error: TrimtabError | None = None
    why_not: str = ""
    """Why it stays at what is shown."""


class TimeTravel:
    """Reads a moment in a thread, and shows it unless its screen was left meanwhile."""

    def __init__(self, screen: DashboardScreen, arrived: Callable[[], None]) -> None:
        self._screen, self._arrived = screen, arrived
        self._pending: datetime | HourSteps | None = None
        """What was asked for last, until it is there; None while nothing is waited for."""

    @property
    def under_way(self) -> bool:
        return self._pending is not None

    @property
    def pending_at(self) -> datetime | None:
        """Return the moment that is waited for, if it is not a kept hour."""
        return self._pending if isinstance(self._pending, datetime) else None

    def go_to(self, moment: datetime) -> None:
        """Go to a moment, like that of something that happened."""
        self._go(moment)

    def go_to_hour(self, hour: KeptSnapshot) -> None:
        self._go(HourSteps(hour.published_at))

    def step_hours(self, steps: int) -> None:
        """Go to the hour that is so many later, or earlier, than what is shown or waited for."""
        then, pending = self._screen.dashboard.session.past_moment, self._pending
        if not isinstance(pending, HourSteps):
            pending = HourSteps(None if then is None else then.at)
        self._go(replace(pending, steps=(*pending.steps, steps)))

    def give_up(self) -> None:
        """Nobody waits for a moment any more."""
        self._pending = None

    def _go(self, destination: datetime | HourSteps) -> None:
        session = self._screen.dashboard.session
        now, snapshots, known = session.state, session.snapshots, session.kept
        if now is None:
            return
        self._pending = destination

        def work() -> Arrival:
            return read_moment(destination, now, snapshots, known)

        self._screen.run_in_thread("travel", work, lambda arrival: self._take(destination, arrival))
        self._screen.set_timer(SLOW_SECONDS, lambda: self._say_reading(destination))

    def _say_reading(self, destination: datetime | HourSteps) -> None:
        if self._pending == destination and self._screen.is_current:
            self._screen.say(READING)

    def _take(self, destination: datetime | HourSteps, arrival: Arrival) -> None:
        screen = self._screen
        if destination != self._pending or not screen.is_current:
            return  # what replaced a worker does not keep it from answering
        self._pending = None
        session = screen.dashboard.session
        session.kept = arrival.kept
        screen.clear_message()
        if arrival.error is not None:
            session.take_trouble(arrival.error)
            screen.say_error(arrival.error)
        elif arrival.why_not:
            screen.say(arrival.why_not, "look")
        if arrival.moment is not None or not (arrival.error or arrival.why_not):
            session.past_moment = arrival.moment
            self._arrived()


def read_moment(
    destination: datetime | HourSteps,
    now: ClusterState,
    snapshots: str | None,
    known: Kept | None,
) -> Arrival:
    """Return the cluster and its load as they were; `now` says how an hour is placed at least.

    Of what happened the cluster is shown without its load, too, of an hour the load without the
    cluster of then: what could be read comes with the error of what could not.
    """
    # Here, and not for the first paint, which needs neither timeline nor pyarrow.
    from core.load.load_paths import root_of
    from core.load.load_source import past_load
    from core.load.snapshot.kept import read_kept
    from core.load.snapshot.reader import read_snapshot
    from core.watch.timeline.past import as_placed, read_state

    kept, then = known, None
    try:
        if isinstance(destination, datetime):
            recorded = read_state(now.cluster_id, destination)
            if recorded is None:
                return Arrival(None, kept, why_not=NOT_OBSERVED)
            then = PastMoment(destination, recorded.state, observed_at=recorded.observed_at)
            root = root_of(snapshots)
            kept = read_kept(root, now.cluster_id, kept)
            load, snapshot = past_load(root, now.cluster_id, then.state, destination, kept)
            return Arrival(replace(then, load=load, snapshot=snapshot), kept)
        root = root_of(snapshots)
        kept = read_kept(root, now.cluster_id, kept)
        hour, why_not = find_hour(kept.hours, destination)
        if hour is None:
            return Arrival(None, kept, why_not=why_not)
        snapshot = read_snapshot(root, now.cluster_id, hour.snapshot_id)
        if snapshot is None:
            when = f"{hour.published_at:%-d %b %H:%M}Z"
            raise DocumentError(f"What was published at {when} is no longer kept.", next=LIST_KEPT)
        at = snapshot.published_at
        state = as_placed(now, at)
        then = PastMoment(at, state, snapshot.aligned(state), snapshot, by_hours=True)
        if (recorded := read_state(now.cluster_id, at)) is not None:
            state, observed_at = recorded.state, recorded.observed_at
            then = replace(then, state=state, load=snapshot.aligned(state), observed_at=observed_at)
        return Arrival(then, kept)
    except TrimtabError as error:
        return Arrival(then, kept, error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        why = f"What was published cannot be read: {place}{error.strerror or error}."
        return Arrival(then, kept, TrimtabError(why, next=LIST_KEPT))


def find_hour(
    hours: Sequence[KeptSnapshot], destination: HourSteps
) -> tuple[KeptSnapshot | None, str]:
    """Return the kept hour that steps lead to, or why there is none; None and "" is now."""
    from core.load.snapshot.kept import step_hours

    since, hour = destination.since, None
    if not destination.steps:
        hour = next((snapshot for snapshot in hours if snapshot.published_at == since), None)
        return hour, "" if hour else "That hour is no longer kept."
    for steps in destination.steps:
        hour = step_hours(hours, since, steps)
        since = None if hour is None else hour.published_at
    if hour is None and destination.steps[-1] < 0:
        return None, NO_HOURS
    if hour is not None and hour.published_at == destination.since:
        return None, OLDEST
    return hour, ""
