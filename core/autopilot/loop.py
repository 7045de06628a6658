"""The autopilot's loop: observe the cluster, decide, act where its mode allows, log the reason.

It reads its switch before each look; right before a run is started it looks and reads it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from core.autopilot.decide import decide, find_objections
from core.autopilot.decision import Act, Decision, Elect, Reason, Wait
from core.autopilot.history import PastAction, Situation
from core.autopilot.log import DecisionLog, Entry, EntryKind, build_history
from core.autopilot.observation import Observation
from core.autopilot.observer import ClusterObserver
from core.autopilot.plan_choice import estimate_run
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.clock import Clock, sleep_until
from core.cluster.capacity import UNKNOWN_CAPACITY
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_leader_elected
from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError
from core.plan.checks.catalogue import refuse
from core.plan.checks.check_plan import CheckedPlan
from core.plan.plan import Plan
from core.run.audited_client import audited
from core.run.engine.mover import BETWEEN_ELECTIONS_SECONDS
from core.run.engine.run_completion import MAX_ELECTED_AT_ONCE
from core.run.launch import launch
from core.run.options import RunOptions
from core.units import counted

NOTE = "by the autopilot"


def start_plan(switch: Switch, situation: Situation, plan: Plan) -> str:
    """Start a run that adapts its rate to how producers fare; return its id.

    Raises RefusedError for what a check says, BusyError beside another run, and TrimtabError when
    the run does not come up.
    """
    state, load = situation.state, situation.load_view.load
    bounds, estimate = estimate_run(situation, plan)
    in_flight = situation.observed.reassignments
    refuse(CheckedPlan(state, load, plan, in_flight).after(estimate.seconds, estimate.never))
    options = RunOptions(
        rate_bytes_per_s=estimate.rate_bytes_per_s,
        cluster_name=switch.name,
        auto=bounds,
        elect=True,
    )
    noted = replace(plan, notes=(*plan.notes, NOTE))
    return launch(switch.address, state, noted, options, estimate, load=load)


def elect_leaders(
    client: ClusterClient,
    clock: Clock,
    cluster_id: str,
    partitions: Sequence[TopicPartition],
    goes_on: Callable[[], bool],
) -> str:
    """Elect preferred leaders, some at a time as a run does, while it `goes_on`; say what came.

    Raises TrimtabError when not even the first could be asked for.
    """
    writer = audited(client, cluster_id, None)
    answers: dict[TopicPartition, Fault | None] = {}
    ended = ""
    for first in range(0, len(partitions), MAX_ELECTED_AT_ONCE):
        if first:
            clock.sleep(BETWEEN_ELECTIONS_SECONDS)
            if not goes_on():
                ended = " It was turned off then."
                break
        try:
            answers |= writer.elect_leaders(partitions[first : first + MAX_ELECTED_AT_ONCE])
        except TrimtabError as error:
            if not answers:
                raise
            ended = f" {error.title}"
            break
    left = {tp: fault for tp, fault in answers.items() if not is_leader_elected(fault)}
    many = counted(len(answers) - len(left), "partition")
    of = f" of {len(partitions)}" if len(answers) - len(left) < len(partitions) else ""
    why = "".join(f" {tp} was not: {fault}." for tp, fault in [*left.items()][:1])
    return f"{many}{of} given back.{why}{ended}"


POLL_SECONDS = 5.0
REPEAT_AFTER = timedelta(hours=1)
"""How often a reason that stays the same is written down."""
REPEAT_PLAN_AFTER = timedelta(minutes=5)
"""How often a suggestion that goes on, with other moves, is."""
MIN_PAUSE_FACTOR = 10.0
"""A look's processor time, planning among it, so many times is waited at least."""


