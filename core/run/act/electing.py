"""Electing preferred leaders at a run's end, some at a time, so that clients find the new ones."""

from __future__ import annotations

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.faults import is_missing, leads_already
from core.run.act.resting import AGAIN_SECONDS
from core.run.decide.finishing import next_to_elect
from core.run.record.chronicle import Chronicle
from core.run.record.records import Kind

BETWEEN_ELECTIONS_SECONDS = 1.0
"""What clients of one lot of leaders have to look for the new ones, before the next lot changes."""


def elect(
    client: ClusterClient, clock: Clock, chronicle: Chronicle, indices: tuple[int, ...]
) -> None:
    """Elect preferred leaders of moves; one whose replica is not in sync yet is asked again."""
    chronicle.write(Kind.ELECTING, moves=list(indices))
    moves = chronicle.history.moves
    tps = {moves[i].move.tp: i for i in indices}
    turn = 1 + min(moves[i].elections for i in indices)
    answers = client.elect_leaders(list(tps))
    again: dict[str, str] = {}
    done = []
    for tp, index in tps.items():
        fault = answers.get(tp)
        if leads_already(fault) or is_missing(fault):
            done.append(index)
        else:
            again[str(index)] = str(fault)
    chronicle.write(Kind.ELECTED, moves=done, again=again)
    left = next_to_elect(chronicle.history)
    if not left:
        return
    first = chronicle.history.moves[left[0]]
    if first.elections < turn:
        clock.sleep(BETWEEN_ELECTIONS_SECONDS)
        return
    why = next(iter(again.values()), "others wait as well")
    tp = first.move.tp
    chronicle.note_waiting(f"the preferred leader of {tp} is not elected yet ({why}): asked again")
    clock.sleep(AGAIN_SECONDS)
