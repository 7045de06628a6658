"""Log dir moves of a run: which are due, and which are done. Pure.

A replica can be copied to another log dir once it is there and its reassignment is over; where a
new one is made in the right place (core.run.engine.mover), nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.run.journal.move_state import DIRS_AS_BEFORE, MoveRequest, Phase, RunMove
from core.run.journal.run_state import RunState
from core.run.steps import Ending, MoveDirs, Observation, ReplicaLocation


def move_dirs(run: RunState, observed: Observation) -> MoveDirs | None:
    """Replicas are to lie in another log dir, or are to stay where they are after all."""
    due = tuple(
        (index, broker, path)
        for index in run.in_flight
        for broker, path in _due(run.moves[index], observed)
        if (run.moves[index].move.tp, broker) not in observed.dirs_left_alone
    )
    return MoveDirs(due) if due else None


def _due(m: RunMove, observed: Observation) -> Iterator[tuple[int, str]]:
    """Yield the replicas of a move that are to be asked to another log dir, and to which."""
    tp = m.move.tp
    listed, row = observed.reassignments.get(tp), observed.rows.get(tp)
    now = listed.target if listed else row.replicas if row else m.move.after
    if now not in (m.move.after, m.move.before) and observed.is_settled(tp):
        yield from copies(m, observed).items()  # somebody else has given it other replicas
    elif not listed and row is not None and row.replicas == m.move.after:
        for broker, path in goals(m, observed).items():
            location = observed.locations.get((tp, broker))
            if location is None:
                # Its broker is asked all the same: it may say for good that it cannot.
                if (tp, broker) in observed.unplaced and m.request is not MoveRequest.CANCEL:
                    yield broker, path
            elif (location.future or location.path) != path:
                yield broker, path


def copies(m: RunMove, observed: Observation) -> dict[int, str]:
    """Return where replicas lie of which a copy that we asked for is under way, by broker."""
    return {
        broker: location.path
        for broker, path in m.move.target_log_dirs.items()
        if (location := observed.locations.get((m.move.tp, broker))) is not None
        and location.future == path
        and broker not in m.dirs_refused
    }


def goals(m: RunMove, observed: Observation) -> dict[int, str]:
    """Return in which log dir replicas are to lie now, by broker.

    What is taken back goes to where it was found, unless its reassignment is done: then it stays
    where it is, as it does where that is not known or its broker has refused that for good. What
    lies in no log dir has nothing to be taken back.
    """
    move = m.move
    if m.request is not MoveRequest.CANCEL:
        return {b: path for b, path in move.target_log_dirs.items() if b not in m.dirs_refused}
    base_dirs = {} if move.reassigns else move.base_log_dirs
    back = {}
    for broker in move.target_log_dirs:
        location = observed.locations.get((move.tp, broker))
        stays = broker not in base_dirs or broker in m.dirs_refused
        if location is None:
            if not stays and (move.tp, broker) not in observed.unplaced:
                back[broker] = base_dirs[broker]
        else:
            back[broker] = location.path if stays else base_dirs[broker]
    return back


def ending(
    index: int, m: RunMove, observed: Observation, leader: int, *, left: bool = False
) -> Ending | None:
    """Return how a move ended whose replicas are as planned, or None while log dirs are open.

    One that is cancelled waits for brokers that are down, unless what they have is to be `left`.
    """
    paths, tp, cancelled = m.move.target_log_dirs, m.move.tp, m.request is MoveRequest.CANCEL
    location = {broker: observed.locations.get((tp, broker)) for broker in paths}
    if all(_is_in(location[broker], path) for broker, path in paths.items()):
        return Ending(index, Phase.DONE, leader=leader)
    over = {b: why for b in paths if (why := _over(m, observed, b, left=left and cancelled))}
    open_ = {b: path for b, path in goals(m, observed).items() if not over.get(b)}
    known = all(broker in open_ or broker in over for broker in paths)
    if not known or not all(_is_in(location[broker], path) for broker, path in open_.items()):
        return None
    if not cancelled:
        return Ending(index, Phase.FAILED, next(iter(m.dirs_refused.values())), leader)
    if m.move.reassigns:
        elsewhere = next(b for b, path in paths.items() if not _is_in(location[b], path))
        why = f"done, but its replica on broker {elsewhere} is not in {paths[elsewhere]}"
        return Ending(index, Phase.DONE, why, leader)
    reasons = (f"cancelled; {why}" for why in over.values())
    return Ending(index, Phase.CANCELLED, next(reasons, DIRS_AS_BEFORE), leader)


def _over(m: RunMove, observed: Observation, broker: int, *, left: bool) -> str:
    """Return why nothing more is to come of a replica that is not where it should be, or ""."""
    place = m.move.tp, broker
    location, refused = observed.locations.get(place), m.dirs_refused.get(broker, "")
    if m.request is not MoveRequest.CANCEL:
        return refused
    if location is None and place in observed.unplaced:
        return observed.unplaced[place]
    if location is not None and refused and location.path != m.move.base_log_dirs.get(broker):
        # A copy to where it was refused may be under way still: that goes first.
        return "" if location.future else f"its replica on broker {broker} stays in {location.path}"
    if left and broker not in observed.alive:
        return copy_left(broker)
    return ""


def copy_left(broker: int) -> str:
    """Return why a cancelled move has ended of which a broker that is down may go on copying."""
    return f"broker {broker} is down: a copy that it had begun goes on when it returns"


def _is_in(location: ReplicaLocation | None, path: str) -> bool:
    return location is not None and location.path == path and location.future is None


def silent_broker(m: RunMove, observed: Observation) -> int | None:
    """Return a broker that does not tell where a replica of a move lies, which is waited for."""
    for broker in m.move.target_log_dirs:
        place = m.move.tp, broker
        if broker in observed.alive and place not in observed.locations.keys() | observed.unplaced:
            return broker
    return None
