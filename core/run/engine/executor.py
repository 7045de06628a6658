"""The executor carries steps out: observe, ask `next_step`, journal the intent, then do it.

It decides nothing that `core.run.engine.next_step` could decide. Whatever fails, the journal says
what was meant, and the next look says what came of it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace

from core.clock import Clock, SteadyClock
from core.cluster.client import ClusterClient
from core.errors import AccessDeniedError, RefusedError, TrimtabError, UnreachableError
from core.plan.estimate.calibration import NOTHING_LEARNED
from core.run import steps
from core.run.engine.lower_retention import RetentionWriter
from core.run.engine.mover import LogDirMover, Mover, elect
from core.run.engine.next_step import next_step
from core.run.engine.observer import (
    BUSY_MAX_SECONDS,
    BUSY_SECONDS,
    GUARDED_SECONDS,
    Observer,
    seconds_to_next_look,
)
from core.run.engine.preflight import (
    Learned,
    Loaded,
    load_as_known,
    objection,
    observe_once,
    preflight,
    retarget_objection,
)
from core.run.engine.sampler import Sampler
from core.run.journal.journal import Journal, JournalError
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.move_state import MoveRequest, Outcome, Role
from core.run.journal.records import Kind
from core.run.steps import Observation
from core.run.throttles.rate_signals import OpenProbe, SignalMonitor
from core.run.throttles.restorer import ThrottleRestorer
from core.run.throttles.write_and_read_back import VerifiedThrottles
from core.run.throttles.writer import ThrottleWriter
from core.units import format_time

LOST_SECONDS = 5.0
"""How long to wait before asking again when the cluster or the journal's disk does not answer."""
DENIED_REMEDY = (
    "give the run's user its rights back and it goes on (a cancel leaves what it may not put back)"
)

log = logging.getLogger(__name__)


