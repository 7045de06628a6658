"""The runner carries steps out: it looks, asks `next_step`, journals the intent, then does it.

It decides nothing that `core.run.step` could decide. Whatever fails, the journal says what was
meant, and the next look says what came of it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient, Fault
from core.cluster.state import TopicPartition
from core.errors import AccessDeniedError, RefusedError, TrimtabError, UnreachableError
from core.run.chronicle import Chronicle
from core.run.endings import GONE
from core.run.faults import is_missing, is_settled, passes
from core.run.history import History, Outcome, Phase
from core.run.journal import Journal, JournalError, Kind
from core.run.lookout import Lookout
from core.run.preflight import preflight
from core.run.sampling import Sampler
from core.run.step import next_step
from core.run.steps import (
    Cancel,
    End,
    Ending,
    IntendRates,
    IntendThrottles,
    NoteEnded,
    Observed,
    Poll,
    Postpone,
    Preflight,
    RemovePairs,
    Reorder,
    RestoreRates,
    SetRates,
    SetThrottles,
    Step,
    Submit,
)
from core.run.throttling import Throttling

LOST_SECONDS = 5.0
"""How long to wait before asking again when the cluster or the journal's disk does not answer."""
DENIED_REMEDY = (
    "give the run's user its rights back and it goes on (a cancel leaves what it may not put back)"
)

log = logging.getLogger(__name__)


