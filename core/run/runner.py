"""The runner carries steps out: it looks, asks `next_step`, journals the intent, then does it.

It decides nothing that `core.run.step` could decide. Whatever fails, the journal says what was
meant, and the next look says what came of it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from core.clock import Clock
from core.cluster.broker_logs import with_logs
from core.cluster.client import ClusterClient, ConfigChange, Fault, Resource
from core.cluster.state import Topic
from core.errors import AccessDeniedError, RefusedError, UnreachableError
from core.load.snapshot import Load
from core.plan.check import Severity, check_plan, refuse
from core.run import throttle
from core.run.endings import GONE
from core.run.history import BatchThrottle, History, Outcome, Phase
from core.run.journal import Journal, JournalError, Kind
from core.run.lookout import Lookout
from core.run.sampling import Sampler
from core.run.step import next_step
from core.run.steps import (
    Cancel,
    End,
    Ending,
    IntendThrottles,
    NoteEnded,
    Observed,
    Poll,
    Preflight,
    RemovePairs,
    Reorder,
    RestoreRates,
    SetThrottles,
    Step,
    Submit,
)

READ_BACK_SECONDS = 10.0
LOST_SECONDS = 5.0
"""How long to wait before asking again when the cluster or the journal's disk does not answer."""
DENIED_SECONDS = 60.0
"""How long a cluster that says no is asked again: rights that went may come back."""
MIN_INSYNC = "min.insync.replicas"