class Executor:
    """One run's process: owns the journal's records; everything it knows is in `run`."""

    def __init__(
        self,
        journal: Journal,
        client: ClusterClient,
        clock: Clock,
        *,
        patience_seconds: float = math.inf,
        open_probe: OpenProbe = lambda brokers: None,
        on_look: Callable[[RunRecorder], None] = lambda recorder: None,
        learned: Learned = lambda: NOTHING_LEARNED,
        load: Loaded = load_as_known,
    ) -> None:
        self._client, self._time_of_day = client, clock
        self._clock = clock = SteadyClock(clock, journal.last_at())
        self._patience_seconds, self._on_look = patience_seconds, on_look
        self._learned, self._load = learned, load
        self._recorder = RunRecorder(journal, clock)
        self.state = self._recorder.state
        self._mover = Mover(client, clock, self._recorder)
        self._restorer = ThrottleRestorer(client, clock, self._recorder)
        self._verified = VerifiedThrottles(client, clock, self._recorder)
        self._writer = ThrottleWriter(client, clock, self._recorder, self._verified, self._restorer)
        self._log_dirs = LogDirMover(client, clock, self._recorder)
        self._retention = RetentionWriter(client, clock, self._recorder)
        self._sampler = Sampler(client, clock)
        self._observer = Observer(client, clock)
        self._signal_monitor = SignalMonitor(open_probe, clock)
        self._last_step: steps.Step | None = None
        self._rates_changed = -math.inf
        self._denied_after: int | None = None
        """How many requests had been taken up when the cluster first said no, until it does not."""

    def run(self) -> Outcome:
        """Carry the run to its end and return how it ended.

        Raises TrimtabError when it could not begin. Afterwards, and as it begins at a time that was
        asked for, it waits for a cluster that does not answer (`patience_seconds`, for ever unless
        told); afterwards also for rights that it lost (until a cancel leaves what cannot be put
        back), and for a disk that takes no more.
        """
        try:
            return self._run()
        finally:
            self._signal_monitor.close()

    def _run(self) -> Outcome:
        lost_since: float | None = None
        while self.state.ended is None:
            try:
                try:
                    self.advance()
                    lost_since = self._denied_after = None
                except (UnreachableError, AccessDeniedError) as error:
                    lost_since = lost_since or time.monotonic()
                    self._cannot_go_on(error, time.monotonic() - lost_since)
            except JournalError as error:
                if not self.state.preflight:
                    raise
                log.error("%s", error)
                self._clock.sleep(LOST_SECONDS)
        assert self.state.ended is not None
        return self.state.ended

    def _cannot_go_on(self, error: TrimtabError, lost_seconds: float) -> None:
        denied = isinstance(error, AccessDeniedError)
        why = error.reason if isinstance(error, AccessDeniedError) else error.title.rstrip(".")
        patient = lost_seconds < self._patience_seconds
        over = self._is_cancelled_while_denied() if denied else not patient
        cancelled = self.state.cancel_requested
        # Nobody looks on as a run begins at a time: a call without an answer does not cost it.
        may_begin_late = self.state.start_at is not None and not cancelled
        if not self.state.preflight and (denied or over or not may_begin_late):
            outcome = Outcome.CANCELLED if cancelled else Outcome.FAILED
            self._recorder.write(Kind.ENDED, outcome=outcome.value, why=f"{why}.")
        elif over:
            why = f"{why}; throttles may be left"
            self._recorder.write(Kind.ENDED, outcome=Outcome.INCOMPLETE.value, why=why)
        else:
            log.warning("waiting: %s", error)
            self._recorder.note_waiting(f"{why}: {DENIED_REMEDY}" if denied else why)
            self._clock.sleep(LOST_SECONDS)

    def _is_cancelled_while_denied(self) -> bool:
        """A cancel from before the cluster said no waits for it: it may mean it for a moment."""
        last_request = self.state.last_request
        if self._denied_after is None:
            self._denied_after = last_request
        return self.state.cancel_requested and last_request > self._denied_after

    def advance(self) -> steps.Step:
        """Look once, carry one step out, and return it."""
        look = observe_once(self._client, self.state.min_insync)
        self._recorder.take_requests(lambda kind, p: retarget_objection(look, self.state, kind, p))
        self._on_look(self._recorder)
        if self._is_awaiting_start():
            return steps.Poll()
        observed = self._look()
        step = next_step(self.state, observed)
        if step == self._last_step and not isinstance(step, steps.Poll):
            self._clock.sleep(self._pace())  # it did not help at once: brokers lag, or refuse
        log.debug("%s", step)
        try:
            self._carry_out(step, observed)
        finally:
            self._last_step = step  # also one that is refused, and waited for
        return step

    def _is_awaiting_start(self) -> bool:
        """Wait a little for the time that was asked for, unless it has come."""
        run = self.state
        if run.preflight or run.cancel_requested or run.start_at is None:
            return False
        if all(m.request is not MoveRequest.CONTINUE and m.retarget is None for m in run.moves):
            return False
        left = (run.start_at - self._time_of_day.now()).total_seconds()
        if left <= 0:
            return False
        self._recorder.note_waiting(f"begins at {format_time(run.start_at)}")
        self._clock.sleep(min(1.0, left))
        return True

    def _look(self) -> Observation:
        has_requests = any(
            m.request is not MoveRequest.CONTINUE for m in self.state.moves if not m.phase.ended
        )
        afresh = has_requests or not isinstance(self._last_step, steps.Poll)
        since = self._clock.monotonic() - self._mover.submitted
        observation = self._observer.look(self.state, afresh=afresh)
        observed = replace(
            observation,
            now=self._clock.now(),
            since_submission_seconds=since,
            backing_off=self._verified.backoff.now,
            left_alone=self._restorer.backoff.now,
            moves_left=self._mover.backoff.now,
            retention_left=self._retention.backoff.now,
            arrived=self._sampler.arrived,
            disks=self._sampler.disks,
            locations=self._log_dirs.look(self.state, observation.alive),
            unplaced=self._log_dirs.unplaced,
            dirs_left_alone=self._log_dirs.backoff.now,
            shorter=self._retention.shorter,
        )
        return self._signal_monitor.look(self.state, observed, self._observer.state)

    # -- doing ----------------------------------------------------------------------------------

    def _carry_out(self, step: steps.Step, observed: Observation) -> None:
        if step != self._last_step and self._is_waiting_over(step):
            self._recorder.note_waiting("")
        match step:
            case steps.Preflight():
                try:
                    facts = preflight(self._client, self.state, self._learned, self._load)
                except RefusedError as error:
                    why = f"{error.title} {error.detail.strip()}".strip()
                    self._recorder.write(Kind.ENDED, outcome=Outcome.FAILED.value, why=why)
                else:
                    self._recorder.write(Kind.PREFLIGHT, **facts)
            case steps.NoteBaseline(measured):
                self._recorder.write(Kind.MEASURED, **measured.to_json())
            case steps.Postpone(moves, why):
                self._recorder.write(Kind.POSTPONED, moves=list(moves), why=why)
            case steps.Submit(moves):
                if self._writer.are_in_force(observed):
                    self._mover.submit(moves)
                    self._log_dirs.forget()
            case steps.MoveDirs(replicas):
                self._log_dirs.move(replicas)
                self._sample(observed)
            case steps.NoteEnded(endings, stop):
                self._mover.note_ended(endings, stop)
            case steps.Cancel(moves):
                self._mover.cancel(moves)
            case steps.Reorder(moves):
                self._mover.reorder(moves)
            case steps.AddMoves():
                self._add_moves(step)
            case steps.LowerRetention():
                self._retention.lower()
            case steps.NoteLogsShortened():
                self._retention.note_shorter()
            case steps.RestoreRetention(topics):
                self._retention.restore(topics)
            case steps.ElectLeaders(moves):
                elect(self._client, self._clock, self._recorder, moves)
            case steps.Poll(waiting):
                self._recorder.note_waiting(waiting)
                self._sample(observed)
                copying = self.state.in_flight
                self._clock.sleep(self._pace(self._sampler.nearest if copying else None))
            case steps.End(outcome, why):
                self._signal_monitor.close()
                whole = "; ".join(filter(None, (why, self._signal_monitor.left)))
                self._recorder.write(Kind.ENDED, outcome=outcome.value, why=whole)
            case _:
                self._throttle(step, observed)

    def _throttle(self, step: steps.ThrottleStep, observed: Observation) -> None:
        if not isinstance(step, steps.ChangeRates):  # reads what it changes, maybe every second
            self._observer.forget_throttles(guarded=self.state.guarded)
        match step:
            case steps.IntendThrottles() | steps.SetThrottles():
                self._writer.set_up(step, observed)
            case steps.IntendRates(batch, brokers):
                self._writer.intend_rates(batch, brokers)
            case steps.SetRates(batch, rates):
                self._writer.set_rates(batch, rates)
            case steps.ChangeRates(rates, why, held):
                self._writer.change_rates(rates, why, held_back=held)
                self._rates_changed = self._clock.monotonic()
            case steps.NoteDrift(lost, lists, editor):
                self._verified.note_lost(lost, lists, editor)
            case steps.SuspendPairs(lists, why):
                self._restorer.suspend_pairs(lists, why)
            case steps.ReinstatePairs(lists):
                self._writer.reinstate_pairs(lists)
            case steps.RemovePairs(lists):
                self._restorer.remove_pairs(lists)
            case steps.RestoreRates(rates):
                self._restorer.restore_rates(rates)
        self._sample(observed)

    def _is_waiting_over(self, step: steps.Step) -> bool:
        """Return whether a step shows that nothing is waited for: it tries nothing again."""
        moves = self.state.moves
        match step:
            case steps.Poll() | steps.NoteEnded() | steps.ChangeRates() | steps.End():
                return False
            case _ if isinstance(step, steps.ThrottleSetup):
                return False
            case steps.RemovePairs() | steps.RestoreRates():
                return not self._restorer.backoff
            case steps.SuspendPairs() | steps.ReinstatePairs():
                return not self._restorer.backoff
            case steps.RestoreRetention():
                return not self._retention.backoff
            case steps.Submit((first, *_)):
                return not moves[first].phase.in_flight
            case steps.Cancel((first, *_)) | steps.Reorder((first, *_)):
                return moves[first].move.tp not in self._mover.backoff
            case steps.ElectLeaders((first, *_)):
                return moves[first].elections == 0
            case _:
                return True

    def _add_moves(self, step: steps.AddMoves) -> None:
        """Journal moves that stand in for others; one that must not be made is refused."""
        refused = dict(step.refused)
        look = observe_once(self._client, self.state.min_insync)
        for added in step.moves:
            if added.role is Role.RETARGET:
                allowed = self.state.moves[added.instead_of].allowed | self.state.allowed
                why = objection(look, added.move, allowed)
                if why:
                    refused[added.instead_of] = why
        self._recorder.write(
            Kind.MOVES_ADDED,
            moves=[added.to_json() for added in step.moves if added.instead_of not in refused],
            refused=[[index, why] for index, why in refused.items()],
            rollback=step.rollback,
        )

    def _sample(self, observed: Observation) -> None:
        if not self.state.in_flight and not self._sampler.disks:
            return
        sample = self._sampler.sample(self.state, observed)
        if sample is not None:
            self._signal_monitor.take_sample(observed.now, sample)
            self._recorder.sample(sample)

    def _pace(self, nearest: float | None = None) -> float:
        """Return how long to wait between looks; what takes brokers long is asked less often."""
        now = self._clock.monotonic()
        wait = seconds_to_next_look(now - self._mover.submitted, nearest)
        if self.state.guarded:
            wait = min(wait, GUARDED_SECONDS)
        elif now - self._rates_changed < BUSY_SECONDS:
            wait = min(wait, BUSY_MAX_SECONDS)
        return max(wait, min(10 * self._observer.took_seconds, 30.0))