class Autopilot:
    """Balances one cluster; for one thread, as the only one on this host."""

    def __init__(
        self,
        observer: ClusterObserver,
        clock: Clock,
        log: DecisionLog,
        *,
        switch: Callable[[], Switch | None],
        start: Callable[[Switch, Situation, Plan], str],
        elect: Callable[[Sequence[TopicPartition], Callable[[], bool]], str],
        suggest: Callable[[Plan | None], None],
        report: Callable[[Entry], None],
        patient: bool = True,
    ) -> None:
        """`patient` waits for a cluster that does not answer; else its end is the loop's.

        `start` returns the run that it has started; `elect` elects for as long as it may, and says
        what came of it. `suggest` is given what holds by each look: a plan, or that there is none.
        """
        self._patient = patient
        self._observer, self._clock, self._log = observer, clock, log
        self._switch, self._start, self._elect = switch, start, elect
        self._suggest, self._report = suggest, report
        self.history = build_history(log.entries())
        self.observed: Observation | None = None
        """The last look; None before the first, and where the cluster did not answer."""
        self._last: Entry | None = None
        self._set_at: datetime | None = None
        self._suggested: Plan | None = None
        self._capacity = UNKNOWN_CAPACITY

    def look(self) -> bool:
        """Look once, and do what is decided; return False once the switch is off.

        Raises TrimtabError when the log cannot be written: nothing was done then.
        """
        switch = self._switch()
        if switch is None or switch.mode is Mode.OFF:
            return False
        settings = switch.settings
        if switch.changed_at != self._set_at:  # what was said before was said of other limits
            self._set_at, self._last = switch.changed_at, None
            self._capacity = switch.address.capacity
        observed = self._observe(settings)
        if observed is None:
            return self._patient
        decision = decide(settings, self.history, observed)
        if isinstance(decision, Act | Elect) and settings.mode is Mode.ACT:
            return self._act(switch, decision)
        self._note(decision)
        return True

    @property
    def last(self) -> Entry | None:
        """Return what it last wrote down; None where that was for other settings."""
        return self._last

    def is_off(self) -> bool:
        """Return whether it has been switched off since."""
        switch = self._switch()
        return switch is None or switch.mode is Mode.OFF

    def _observe(self, settings: AutopilotSettings) -> Observation | None:
        """Look once and remember it and runs that have ended; None when nobody answers."""
        try:
            for act in self.history.acts:
                if act.ended_at is None and (ended := self._observer.ended(act.run)) is not None:
                    self._write(ended)
                    at = ended.ended_at or ended.at
                    self.history = self.history.ending(act.run, at, ended.bytes)
            observed = self._observer.look(settings)
        except TrimtabError as error:
            self.observed = None
            self._note(Wait((Reason("unreachable", error.title),)))
            return None
        self.observed = observed
        self.history = self.history.seeing(settings, observed)
        if observed.capacity != self._capacity:
            now = f"Brokers can carry {observed.capacity.text} by config.toml"
            why = Reason("capacity", f"{now}; before it was {self._capacity.text}.")
            self._write(Entry(self._clock.now(), EntryKind.CAPACITY, (why,)))
            self._capacity = observed.capacity
        return observed

    def _act(self, switch: Switch, act: Act | Elect) -> bool:
        self._offer(None)
        observed = self._observe(switch.settings)  # planning may have taken long
        if observed is None:
            return self._patient
        switch_now = self._switch()
        if switch_now is None or switch_now.settings != switch.settings:
            return switch_now is not None and switch_now.mode is not Mode.OFF
        if reasons := find_objections(switch.settings, self.history, observed):
            self._note(Wait(reasons))
            return True
        now = self._clock.now()
        self._write(_entry(now, EntryKind.ACT, act))
        if self.is_off():  # whoever turned it off before this line relies on that nothing begins
            self._fail(Reason("off", "It was turned off before anything was begun."))
            return False
        if isinstance(act, Elect):
            self._elect_preferred(now, act)
        else:
            self._begin(now, switch, Situation(switch.settings, self.history, observed), act)
        return True

    def _begin(self, now: datetime, switch: Switch, situation: Situation, act: Act) -> None:
        try:
            run = self._start(switch, situation, act.plan)
        except (TrimtabError, OSError) as error:
            why = f"The run could not be started: {_error_text(error)}"
            self._fail(Reason("failed", why))
            return
        began = Reason("started", f"Run {run} carries it out.")
        self._write(Entry(self._clock.now(), EntryKind.STARTED, (began,), run=run))
        moved = frozenset(move.tp for move in act.plan)
        self.history = self.history.acting(PastAction(now, run, moved, act.bytes))

    def _elect_preferred(self, now: datetime, act: Elect) -> None:
        partitions = [election.tp for election in act.elections]
        try:
            result = self._elect(partitions, lambda: not self.is_off())
        except (TrimtabError, OSError) as error:
            self._fail(Reason("failed", f"No leader was elected: {_error_text(error)}"))
            return
        at = self._clock.now()
        self._write(Entry(at, EntryKind.ELECTED, (Reason("elected", result),), ended_at=at))
        done = PastAction(now, "", frozenset(), 0.0, at, frozenset(partitions))
        self.history = self.history.acting(done)

    def _fail(self, why: Reason) -> None:
        self._write(Entry(self._clock.now(), EntryKind.FAILED, (why,)))
        self.history = self.history.failing(self._clock.now())

    def _note(self, decision: Decision) -> None:
        """Suggest what is decided, and write it down unless it is what was before."""
        self._offer(decision.plan if isinstance(decision, Act) else None)
        what = EntryKind.SUGGEST if isinstance(decision, Act | Elect) else EntryKind.WAIT
        entry = _entry(self._clock.now(), what, decision)
        if not self._is_repeated(entry):
            self._write(entry)

    def _is_repeated(self, entry: Entry) -> bool:
        """Return whether the log has said the same, not long ago."""
        last = self._last
        if last is None or last.what is not entry.what:
            return False
        if [reason.id for reason in last.reasons] != [reason.id for reason in entry.reasons]:
            return False
        same = (last.moved, last.elected) == (entry.moved, entry.elected)
        often = REPEAT_AFTER if same else REPEAT_PLAN_AFTER
        return entry.at - last.at < often

    def _offer(self, plan: Plan | None) -> None:
        if plan is None or plan != self._suggested:
            self._suggest(plan)
        self._suggested = plan

    def _write(self, entry: Entry) -> None:
        self._log.add(entry)
        self._last = entry
        self._report(entry)


