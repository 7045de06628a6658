"""Submits, cancels and re-orders moves, and elects leaders: each intent is journalled first."""

from __future__ import annotations

from collections.abc import Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_leader_elected, is_missing, is_settled, is_transient
from core.cluster.metadata import TopicPartition
from core.errors import AccessDeniedError
from core.run.backoff import RETRY_SECONDS, Backoff
from core.run.engine.log_dir_mover import NOT_YET
from core.run.engine.move_outcome import GONE
from core.run.engine.run_completion import next_to_elect
from core.run.engine.submission import MAX_JOURNALLED_TRIES
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.move_state import Phase
from core.run.journal.records import Kind
from core.run.journal.replay import RunState
from core.run.steps import Ending


class Mover:
    """The moves of one run."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self.submitted = clock.monotonic()
        """When this process last submitted something."""
        self._alone = Backoff[TopicPartition](clock)
        self._reordering: tuple[int, ...] = ()

    @property
    def state(self) -> RunState:
        return self._recorder.state

    @property
    def left_alone(self) -> dict[TopicPartition, str]:
        """Return which partitions were not taken back and are left alone for now, and why."""
        return self._alone.now

    def was_refused(self, index: int) -> bool:
        """Return whether a move was not taken back when that was last tried."""
        return self.state.moves[index].move.tp in self._alone

    def submit(self, moves: tuple[int, ...]) -> None:
        """Submit moves. What is put off over and over is journalled no more, but for news."""
        batch, begun = self.state.moves[moves[0]].batch, self.state.begun
        known = all(self.state.moves[i].tries >= MAX_JOURNALLED_TRIES for i in moves)
        if not known:
            self._recorder.write(Kind.SUBMITTING, batch=batch, moves=list(moves))
        self.submitted = self._clock.monotonic()
        taken: list[int] = []
        again: dict[str, str] = {}
        refused: dict[int, str] = {}
        gone: list[Ending] = []
        try:
            answers: dict[TopicPartition, Fault | None] = dict(self._prefer_dirs(moves))
            moving = {
                self.state.moves[i].move.tp: self.state.moves[i].move.after
                for i in moves
                if self.state.moves[i].move.reassigns and self.state.moves[i].move.tp not in answers
            }
            if moving:
                answers |= self._client.alter_reassignments(moving)
        except AccessDeniedError as error:
            if begun:  # rights that were there a moment ago may come back
                why = f"{error.title.rstrip('.')}; give the run's user its rights back"
                again = dict.fromkeys(map(str, moves), why)
            else:
                refused = dict.fromkeys(moves, error.title)
        else:
            self.submitted = self._clock.monotonic()
            for i in moves:
                fault = answers.get(self.state.moves[i].move.tp)
                if fault is None:
                    taken.append(i)
                elif is_missing(fault):
                    gone.append(Ending(i, Phase.CANCELLED, GONE))
                elif is_transient(fault):
                    again[str(i)] = str(fault)
                else:
                    refused[i] = f"refused: {fault}"
        # An earlier try may act yet where its answer never came: then the cluster is to show it.
        doubtful = {str(i): why for i, why in refused.items() if self.state.moves[i].tries > 1}
        same = all(self.state.moves[int(i)].put_off == why for i, why in again.items())
        if not known or taken or doubtful or not same:
            self._recorder.write(
                Kind.SUBMITTED, batch=batch, moves=taken, again=again, refused=doubtful
            )
        failed = [Ending(i, Phase.FAILED, w) for i, w in refused.items() if str(i) not in doubtful]
        if gone or failed:
            self.note_ended((*gone, *failed), "")

    def _prefer_dirs(self, moves: tuple[int, ...]) -> dict[TopicPartition, Fault]:
        """Tell brokers in which log dir new replicas are to be made; return what they refuse.

        A broker keeps that in mind for a replica that it has not (REPLICA_NOT_AVAILABLE), until it
        restarts; Kafka's own tool moves the replica afterwards, which copies it twice.
        """
        wanted = {
            (self.state.moves[i].move.tp, broker): path
            for i in moves
            for broker, path in self.state.moves[i].move.new_log_dirs.items()
        }
        answers = self._client.alter_log_dirs(wanted) if wanted else {}
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
        new = [i for i in moves if not self.state.moves[i].cancel_intended]
        if new:
            self._recorder.write(Kind.CANCELLING, moves=new)
        answers = self._client.cancel_reassignments([self.state.moves[i].move.tp for i in moves])
        taken = (i for i in moves if answers.get(self.state.moves[i].move.tp) is None)
        sent = [i for i in taken if not self.state.moves[i].cancel_sent]
        if sent:
            self._recorder.write(Kind.CANCEL_SENT, moves=sent)
        self._rest("cancelled", answers)

    def reorder(self, moves: tuple[int, ...]) -> None:
        """Submit the journalled order; a move whose order is refused for good ends without it."""
        if moves != self._reordering:
            self._recorder.write(Kind.REORDERING, moves=list(moves))
        self._reordering = moves
        partitions = {self.state.moves[i].move.tp: i for i in moves}
        answers = self._client.alter_reassignments(
            {tp: self.state.moves[i].move.before for tp, i in partitions.items()}
        )
        taken = [i for tp, i in partitions.items() if answers.get(tp) is None]
        if taken:
            self._recorder.write(Kind.REORDERED, moves=taken)
            self._reordering = ()
        for_good = {
            tp: f
            for tp, f in answers.items()
            if f is not None and not is_settled(f) and not is_transient(f)
        }
        why = "cancelled, but its order as before was refused"
        if for_good:
            endings = (
                Ending(partitions[tp], Phase.FAILED, f"{why}: {f}") for tp, f in for_good.items()
            )
            self.note_ended(tuple(endings), "")
        self._rest(
            "put back in its order", {tp: f for tp, f in answers.items() if tp not in for_good}
        )

    def _rest(self, what: str, answers: Mapping[TopicPartition, Fault | None]) -> None:
        """Leave what the cluster did not take alone for a while: it is asked again."""
        refused = {
            tp: f"{tp} is not {what} yet ({fault}): it is asked again"
            for tp, fault in answers.items()
            if fault is not None and not is_settled(fault)
        }
        self._alone.tried(answers, refused)
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
    again: dict[str, str] = {}
    done = []
    for tp, index in tps.items():
        fault = answers.get(tp)
        if is_leader_elected(fault) or is_missing(fault):
            done.append(index)
        else:
            again[str(index)] = str(fault)
    recorder.write(Kind.ELECTED, moves=done, again=again)
    left = next_to_elect(recorder.state)
    if not left:
        return
    first = recorder.state.moves[left[0]]
    if first.elections < turn:
        clock.sleep(BETWEEN_ELECTIONS_SECONDS)
        return
    why = next(iter(again.values()), "others wait as well")
    tp = first.move.tp
    recorder.note_waiting(f"the preferred leader of {tp} is not elected yet ({why}): asked again")
    clock.sleep(RETRY_SECONDS)
