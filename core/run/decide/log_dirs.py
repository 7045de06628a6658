"""Replicas that are to lie in a certain log dir of their broker: what is due, and what is over.

A replica can be copied to another log dir once it is there and its reassignment is over; where a
new one is made in the right place (core.run.act.moving), nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.run.decide.steps import Ending, Lies, MoveDirs, Observed
from core.run.record.history import History, MoveHistory, Phase
from core.run.record.moves import Wish


def move_dirs(history: History, observed: Observed) -> MoveDirs | None:
    """Replicas are to lie in another log dir, or are to stay where they are after all."""
    due = tuple(_due(history, observed))
    return MoveDirs(due) if due else None


def _due(history: History, observed: Observed) -> Iterator[tuple[int, int, str]]:
    for index in history.in_flight:
        m = history.moves[index]
        tp, row = m.move.tp, observed.rows.get(m.move.tp)
        if _strayed(m, observed):
            for broker, path in copies(m, observed).items():
                if (tp, broker) not in observed.dirs_left_alone:
                    yield index, broker, path
            continue
        if tp in observed.reassignments or row is None or row.replicas != m.move.after:
            continue
        for broker, path in goals(m, observed).items():
            lies = observed.lies.get((tp, broker))
            if lies is None or (tp, broker) in observed.dirs_left_alone:
                continue
            on_its_way = lies.future or lies.path
            if on_its_way != path:
                yield index, broker, path


def _strayed(m: MoveHistory, observed: Observed) -> bool:
    """Return whether somebody else has certainly given a partition other replicas."""
    listed, row = observed.reassignments.get(m.move.tp), observed.rows.get(m.move.tp)
    now = listed.target if listed else row.replicas if row else m.move.after
    return now not in (m.move.after, m.move.before) and observed.is_settled(m.move.tp)


def copies(m: MoveHistory, observed: Observed) -> dict[int, str]:
    """Return where replicas lie of which a copy that we asked for is under way, by broker."""
    return {
        broker: lies.path
        for broker, path in m.move.wanted_dirs.items()
        if (lies := observed.lies.get((m.move.tp, broker))) is not None
        and lies.future == path
        and broker not in m.dirs_refused
    }


def goals(m: MoveHistory, observed: Observed) -> dict[int, str]:
    """Return in which log dirs replicas are to lie now, by broker.

    What is taken back goes to where it was found, unless its reassignment is done: then it stays
    where it is, as it does where that is not known.
    """
    move = m.move
    wanted = {b: path for b, path in move.wanted_dirs.items() if b not in m.dirs_refused}
    if m.wish is not Wish.CANCEL:
        return wanted
    found = {} if move.reassigns else move.found_dirs
    back = {}
    for broker in move.wanted_dirs:
        lies = observed.lies.get((move.tp, broker))
        if broker in found or lies is not None:
            back[broker] = found.get(broker) or (lies.path if lies else "")
    return back


def ending(index: int, m: MoveHistory, observed: Observed, leader: int) -> Ending | None:
    """Return how a move ended whose replicas are as planned, or None while log dirs are open."""
    wanted = m.move.wanted_dirs
    if not wanted:
        return Ending(index, Phase.DONE, leader=leader)
    lies = {broker: observed.lies.get((m.move.tp, broker)) for broker in wanted}
    if all(_is_in(lies[broker], path) for broker, path in wanted.items()):
        return Ending(index, Phase.DONE, leader=leader)
    goal = goals(m, observed)
    known = all(broker in goal or broker in m.dirs_refused for broker in wanted)
    if not known or not all(_is_in(lies[broker], path) for broker, path in goal.items()):
        return None
    if m.wish is not Wish.CANCEL:
        return Ending(index, Phase.FAILED, next(iter(m.dirs_refused.values())), leader)
    if m.move.reassigns:
        left = next(b for b, path in wanted.items() if not _is_in(lies[b], path))
        why = f"done, but its replica on broker {left} is not in {wanted[left]}"
        return Ending(index, Phase.DONE, why, leader)
    return Ending(index, Phase.CANCELLED, "cancelled, log dirs as before", leader)


def _is_in(lies: Lies | None, path: str) -> bool:
    return lies is not None and lies.path == path and lies.future is None


def untold(m: MoveHistory, observed: Observed) -> int | None:
    """Return a broker that does not tell where a replica of a move lies, which is waited for."""
    for broker in m.move.wanted_dirs:
        if broker in observed.alive and (m.move.tp, broker) not in observed.lies:
            return broker
    return None
