"""Moves submitted, cancelled and put back in order: each intent journalled, each answer kept."""

from __future__ import annotations

from collections.abc import Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.faults import Fault, is_missing, is_settled, passes
from core.cluster.metadata import TopicPartition
from core.errors import AccessDeniedError
from core.run.act.log_dirs import NOT_YET
from core.run.act.resting import Resting
from core.run.decide.endings import GONE
from core.run.decide.going_on import MOST_JOURNALLED
from core.run.decide.steps import Ending
from core.run.record.chronicle import Chronicle
from core.run.record.history import History, Phase
from core.run.record.records import Kind


class Moving:
    """The moves of one run."""

    def __init__(self, client: ClusterClient, clock: Clock, chronicle: Chronicle) -> None:
        self._client, self._clock, self._chronicle = client, clock, chronicle
        self.submitted = clock.monotonic()
        """When this process last submitted something."""
        self._alone = Resting[TopicPartition](clock)
        self._reordering: tuple[int, ...] = ()

    @property
    def history(self) -> History:
        return self._chronicle.history

    @property
    def left_alone(self) -> dict[TopicPartition, str]:
        """Return which partitions were not taken back and are left alone for now, and why."""
        return self._alone.now

    def was_refused(self, index: int) -> bool:
        """Return whether a move was not taken back when that was last tried."""
        return self.history.moves[index].move.tp in self._alone

    def submit(self, moves: tuple[int, ...]) -> None:
        """Submit moves. What is put off over and over is journalled no more, but for news."""
        batch, begun = self.history.moves[moves[0]].batch, self.history.begun
        known = all(self.history.moves[i].tries >= MOST_JOURNALLED for i in moves)
        if not known:
            self._chronicle.write(Kind.SUBMITTING, batch=batch, moves=list(moves))
        self.submitted = self._clock.monotonic()
        taken: list[int] = []
        again: dict[str, str] = {}
        refused: dict[int, str] = {}
        gone: list[Ending] = []
        try:
            answers: dict[TopicPartition, Fault | None] = dict(self._prefer_dirs(moves))
            moving = {
                self.history.moves[i].move.tp: self.history.moves[i].move.after
                for i in moves
                if self.history.moves[i].move.reassigns
                and self.history.moves[i].move.tp not in answers
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
                fault = answers.get(self.history.moves[i].move.tp)
                if fault is None:
                    taken.append(i)
                elif is_missing(fault):
                    gone.append(Ending(i, Phase.CANCELLED, GONE))
                elif passes(fault):
                    again[str(i)] = str(fault)
                else:
                    refused[i] = f"refused: {fault}"
        # An earlier try may act yet where its answer never came: then the cluster is to show it.
        doubtful = {str(i): why for i, why in refused.items() if self.history.moves[i].tries > 1}
        same = all(self.history.moves[int(i)].put_off == why for i, why in again.items())
        if not known or taken or doubtful or not same:
            self._chronicle.write(
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
            (self.history.moves[i].move.tp, broker): path
            for i in moves
            for broker, path in self.history.moves[i].move.arriving_dirs.items()
        }
        answers = self._client.alter_log_dirs(wanted) if wanted else {}
        return {
            tp: fault
            for (tp, _), fault in answers.items()
            if fault is not None and fault.name != NOT_YET
        }

    def note_ended(self, endings: tuple[Ending, ...], stop: str) -> None:
        self._chronicle.write(
            Kind.MOVED,
            moves=[
                {"index": e.index, "phase": e.phase.value, "why": e.why, "leader": e.leader}
                for e in endings
            ],
            stop=stop,
        )

    def cancel(self, moves: tuple[int, ...]) -> None:
        new = [i for i in moves if not self.history.moves[i].cancel_intended]
        if new:
            self._chronicle.write(Kind.CANCELLING, moves=new)
        answers = self._client.cancel([self.history.moves[i].move.tp for i in moves])
        taken = (i for i in moves if answers.get(self.history.moves[i].move.tp) is None)
        sent = [i for i in taken if not self.history.moves[i].cancel_sent]
        if sent:
            self._chronicle.write(Kind.CANCEL_SENT, moves=sent)
        self._rest("cancelled", answers)

    def reorder(self, moves: tuple[int, ...]) -> None:
        """Submit the journalled order; a move whose order is refused for good ends without it."""
        if moves != self._reordering:
            self._chronicle.write(Kind.REORDERING, moves=list(moves))
        self._reordering = moves
        partitions = {self.history.moves[i].move.tp: i for i in moves}
        answers = self._client.alter_reassignments(
            {tp: self.history.moves[i].move.before for tp, i in partitions.items()}
        )
        taken = [i for tp, i in partitions.items() if answers.get(tp) is None]
        if taken:
            self._chronicle.write(Kind.REORDERED, moves=taken)
            self._reordering = ()
        for_good = {
            tp: f
            for tp, f in answers.items()
            if f is not None and not is_settled(f) and not passes(f)
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
            self._chronicle.note_waiting(next(iter(refused.values())))
