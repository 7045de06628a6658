"""Log dirs of one run: where replicas lie, and having them copied to where they are to lie."""

from __future__ import annotations

from collections.abc import Collection

from core.clock import Clock
from core.cluster.client import ClusterClient, Fault
from core.cluster.faults import passes
from core.run.decide.steps import Lies, Place
from core.run.record.chronicle import Chronicle
from core.run.record.history import History
from core.run.record.records import Kind

LOOK_SECONDS = 1.0
DUTY = 10
"""Log dirs are asked again after ten times as long as the answer took."""
AGAIN_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""How soon what was not taken is asked again: twice as long each time, up to a limit."""
NOT_YET = "REPLICA_NOT_AVAILABLE"
"""The broker has no such replica yet: it keeps the log dir in mind for it."""


def may_pass(fault: Fault) -> bool:
    """Return whether a broker may yet have the replica in the log dir asked for."""
    return fault.name == NOT_YET or passes(fault)


class LogDirs:
    """Looks at log dirs as often as moves to them need it, and asks for these moves."""

    def __init__(self, client: ClusterClient, clock: Clock, chronicle: Chronicle) -> None:
        self._client, self._clock, self._chronicle = client, clock, chronicle
        self._lies: dict[Place, Lies] = {}
        self._due = 0.0
        self._rests: dict[Place, tuple[str, float, float]] = {}
        self._intended: object = None

    @property
    def left_alone(self) -> dict[Place, str]:
        """Return which replicas' moves were not taken and are left alone for now, and why."""
        now = self._clock.monotonic()
        return {place: why for place, (why, until, _) in self._rests.items() if now < until}

    def forget(self) -> None:
        """Look anew next time: something has been changed."""
        self._due = 0.0

    def look(self, history: History, alive: Collection[int]) -> dict[Place, Lies]:
        """Return where replicas lie that moves in flight want in a certain log dir."""
        moves = [history.moves[i].move for i in history.in_flight]
        places = {(move.tp, broker) for move in moves for broker in move.wanted_dirs}
        brokers = sorted({broker for _, broker in places} & set(alive))
        began = self._clock.monotonic()
        if began < self._due or not brokers:
            return {place: lies for place, lies in self._lies.items() if place[1] in alive}
        self._lies = lying(self._client, brokers, places)
        took = self._clock.monotonic() - began
        self._due = began + max(LOOK_SECONDS, DUTY * took)
        return self._lies

    def move(self, replicas: tuple[tuple[int, int, str], ...]) -> None:
        """Ask for moves to log dirs; what is refused for good is journalled as that."""
        history = self._chronicle.history
        wanted = {(history.moves[i].move.tp, b): path for i, b, path in replicas}
        payload = [[index, broker, path] for index, broker, path in replicas]
        if self._intended != payload:
            self._chronicle.write(Kind.DIRS_MOVING, replicas=payload)
        self._intended = payload
        answers = self._client.alter_log_dirs(wanted)
        self.forget()
        done, refused = [], []
        for index, broker, path in replicas:
            tp = history.moves[index].move.tp
            fault = answers.get((tp, broker), Fault("REQUEST_TIMED_OUT"))
            why = f"its replica on broker {broker} is not moved to {path} ({fault})"
            if fault is None:
                done.append([index, broker, path])
                self._rests.pop((tp, broker), None)
            elif may_pass(fault):
                self._rest((tp, broker), f"{tp}: {why}: asked again")
            else:
                refused.append([index, broker, f"refused: {why}"])
        if done or refused:
            self._chronicle.write(Kind.DIRS_MOVED, replicas=done, refused=refused)
            self._intended = None

    def _rest(self, place: Place, why: str) -> None:
        self._chronicle.note_waiting(why)
        _, _, last = self._rests.get(place, ("", 0.0, 0.0))
        seconds = min(LONGEST_SECONDS, 2 * last or AGAIN_SECONDS)
        self._rests[place] = why, self._clock.monotonic() + seconds, seconds


def lying(
    client: ClusterClient, brokers: Collection[int], places: Collection[Place]
) -> dict[Place, Lies]:
    """Return where the replicas at `places` lie, as far as these brokers tell."""
    wanted = {(tp.topic, tp.partition, broker): (tp, broker) for tp, broker in places}
    now: dict[Place, tuple[str, int]] = {}
    future: dict[Place, str] = {}
    for answer in client.log_dirs(sorted(brokers)):
        for log in answer.replicas:
            place = wanted.get((log.topic, log.partition, answer.broker))
            if place is None:
                continue
            if log.future:
                future[place] = log.log_dir
            else:
                now[place] = log.log_dir, log.size_bytes
    return {place: Lies(*found, future.get(place)) for place, found in now.items()}