_MISSING = "UNKNOWN_TOPIC_OR_PARTITION"
_AGAIN = frozenset(
    (
        *("NOT_CONTROLLER", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "NETWORK_EXCEPTION"),
        *("_TIMED_OUT", "_TRANSPORT", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SERVER_ERROR"),
    )
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
        self.journal, self._client, self._clock = journal, client, clock
        self._patience_seconds = patience_seconds
        self.history = History.fold(journal.records())
        self._sampler = Sampler(client, clock)
        self._lookout = Lookout(client, clock)
        self._last_step: Step | None = None
        self._flying_since = clock.monotonic()

    def run(self) -> Outcome:
        """Carry the run to its end and return how it ended.

        Raises TrimtabError when it could not begin; afterwards it waits for a cluster that does
        not answer (`patience_seconds`, for ever unless told), and for a disk that takes no more.
        """
        lost_since: float | None = None
        while self.history.ended is None:
            try:
                self.advance()
                lost_since = None
            except (UnreachableError, AccessDeniedError) as error:
                if not self.history.preflight:
                    self._write(Kind.ENDED, outcome=Outcome.FAILED.value, why=error.title)
                    break
                lost_since = lost_since or time.monotonic()
                denied = isinstance(error, AccessDeniedError)
                patience = DENIED_SECONDS if denied else self._patience_seconds
                if time.monotonic() - lost_since >= patience:
                    why = f"{error.title.rstrip('.')}; throttles may be left"
                    self._write(Kind.ENDED, outcome=Outcome.INCOMPLETE.value, why=why)
                    break
                log.warning("waiting: %s", error)
                self._note_waiting(error.title.rstrip("."))
                self._clock.sleep(LOST_SECONDS)
            except JournalError as error:
                if not self.history.preflight:
                    raise
                log.error("%s", error)
                self._clock.sleep(LOST_SECONDS)
        assert self.history.ended is not None
        return self.history.ended

    def advance(self) -> Step:
        """Look once, carry one step out, and return it."""
        self._take_requests()
        afresh = self.history.cancel_requested or not isinstance(self._last_step, Poll)
        observed = self._lookout.look(self.history, afresh=afresh)
        step = next_step(self.history, observed)
        if step == self._last_step and not isinstance(step, Poll):
            self._clock.sleep(self._pace())  # it did not help at once: brokers lag, or refuse
        log.debug("%s", step)
        self._carry_out(step, observed)
        self._last_step = step
        return step

    def _take_requests(self) -> None:
        for request in self.journal.requests(self.history.requests_seen):
            self._write(Kind.REQUEST, seq=request.seq, kind=request.kind, **request.payload)

    # -- doing ----------------------------------------------------------------------------------

    def _carry_out(self, step: Step, observed: Observed) -> None:
        if not isinstance(step, Poll | NoteEnded) and step != self._last_step:
            self._note_waiting("")
        match step:
            case Preflight():
                self._preflight()
            case IntendThrottles(batch):
                self._throttle(batch, observed)
            case SetThrottles(batch):
                self._throttle(batch, None)
            case Submit(moves):
                self._submit(moves)
            case NoteEnded(endings, stop):
                self._note_ended(endings, stop)
            case RemovePairs(lists):
                self._remove_pairs(lists)
            case RestoreRates(rates):
                self._restore_rates(rates)
            case Cancel(moves):
                self._cancel(moves)
            case Reorder(moves):
                self._reorder(moves)
            case Poll(waiting):
                self._poll(waiting, observed)
            case End(outcome, why):
                self._write(Kind.ENDED, outcome=outcome.value, why=why)

    def _preflight(self) -> None:
        plan = self.history.plan
        reassignments = self._client.reassignments()
        state = self._client.describe()
        if state.cluster_id != self.history.cluster_id:
            self._write(
                Kind.ENDED,
                outcome=Outcome.FAILED.value,
                why=f"this is cluster {state.cluster_id}, not {self.history.cluster_id}",
            )
            return
        alive = {broker.id for broker in state.brokers if broker.alive}
        involved = {b for move in plan for b in (*move.before, *move.after)}
        state = with_logs(state, self._client.log_dirs(sorted(involved & alive)))
        min_insync = self._min_insync({move.tp.topic for move in plan})
        state = state.with_topics(
            {
                topic.name: _with_min_insync(topic, min_insync[topic.name])
                for topic in state.topics
                if topic.name in min_insync
            }
        )
        findings = check_plan(state, Load.unknown(state), plan, reassignments=reassignments)
        try:
            refuse(findings, self.history.allowed)
        except RefusedError as error:
            why = f"{error.title} {error.detail.strip()}"
            self._write(Kind.ENDED, outcome=Outcome.FAILED.value, why=why)
            return
        rows = [state.find(move.tp) for move in plan]
        sizes = [-1 if row is None else int(state.partition_size_bytes[row]) for row in rows]
        self._write(
            Kind.PREFLIGHT,
            sizes=[None if size < 0 else size for size in sizes],
            leaders=[None if row is None else int(state.leader[row]) for row in rows],
            min_insync=min_insync,
            said=[[f.id, f.sentence] for f in findings if f.severity is Severity.UNSAFE],
        )

    def _min_insync(self, topics: Iterable[str]) -> dict[str, int]:
        answers = self._client.configs([Resource.topic(t) for t in sorted(topics)], [MIN_INSYNC])
        found = {}
        for resource, answer in answers.items():
            if not isinstance(answer, Fault) and MIN_INSYNC in answer:
                found[resource.name] = int(answer[MIN_INSYNC].value or 1)
        return found

    def _throttle(self, batch: int, observed: Observed | None) -> None:
        """Intend a batch's throttles, or set them; a cluster that says no fails the batch."""
        try:
            if observed is not None:
                self._intend(batch, observed)
            else:
                self._set_throttles(batch)
        except AccessDeniedError as error:
            self._write(Kind.THROTTLE_FAILED, batch=batch, why=error.title.rstrip("."))

    def _intend(self, batch: int, observed: Observed) -> None:
        moves = [m.move for m in self._queued_of(batch)]
        topics, brokers = throttle.resources(moves, observed.alive)
        found = self._configs(topics, throttle.LISTS)
        found |= self._configs([Resource.broker(b) for b in sorted(brokers)], throttle.RATES)
        faults = {r: a for r, a in found.items() if isinstance(a, Fault) and a.name != _MISSING}
        if faults:
            self._write(Kind.THROTTLE_FAILED, batch=batch, why=_first_fault("reading", faults))
            return
        lists = throttle.intend_lists(moves, found, self.history.lists)
        rates = throttle.intend_rates(
            moves,
            self.history.rate_bytes_per_s,
            found,
            self.history.rates,
            override=self.history.override_rates,
        )
        self._write(
            Kind.THROTTLE_INTENT,
            batch=batch,
            lists=[i.to_json() for i in lists],
            rates=[r.to_json() for r in rates],
            foreign=[list(tp) for tp in observed.reassignments],
        )

    def _set_throttles(self, batch: int) -> None:
        why = self._refused_throttles(batch)
        if not why:
            self._write(Kind.THROTTLE_SET, batch=batch)
            return
        self._take_back_unseen(batch)
        self._write(Kind.THROTTLE_FAILED, batch=batch, why=why)

    def _refused_throttles(self, batch: int) -> str:
        """Set a batch's throttles and read them back; return why they are not in force, or ""."""
        intent = self.history.throttles[batch]
        for changes in (throttle.list_changes(intent.lists), throttle.rate_changes(intent.rates)):
            faults = self._alter(changes)
            if faults:
                return _first_fault("setting", faults)
        deadline = self._clock.monotonic() + READ_BACK_SECONDS
        while True:
            off = throttle.not_in_force(intent.lists, intent.rates, self._found(intent))
            if not off:
                return ""
            if self._clock.monotonic() >= deadline:
                return f"throttles were set but do not read back: {', '.join(off)}"
            self._clock.sleep(0.05)

    def _take_back_unseen(self, batch: int) -> None:
        """Undo a batch's throttles though they do not show: a broker that lags shows them later.

        What is refused here was refused before; what shows is given back step by step.
        """
        intent = self.history.throttles[batch]
        found = self._found(intent)
        changes: list[ConfigChange] = []
        for i in intent.lists:
            ours = self.history.lists[i.topic, i.side]
            changes += throttle.remove_changes(ours, ours.pairs, found, unseen=True)
        for r in intent.rates:
            changes += throttle.restore_changes(r, found, unseen=True)
        with suppress(AccessDeniedError):
            self._alter(changes)

    def _found(self, intent: BatchThrottle) -> dict[Resource, Any]:
        """Return the configs that a batch's throttles are in, as they are now."""
        topics = [Resource.topic(t) for t in sorted({i.topic for i in intent.lists})]
        brokers = [Resource.broker(b) for b in sorted({r.broker for r in intent.rates})]
        return self._configs(topics, throttle.LISTS) | self._configs(brokers, throttle.RATES)

    def _submit(self, moves: tuple[int, ...]) -> None:
        batch = self.history.moves[moves[0]].batch
        self._write(Kind.SUBMITTING, batch=batch, moves=list(moves))
        try:
            answers = self._client.alter_reassignments(
                {self.history.moves[i].move.tp: self.history.moves[i].move.after for i in moves}
            )
        except AccessDeniedError as error:
            self._note_ended(tuple(Ending(i, Phase.FAILED, error.title) for i in moves), "")
            return
        self._flying_since = self._clock.monotonic()
        taken, endings = [], []
        for i in moves:
            fault = answers.get(self.history.moves[i].move.tp)
            if fault is None:
                taken.append(i)
            elif fault.name == _MISSING:
                endings.append(Ending(i, Phase.CANCELLED, GONE))
            elif fault.name not in _AGAIN:
                endings.append(Ending(i, Phase.FAILED, f"refused: {fault}"))
        self._write(Kind.SUBMITTED, batch=batch, moves=taken)
        if endings:
            self._note_ended(tuple(endings), "")

    def _note_ended(self, endings: tuple[Ending, ...], stop: str) -> None:
        self._write(
            Kind.MOVED,
            moves=[
                {"index": e.index, "phase": e.phase.value, "why": e.why, "leader": e.leader}
                for e in endings
            ],
            stop=stop,
        )

    def _remove_pairs(self, lists: tuple[tuple[str, throttle.Side, tuple[str, ...]], ...]) -> None:
        topics = [Resource.topic(t) for t in sorted({topic for topic, _, _ in lists})]
        found = self._configs(topics, throttle.LISTS)
        payload: list[Any] = [[topic, side.value, list(pairs)] for topic, side, pairs in lists]
        self._write(Kind.PAIRS_REMOVING, lists=payload)
        changes: list[ConfigChange] = []
        for topic, side, pairs in lists:
            changes += throttle.remove_changes(self.history.lists[topic, side], pairs, found)
        failed = self._put_back(changes, throttle.LISTS, found)
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            self._write(Kind.PAIRS_REMOVED, lists=done)
        self._wait_for(failed)

    def _restore_rates(self, rates: tuple[tuple[int, throttle.Side], ...]) -> None:
        brokers = [Resource.broker(b) for b in sorted({broker for broker, _ in rates})]
        found = self._configs(brokers, throttle.RATES)
        intents = [self.history.rates[key] for key in rates]
        self._write(Kind.RATE_RESTORING, rates=[[b, side.value] for b, side in rates])
        changes = {i: throttle.restore_changes(i, found) for i in intents}
        flat = [change for of_one in changes.values() for change in of_one]
        failed = self._put_back(flat, throttle.RATES, found)
        done = [
            {
                "broker": i.broker,
                "side": i.side.value,
                "how": throttle.how_restored(i, changes[i]),
                "prior": i.prior if i.dynamic else None,
            }
            for i in intents
            if Resource.broker(i.broker) not in failed
        ]
        if done:
            self._write(Kind.RATE_RESTORED, rates=done)
        self._wait_for(failed)

    def _put_back(
        self, changes: list[ConfigChange], names: Collection[str], found: Mapping[Resource, Any]
    ) -> dict[Resource, str]:
        """Apply `changes` and read them back; return in words why a resource is not as found.

        One of `found` that could not be read, though it may well be there, is among them.
        """
        faults = {r: a for r, a in found.items() if isinstance(a, Fault)} | self._alter(changes)
        failed = {r: str(fault) for r, fault in faults.items() if fault.name != _MISSING}
        left = [change for change in changes if change.resource not in failed]
        deadline = self._clock.monotonic() + READ_BACK_SECONDS
        while left:
            touched = sorted({change.resource for change in left}, key=lambda r: r.name)
            left = list(throttle.still_there(left, self._configs(touched, names)))
            if not left or self._clock.monotonic() >= deadline:
                break
            self._clock.sleep(0.05)
        return failed | {change.resource: "it does not show yet" for change in left}

    def _wait_for(self, failed: Mapping[Resource, str]) -> None:
        """Say what could not be given back, and leave it alone a while: it is asked again."""
        if failed:
            (kind, name), why = next(iter(failed.items()))
            self._note_waiting(f"the throttle of {kind.value} {name} cannot be put back: {why}")
            self._clock.sleep(LOST_SECONDS)

    def _cancel(self, moves: tuple[int, ...]) -> None:
        self._write(Kind.CANCELLING, moves=list(moves))
        answers = self._client.cancel([self.history.moves[i].move.tp for i in moves])
        sent = [i for i in moves if answers.get(self.history.moves[i].move.tp) is None]
        self._write(Kind.CANCEL_SENT, moves=sent)

    def _reorder(self, moves: tuple[int, ...]) -> None:
        self._write(Kind.REORDERING, moves=list(moves))
        answers = self._client.alter_reassignments(
            {self.history.moves[i].move.tp: self.history.moves[i].move.before for i in moves}
        )
        faults = {str(tp): str(fault) for tp, fault in answers.items() if fault is not None}
        self._write(Kind.REORDERED, moves=list(moves), faults=faults)

    def _poll(self, waiting: str, observed: Observed) -> None:
        self._note_waiting(waiting)
        sample = self._sampler.sample(self.history, observed)
        if sample is not None:
            self.journal.sample(self._clock.now(), sample)
        self._clock.sleep(self._pace())

    # -- small helps ----------------------------------------------------------------------------

    def _pace(self) -> float:
        """Return how long to wait between looks: a short run is looked at more often."""
        elapsed = self._clock.monotonic() - self._flying_since
        return max(min(1.0, max(0.1, elapsed / 50)), min(10 * self._lookout.took_seconds, 30.0))

    def _note_waiting(self, why: str) -> None:
        if why != self.history.waiting:
            self._write(Kind.WAITING, why=why)

    def _write(self, what: Kind, /, **payload: Any) -> None:
        self.history.apply(self.journal.write(self._clock.now(), what, payload))

    def _queued_of(self, batch: int) -> list[Any]:
        moves = (self.history.moves[i] for i in self.history.batch(batch))
        return [m for m in moves if m.phase is Phase.QUEUED]

    def _configs(self, resources: list[Resource], names: Collection[str]) -> dict[Resource, Any]:
        return dict(self._client.configs(resources, names)) if resources else {}

    def _alter(self, changes: list[ConfigChange]) -> dict[Resource, Fault]:
        answers = self._client.alter_configs(changes) if changes else {}
        return {r: fault for r, fault in answers.items() if fault is not None}


def _first_fault(doing: str, faults: Mapping[Resource, Fault]) -> str:
    resource, fault = next(iter(faults.items()))
    return f"{doing} the throttle of {resource.kind.value} {resource.name} failed: {fault}"


def _with_min_insync(topic: Topic, min_insync: int) -> Topic:
    return Topic(topic.name, topic.id, min_insync, topic.retention_ms, topic.cleanup_policy)
