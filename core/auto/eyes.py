"""An autopilot's eyes on one cluster: its state, its load, and the runs of this machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from core.auto.configured import Configured
from core.auto.decision import Reason
from core.auto.log import Entry, What
from core.auto.observed import Imbalance, Observed, judged, judged_as_led
from core.auto.settings import Settings
from core.auto.sights import Sights
from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.leaders import rebalance_settings, returns_every_seconds
from core.cluster.observer import CONFIGS_SECONDS, Observer
from core.cluster.state import ClusterState
from core.errors import UnreachableError
from core.run.journal.journal import journal_path
from core.run.reporting.runs import calibration, left_behind, list_runs, read_run, unreadable
from core.run.reporting.views import RunState
from core.units import format_bytes, format_duration


class ClusterEyes:
    """Sees a cluster through a client; `root` is where its load is published. For one thread.

    `configured` tells at each look what config.toml says by then.
    """

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        cluster_id: str,
        root: Path,
        configured: Callable[[], Configured] = Configured,
    ) -> None:
        self._client, self._clock, self._cluster_id = client, clock, cluster_id
        self._configured = configured
        self._observer = Observer(client, clock)
        self._sights = Sights(root, cluster_id)
        self._returns: float | None = None
        self._returns_due = float("-inf")
        self._ahead: dict[datetime, datetime] = {}
        """Ends of runs by a clock that has been set back since, and when they were first seen."""

    def look(self, settings: Settings) -> Observed:
        """Return one look; reassignments first, so that what has just ended is seen as it ended.

        Raises UnreachableError, AccessDeniedError, or JournalError.
        """
        reassignments = self._client.reassignments()
        configured = self._configured()
        state = configured.applied_to(self._observer.poll())
        if state.cluster_id != self._cluster_id:
            raise UnreachableError(
                f"This is cluster {state.cluster_id}, not {self._cluster_id}.",
                next="Its address has become another cluster's; turn this autopilot off.",
            )
        now = self._clock.now()
        sight = self._sights.look(state, now, settings.stale_seconds)
        runs = list_runs(self._cluster_id)
        ends = [self._end(run.ended_at, now) for run in runs if run.ended_at is not None]
        led = None if sight is None else judged_as_led(settings, state, sight.load)
        return Observed(
            now=now,
            state=state,
            capacity=configured.capacity,
            read_only=configured.forbids(state),
            config_unread=configured.unread,
            reassignments=reassignments,
            sight=sight,
            imbalance=None if sight is None else judged(settings, state, sight.load),
            led=led,
            returns_every_seconds=self._returns_every(state, led),
            running=tuple(run.run for run in runs if not run.state.ended),
            died=left_behind(self._cluster_id),
            unread=unreadable(self._cluster_id),
            run_ended_at=max(ends, default=None),
            known=calibration(self._cluster_id),
        )

    def _returns_every(self, state: ClusterState, led: Imbalance | None) -> float | None:
        """Return how often brokers give leaders back; asked for while it matters, as configs are.

        Where that may not be asked nobody is taken to do it: an election too many does no harm.
        """
        if led is None or not led.outside:
            return None
        if (now := self._clock.monotonic()) >= self._returns_due:
            self._returns = returns_every_seconds(rebalance_settings(self._client, state))
            self._returns_due = now + CONFIGS_SECONDS
        return self._returns

    def _end(self, at: datetime, now: datetime) -> datetime:
        return at if at <= now else self._ahead.setdefault(at, now)

    def ended(self, run: str) -> Entry | None:
        """Return how a run of ours has ended; None while it goes on, or has to be brought back.

        One whose process died before it changed anything is over.
        """
        now = self._clock.now()
        if not journal_path(self._cluster_id, run).exists():
            why = Reason("ended", f"Run {run} is not known any more: its journal is gone.")
            return Entry(now, What.ENDED, (why,), run=run, ended_at=now)
        view = read_run(self._cluster_id, run)
        if not view.state.ended:
            return None
        if view.state is RunState.DIED and run in left_behind(self._cluster_id):
            return None
        how = f"Run {run} has ended ({view.state.value})"
        what = f"{format_bytes(view.moved_bytes)} copied in {format_duration(view.elapsed_seconds)}"
        return Entry(
            at=now,
            what=What.ENDED,
            reasons=(Reason("ended", f"{how}: {what}."),),
            run=run,
            bytes=float(view.moved_bytes),
            ended_at=_utc(view.ended_at) or now,
        )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
