"""Submits, cancels and re-orders moves, between brokers and log dirs, and elects leaders.

Each intent is journalled first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_leader_elected, is_missing, is_settled, is_transient
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import TopicPartition
from core.errors import AccessDeniedError
from core.run.backoff import RETRY_SECONDS, Backoff
from core.run.engine.move_outcome import GONE
from core.run.engine.run_completion import next_to_elect
from core.run.engine.submission import MAX_JOURNALLED_TRIES
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.move_state import Phase
from core.run.journal.records import Kind
from core.run.journal.run_state import RunState
from core.run.steps import SETTLE_SECONDS, Ending, Place, ReplicaLocation

LOOK_SECONDS = 1.0
DUTY = 10
"""Log dirs are asked again after ten times as long as the answer took."""
MIN_DIR_RETRY_SECONDS, MAX_DIR_RETRY_SECONDS = 1.0, 30.0
"""How soon what was not taken is asked again: twice as long each time, up to a limit."""
MAX_VAIN_RETRY_SECONDS = 600.0
"""The limit for what brokers take and come to nothing with: each time they begin something."""
NOT_YET = "REPLICA_NOT_AVAILABLE"
"""The broker has no such replica yet: it keeps the log dir in mind for it."""


class LogDirMover:
    """Looks at log dirs as often as moves to them need it, and asks for these moves."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._locations: dict[Place, ReplicaLocation] = {}
        self._unplaced: dict[Place, tuple[str, float]] = {}
        self._due = 0.0
        self.backoff = Backoff[Place](clock)
        self._intended: dict[Place, str] = {}
        """What this process has journalled as intended, and brokers were asked for last."""
        self._taken: dict[Place, str] = {}

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
        self._unplaced = {at: since for at, since in self._unplaced.items() if at[1] in alive}
        if began < self._due or not brokers:
            return {place: of for place, of in self._locations.items() if place[1] in alive}
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
        paths = {(run.moves[i].move.tp, b): path for i, b, path in replicas}
        new = [[i, b, p] for i, b, p in replicas if self._intended.get(_place(run, i, b)) != p]
        if new:
            self._recorder.write(Kind.DIRS_MOVING, replicas=new)
        self._intended |= paths
        answers = self._client.alter_log_dirs(paths)
        self.forget()
        done, refused = [], []
        for index, broker, path in replicas:
            place = tp, _ = _place(run, index, broker)
            fault = answers.get(place, Fault("REQUEST_TIMED_OUT"))
            why = f"its replica on broker {broker} is not moved to {path} ({fault})"
            if fault is None and self._taken.get(place) == path:
                why = f"{tp}: broker {broker} does not begin to copy it to {path}"
                self._back_off(place, why, MAX_VAIN_RETRY_SECONDS)
            elif fault is None:
                done.append([index, broker, path])
                self._taken[place] = path
                self.backoff.taken(place)
            elif fault.name == NOT_YET or is_transient(fault):  # it may yet have it there
                self._back_off(place, f"{tp}: {why}")
            else:
                refused.append([index, broker, f"refused: {why}"])
        if done or refused:
            self._recorder.write(Kind.DIRS_MOVED, replicas=done, refused=refused)

    def _back_off(self, place: Place, why: str, max_seconds: float = MAX_DIR_RETRY_SECONDS) -> None:
        why = f"{why}: asked again"
        self._recorder.note_waiting(why)
        self.backoff.refused(place, why, MIN_DIR_RETRY_SECONDS, max_seconds)


def _place(run: RunState, index: int, broker: int) -> Place:
    return run.moves[index].move.tp, broker


def replica_locations(
    answers: Iterable[BrokerLogs], places: Collection[Place]
) -> dict[Place, ReplicaLocation]:
    """Return where the replicas at `places` lie, as far as these answers tell.

    A copy in the very log dir of its replica is a remnant: the broker had another one there once.
    """
    keys = {(tp.topic, tp.partition, broker): (tp, broker) for tp, broker in places}
    now: dict[Place, tuple[str, int]] = {}
    future: dict[Place, str] = {}
    for answer in answers:
        for log in answer.replicas:
            place = keys.get((log.topic, log.partition, answer.broker))
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