def _entry(at: datetime, what: EntryKind, decision: Decision) -> Entry:
    if isinstance(decision, Elect):
        elected = tuple(
            (election.tp, election.leader, election.to)
            for election in decision.elections
            if election.leader is not None and election.to is not None
        )
        return Entry(at, what, decision.reasons, elected=elected)
    if not isinstance(decision, Act):
        return Entry(at, what, decision.reasons)
    moved = tuple((move.tp, move.before, move.after) for move in decision.plan)
    return Entry(at, what, decision.reasons, bytes=decision.bytes, moved=moved)


def _error_text(error: TrimtabError | OSError) -> str:
    """Return what went wrong in one line, with what a check has to say."""
    if isinstance(error, TrimtabError):
        return " ".join(part.strip() for part in (error.title, error.detail) if part)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}."


def run_loop(
    autopilot: Autopilot,
    clock: Clock,
    *,
    keep_on: Callable[[], bool],
    after_look: Callable[[], None] | None = None,
) -> None:
    """Look until `keep_on` says no or the switch is off; `after_look` is called after each."""
    while keep_on():
        begun = time.process_time()
        goes_on = autopilot.look()
        if after_look is not None:
            after_look()
        if not goes_on:
            return
        pause = max(POLL_SECONDS, MIN_PAUSE_FACTOR * (time.process_time() - begun))
        due = clock.monotonic() + pause
        sleep_until(clock, due, lambda: keep_on() and not autopilot.is_off())
