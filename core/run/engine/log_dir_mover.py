"""Submits a run's log dir moves, and observes where its replicas are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_transient
from core.cluster.log_dirs import BrokerLogs
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.journal.replay import RunState
from core.run.steps import SETTLE_SECONDS, Place, ReplicaLocation

LOOK_SECONDS = 1.0
DUTY = 10
"""Log dirs are asked again after ten times as long as the answer took."""
RETRY_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""How soon what was not taken is asked again: twice as long each time, up to a limit."""
VAIN_SECONDS = 600.0
"""The limit for what brokers take and come to nothing with: each time they begin something."""
NOT_YET = "REPLICA_NOT_AVAILABLE"
"""The broker has no such replica yet: it keeps the log dir in mind for it."""


def may_pass(fault: Fault) -> bool:
    """Return whether a broker may yet have the replica in the log dir asked for."""
    return fault.name == NOT_YET or is_transient(fault)


class LogDirMover:
    """Looks at log dirs as often as moves to them need it, and asks for these moves."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._locations: dict[Place, ReplicaLocation] = {}
        self._unplaced: dict[Place, tuple[str, float]] = {}
        self._due = 0.0
        self._rests: dict[Place, tuple[str, float, float]] = {}
        self._intended: dict[Place, str] = {}
        """What this process has journalled as intended, and brokers were asked for last."""
        self._taken: dict[Place, str] = {}

    @property
    def left_alone(self) -> dict[Place, str]:
        """Return which replicas' moves were not taken and are left alone for now, and why."""
        now = self._clock.monotonic()
        return {place: why for place, (why, until, _) in self._rests.items() if now < until}

    @property
    def unplaced(self) -> dict[Place, str]:
        """Return which replicas brokers have shown in no log dir for long enough, and why."""
        now = self._clock.monotonic()
        of = self._unplaced.items()
        return {place: why for place, (why, since) in of if now - since >= SETTLE_SECONDS}

    def forget(self) -> None:
        """Look anew next time: something has been changed."""
        self._due = 0.0

    def look(self, run: RunState, alive: Collection[int]) -> dict[Place, ReplicaLocation]:
        """Return where replicas lie that moves in flight want in a certain log dir."""
        moves = [run.moves[i].move for i in run.in_flight]
        places = {(move.tp, broker) for move in moves for broker in move.target_log_dirs}
        brokers = sorted({broker for _, broker in places} & set(alive))
        began = self._clock.monotonic()
        self._unplaced = {at: seen for at, seen in self._unplaced.items() if at[1] in alive}
        if began < self._due or not brokers:
            return {
                place: locations
                for place, locations in self._locations.items()
                if place[1] in alive
            }
        answers = self._client.describe_log_dirs(brokers)
        self._locations = replica_locations(answers, places)
        self._note_unplaced(answers, places)
        took = self._clock.monotonic() - began
        self._due = began + max(LOOK_SECONDS, DUTY * took)
        return self._locations

    def _note_unplaced(self, answers: Collection[BrokerLogs], places: Collection[Place]) -> None:
        """Note since when brokers that answer show replicas in no log dir."""
        now, before = self._clock.monotonic(), self._unplaced
        self._unplaced = {}
        for answer in (answer for answer in answers if answer.error is None):
            failed = any(log_dir.error for log_dir in answer.log_dirs)
            is_ = "is offline" if failed else "is gone"
            for place in places:
                if place[1] == answer.broker and place not in self._locations:
                    since = before[place][1] if place in before else now
                    self._unplaced[place] = f"its log dir on broker {answer.broker} {is_}", since

    def move(self, replicas: tuple[tuple[int, int, str], ...]) -> None:
        """Ask for moves to log dirs; what is refused for good is journalled as that.

        What is asked for again is not journalled again: brokers may take it over and over, and
        come to nothing with it.
        """
        run = self._recorder.state
        wanted = {(run.moves[i].move.tp, b): path for i, b, path in replicas}
        new = [[i, b, p] for i, b, p in replicas if self._intended.get(_place(run, i, b)) != p]
        if new:
            self._recorder.write(Kind.DIRS_MOVING, replicas=new)
        self._intended |= wanted
        answers = self._client.alter_log_dirs(wanted)
        self.forget()
        done, refused = [], []
        for index, broker, path in replicas:
            place = tp, _ = _place(run, index, broker)
            fault = answers.get(place, Fault("REQUEST_TIMED_OUT"))
            why = f"its replica on broker {broker} is not moved to {path} ({fault})"
            if fault is None and self._taken.get(place) == path:
                why = f"{tp}: broker {broker} does not begin to copy it to {path}"
                self._rest(place, why, VAIN_SECONDS)
            elif fault is None:
                done.append([index, broker, path])
                self._taken[place] = path
                self._rests.pop(place, None)
            elif may_pass(fault):
                self._rest(place, f"{tp}: {why}")
            else:
                refused.append([index, broker, f"refused: {why}"])
        if done or refused:
            self._recorder.write(Kind.DIRS_MOVED, replicas=done, refused=refused)

    def _rest(self, place: Place, why: str, longest: float = LONGEST_SECONDS) -> None:
        why = f"{why}: asked again"
        self._recorder.note_waiting(why)
        _, _, last = self._rests.get(place, ("", 0.0, 0.0))
        seconds = min(longest, 2 * last or RETRY_SECONDS)
        self._rests[place] = why, self._clock.monotonic() + seconds, seconds


def _place(run: RunState, index: int, broker: int) -> Place:
    return run.moves[index].move.tp, broker


def replica_locations(
    answers: Iterable[BrokerLogs], places: Collection[Place]
) -> dict[Place, ReplicaLocation]:
    """Return where the replicas at `places` lie, as far as these answers tell.

    A copy in the very log dir of its replica is a remnant: the broker had another one there once.
    """
    wanted = {(tp.topic, tp.partition, broker): (tp, broker) for tp, broker in places}
    now: dict[Place, tuple[str, int]] = {}
    future: dict[Place, str] = {}
    for answer in answers:
        for log in answer.replicas:
            place = wanted.get((log.topic, log.partition, answer.broker))
            if place is None:
                continue
            if log.future:
                future[place] = log.log_dir
            else:
                now[place] = log.log_dir, log.size_bytes
    return {
        place: ReplicaLocation(path, size, None if future.get(place) == path else future.get(place))
        for place, (path, size) in now.items()
    }