class Mover:
    """The moves of one run."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._state = recorder.state
        self.submitted = clock.monotonic()
        """When this process last submitted something."""
        self.backoff = Backoff[TopicPartition](clock)

    def submit(self, moves: tuple[int, ...]) -> None:
        """Submit moves. What is put off over and over is journalled no more, but for news."""
        run = self._state
        batch, begun = run.moves[moves[0]].batch, run.begun
        known = all(run.moves[i].tries >= MAX_JOURNALLED_TRIES for i in moves)
        if not known:
            self._recorder.write(Kind.SUBMITTING, batch=batch, moves=list(moves))
        self.submitted = self._clock.monotonic()
        taken: list[int] = []
        retries: dict[str, str] = {}
        refused: dict[int, str] = {}
        gone: list[Ending] = []
        try:
            answers: dict[TopicPartition, Fault | None] = dict(self._submit_log_dirs(moves))
            moving = {
                move.tp: move.after
                for move in (run.moves[i].move for i in moves)
                if move.reassigns and move.tp not in answers
            }
            if moving:
                answers |= self._client.alter_reassignments(moving)
        except AccessDeniedError as error:
            if begun:  # rights that were there a moment ago may come back
                why = f"{error.reason}; give the run's user its rights back"
                retries = dict.fromkeys(map(str, moves), why)
            else:
                refused = dict.fromkeys(moves, error.reason)
        else:
            self.submitted = self._clock.monotonic()
            for i in moves:
                fault = answers.get(run.moves[i].move.tp)
                if fault is None:
                    taken.append(i)
                elif is_missing(fault):
                    gone.append(Ending(i, Phase.CANCELLED, GONE))
                elif is_transient(fault):
                    retries[str(i)] = str(fault)
                else:
                    refused[i] = f"refused: {fault}"
        # An earlier try may act yet where its answer never came: then the cluster is to show it.
        doubtful = {str(i): why for i, why in refused.items() if run.moves[i].tries > 1}
        same = all(run.moves[int(i)].put_off == why for i, why in retries.items())
        if not known or taken or doubtful or not same:
            self._recorder.write(
                Kind.SUBMITTED, batch=batch, moves=taken, again=retries, refused=doubtful
            )
        failed = [Ending(i, Phase.FAILED, w) for i, w in refused.items() if str(i) not in doubtful]
        if gone or failed:
            self.note_ended((*gone, *failed), "")

    def _submit_log_dirs(self, moves: tuple[int, ...]) -> dict[TopicPartition, Fault]:
        """Tell brokers in which log dir new replicas are to be made; return what they refuse.

        A broker keeps that in mind for a replica that it has not (REPLICA_NOT_AVAILABLE), until it
        restarts; Kafka's own tool moves the replica afterwards, which copies it twice.
        """
        paths = {
            (move.tp, broker): path
            for move in (self._state.moves[i].move for i in moves)
            for broker, path in move.new_log_dirs.items()
        }
        answers = self._client.alter_log_dirs(paths) if paths else {}
        return {
            tp: fault
            for (tp, _), fault in answers.items()
            if fault is not None and fault.name != NOT_YET
        }

    def note_ended(self, endings: tuple[Ending, ...], stop: str) -> None:
        self._recorder.write(
            Kind.MOVED,
            moves=[
                {"index": e.index, "phase": e.phase.value, "why": e.why, "leader": e.leader}
                for e in endings
            ],
            stop=stop,
        )

    def cancel(self, moves: tuple[int, ...]) -> None:
        of = self._state.moves
        new = [i for i in moves if not of[i].cancel_intended]
        if new:
            self._recorder.write(Kind.CANCELLING, moves=new)
        answers = self._client.cancel_reassignments([of[i].move.tp for i in moves])
        taken = (i for i in moves if answers.get(of[i].move.tp) is None)
        sent = [i for i in taken if not of[i].cancel_sent]
        if sent:
            self._recorder.write(Kind.CANCEL_SENT, moves=sent)
        self._back_off("cancelled", answers)

    def reorder(self, moves: tuple[int, ...]) -> None:
        """Submit the journalled order; a move whose order is refused for good ends without it."""
        self._recorder.intend_once(Kind.REORDERING, moves=list(moves))
        partitions = {self._state.moves[i].move.tp: i for i in moves}
        before = {tp: self._state.moves[i].move.before for tp, i in partitions.items()}
        answers = self._client.alter_reassignments(before)
        taken = [i for tp, i in partitions.items() if answers.get(tp) is None]
        if taken:
            self._recorder.record_outcome(Kind.REORDERED, moves=taken)
        for_good = {
            tp: f
            for tp, f in answers.items()
            if f is not None and not is_settled(f) and not is_transient(f)
        }
        if for_good:
            why = "cancelled, but its order as before was refused"
            endings = [
                Ending(partitions[tp], Phase.FAILED, f"{why}: {f}") for tp, f in for_good.items()
            ]
            self.note_ended(tuple(endings), "")
        left = {tp: fault for tp, fault in answers.items() if tp not in for_good}
        self._back_off("put back in its order", left)

    def _back_off(self, what: str, answers: Mapping[TopicPartition, Fault | None]) -> None:
        """Leave what the cluster did not take alone for a while: it is asked again."""
        refused = {
            tp: f"{tp} is not {what} yet ({fault}): it is asked again"
            for tp, fault in answers.items()
            if fault is not None and not is_settled(fault)
        }
        self.backoff.tried(answers, refused)
        if refused:
            self._recorder.note_waiting(next(iter(refused.values())))


BETWEEN_ELECTIONS_SECONDS = 1.0
"""What clients of one lot of leaders have to look for the new ones, before the next lot changes."""


def elect(
    client: ClusterClient, clock: Clock, recorder: RunRecorder, indices: tuple[int, ...]
) -> None:
    """Elect preferred leaders of moves; one whose replica is not in sync yet is asked again."""
    recorder.write(Kind.ELECTING, moves=list(indices))
    moves = recorder.state.moves
    tps = {moves[i].move.tp: i for i in indices}
    turn = 1 + min(moves[i].elections for i in indices)
    answers = client.elect_leaders(list(tps))
    retries: dict[str, str] = {}
    done = []
    for tp, index in tps.items():
        fault = answers.get(tp)
        if is_leader_elected(fault) or is_missing(fault):
            done.append(index)
        else:
            retries[str(index)] = str(fault)
    recorder.write(Kind.ELECTED, moves=done, again=retries)
    left = next_to_elect(recorder.state)
    if not left:
        return
    first = recorder.state.moves[left[0]]
    if first.elections < turn:
        clock.sleep(BETWEEN_ELECTIONS_SECONDS)
        return
    why = next(iter(retries.values()), "others wait as well")
    tp = first.move.tp
    recorder.note_waiting(f"the preferred leader of {tp} is not elected yet ({why}): asked again")
    clock.sleep(RETRY_SECONDS)