class Runner:
    """One run's process: owns the journal's records; everything it knows is in `history`."""

    def __init__(
        self,
        journal: Journal,
        client: ClusterClient,
        clock: Clock,
        *,
        patience_seconds: float = math.inf,
    ) -> None:
        self._client, self._clock = client, clock
        self._patience_seconds = patience_seconds
        self._chronicle = Chronicle(journal, clock)
        self._throttling = Throttling(client, clock, self._chronicle)
        self._sampler = Sampler(client, clock)
        self._lookout = Lookout(client, clock)
        self._last_step: Step | None = None
        self._flying_since = clock.monotonic()

    @property
    def history(self) -> History:
        return self._chronicle.history

    def run(self) -> Outcome:
        """Carry the run to its end and return how it ended.

        Raises TrimtabError when it could not begin; afterwards it waits for a cluster that does
        not answer (`patience_seconds`, for ever unless told), for rights that it lost (until a
        cancel leaves what cannot be put back), and for a disk that takes no more.
        """
        lost_since: float | None = None
        while self.history.ended is None:
            try:
                self.advance()
                lost_since = None
            except (UnreachableError, AccessDeniedError) as error:
                lost_since = lost_since or time.monotonic()
                self._cannot_go_on(error, time.monotonic() - lost_since)
            except JournalError as error:
                if not self.history.preflight:
                    raise
                log.error("%s", error)
                self._clock.sleep(LOST_SECONDS)
        assert self.history.ended is not None
        return self.history.ended

    def _cannot_go_on(self, error: TrimtabError, lost_seconds: float) -> None:
        """Wait a little for the cluster, or end the run."""
        why = error.title.rstrip(".")
        denied = isinstance(error, AccessDeniedError)
        over = self.history.cancel_requested if denied else lost_seconds >= self._patience_seconds
        if not self.history.preflight:
            self._chronicle.write(Kind.ENDED, outcome=Outcome.FAILED.value, why=error.title)
        elif over:
            why = f"{why}; throttles may be left"
            self._chronicle.write(Kind.ENDED, outcome=Outcome.INCOMPLETE.value, why=why)
        else:
            log.warning("waiting: %s", error)
            self._chronicle.note_waiting(f"{why}: {DENIED_REMEDY}" if denied else why)
            self._clock.sleep(LOST_SECONDS)

    def advance(self) -> Step:
        """Look once, carry one step out, and return it."""
        self._chronicle.take_requests()
        afresh = self.history.cancel_requested or not isinstance(self._last_step, Poll)
        observed = self._lookout.look(self.history, afresh=afresh)
        step = next_step(self.history, observed)
        if step == self._last_step and not isinstance(step, Poll):
            self._clock.sleep(self._pace())  # it did not help at once: brokers lag, or refuse
        log.debug("%s", step)
        self._carry_out(step, observed)
        self._last_step = step
        return step

    # -- doing ----------------------------------------------------------------------------------

    def _carry_out(self, step: Step, observed: Observed) -> None:
        again = step == self._last_step or self._is_another_try(step)
        if not isinstance(step, Poll | NoteEnded) and not again:
            self._chronicle.note_waiting("")
        match step:
            case Preflight():
                self._preflight()
            case IntendThrottles(batch):
                self._throttling.set_up(batch, observed)
            case SetThrottles(batch):
                self._throttling.set_up(batch, None)
            case IntendRates(batch, brokers):
                self._throttling.intend_rates(batch, brokers)
                self._sample(observed)
            case SetRates(batch, rates):
                self._throttling.set_rates(batch, rates)
                self._sample(observed)
            case Postpone(moves, why):
                self._chronicle.write(Kind.POSTPONED, moves=list(moves), why=why)
            case Submit(moves):
                self._submit(moves)
            case NoteEnded(endings, stop):
                self._note_ended(endings, stop)
            case RemovePairs(lists):
                self._throttling.remove_pairs(lists)
            case RestoreRates(rates):
                self._throttling.restore_rates(rates)
            case Cancel(moves):
                self._cancel(moves)
            case Reorder(moves):
                self._reorder(moves)
            case Poll(waiting):
                self._poll(waiting, observed)
            case End(outcome, why):
                self._chronicle.write(Kind.ENDED, outcome=outcome.value, why=why)

    def _is_another_try(self, step: Step) -> bool:
        return isinstance(step, Submit) and self.history.moves[step.moves[0]].phase.in_flight

    def _preflight(self) -> None:
        try:
            found = preflight(self._client, self.history)
        except RefusedError as error:
            why = f"{error.title} {error.detail.strip()}".strip()
            self._chronicle.write(Kind.ENDED, outcome=Outcome.FAILED.value, why=why)
        else:
            self._chronicle.write(Kind.PREFLIGHT, **found)

    def _submit(self, moves: tuple[int, ...]) -> None:
        batch = self.history.moves[moves[0]].batch
        self._chronicle.write(Kind.SUBMITTING, batch=batch, moves=list(moves))
        try:
            answers = self._client.alter_reassignments(
                {self.history.moves[i].move.tp: self.history.moves[i].move.after for i in moves}
            )
        except AccessDeniedError as error:
            self._note_ended(tuple(Ending(i, Phase.FAILED, error.title) for i in moves), "")
            return
        self._flying_since = self._clock.monotonic()
        taken, endings = [], []
        again: dict[str, str] = {}
        for i in moves:
            fault = answers.get(self.history.moves[i].move.tp)
            if fault is None:
                taken.append(i)
            elif is_missing(fault):
                endings.append(Ending(i, Phase.CANCELLED, GONE))
            elif passes(fault):
                again[str(i)] = str(fault)
            else:
                endings.append(Ending(i, Phase.FAILED, f"refused: {fault}"))
        self._chronicle.write(Kind.SUBMITTED, batch=batch, moves=taken, again=again)
        if endings:
            self._note_ended(tuple(endings), "")

    def _note_ended(self, endings: tuple[Ending, ...], stop: str) -> None:
        self._chronicle.write(
            Kind.MOVED,
            moves=[
                {"index": e.index, "phase": e.phase.value, "why": e.why, "leader": e.leader}
                for e in endings
            ],
            stop=stop,
        )

    def _cancel(self, moves: tuple[int, ...]) -> None:
        self._chronicle.write(Kind.CANCELLING, moves=list(moves))
        answers = self._client.cancel([self.history.moves[i].move.tp for i in moves])
        sent = [i for i in moves if answers.get(self.history.moves[i].move.tp) is None]
        self._chronicle.write(Kind.CANCEL_SENT, moves=sent)
        self._ask_again("cancelled", answers)

    def _reorder(self, moves: tuple[int, ...]) -> None:
        self._chronicle.write(Kind.REORDERING, moves=list(moves))
        answers = self._client.alter_reassignments(
            {self.history.moves[i].move.tp: self.history.moves[i].move.before for i in moves}
        )
        faults = {str(tp): str(fault) for tp, fault in answers.items() if fault is not None}
        self._chronicle.write(Kind.REORDERED, moves=list(moves), faults=faults)
        self._ask_again("put back in its order", answers)

    def _ask_again(self, what: str, answers: Mapping[TopicPartition, Fault | None]) -> None:
        """Say what the cluster did not do, and leave it alone a while: it is asked again."""
        faults = ((tp, f) for tp, f in answers.items() if f is not None and not is_settled(f))
        tp, fault = next(faults, (None, None))
        if tp is not None:
            self._chronicle.note_waiting(f"{tp} is not {what} yet ({fault}): it is asked again")
            self._clock.sleep(LOST_SECONDS)

    def _poll(self, waiting: str, observed: Observed) -> None:
        self._chronicle.note_waiting(waiting)
        self._sample(observed)
        self._clock.sleep(self._pace())

    def _sample(self, observed: Observed) -> None:
        sample = self._sampler.sample(self.history, observed)
        if sample is not None:
            self._chronicle.sample(sample)

    # -- small helps ----------------------------------------------------------------------------

    def _pace(self) -> float:
        """Return how long to wait between looks: a short run is looked at more often."""
        elapsed = self._clock.monotonic() - self._flying_since
        return max(min(1.0, max(0.1, elapsed / 50)), min(10 * self._lookout.took_seconds, 30.0))
