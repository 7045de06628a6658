"""Rebase: what of a plan still holds on the cluster as it is by now: a merge of two ways. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.plan.checks.moves import is_in_other_log_dir, missing_log_dirs
from core.plan.plan import ANY, Move, Plan, current_target, log_dir_of
from core.units import id_list


@dataclass(frozen=True, slots=True)
class LostMove:
    """A partition whose move does not hold any more, and why, as the end of a sentence."""

    tp: TopicPartition
    why: str

    def __str__(self) -> str:
        return f"{self.tp} {self.why}"


@dataclass(frozen=True, slots=True)
class RebasedPlan:
    """A plan on a new base; `moved` got another base, `done` are at their target or on the way."""

    plan: Plan
    moved: tuple[TopicPartition, ...] = ()
    done: tuple[TopicPartition, ...] = ()
    lost: tuple[LostMove, ...] = ()

    @property
    def changes(self) -> bool:
        """Return whether the cluster has changed below the plan at all."""
        return bool(self.moved or self.done or self.lost)

    @property
    def words(self) -> str:
        """Return what became of the moves in short: `3 kept, 1 done, 2 lost`."""
        counts = ((len(self.plan), "kept"), (len(self.done), "done"), (len(self.lost), "lost"))
        return ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing in it"


def rebase(state: ClusterState, plan: Plan) -> RebasedPlan:
    """Return `plan` on the base that `state` is; onto what it was made from, it is the same.

    Kept is a move whose partition is as it was, in whichever log dirs; one of which somebody has
    done a part; and one that only puts new brokers in the places of old ones, where replicas were
    re-ordered.
    """
    kept: list[Move] = []
    moved: list[TopicPartition] = []
    done: list[TopicPartition] = []
    lost: list[LostMove] = []
    for move in plan:
        if why := missing_reason(state, move):
            lost.append(LostMove(move.tp, why))
            continue
        now = current_target(state, move.tp)
        still = move.dir_moves.items()  # what stays may have to change its log dir yet
        if now == move.after and all(log_dir_of(state, move.tp, b) == path for b, path in still):
            done.append(move.tp)
            continue
        merged = move if now == move.before else _rebase_move(move, now)
        if merged is not None and is_in_other_log_dir(state, merged):
            held = zip(merged.before, merged.log_dirs_before or (), strict=False)
            dirs_before = (
                path if path == ANY else log_dir_of(state, merged.tp, b) or path for b, path in held
            )
            merged = replace(merged, log_dirs_before=tuple(dirs_before))
        why = _changed(state, move, now) if merged is None else destination_problem(state, merged)
        if merged is None or why:
            lost.append(LostMove(move.tp, why))
        else:
            kept.append(merged)
            if merged is not move:
                moved.append(move.tp)
    return RebasedPlan(replace(plan, moves=tuple(kept)), tuple(moved), tuple(done), tuple(lost))


def missing_reason(state: ClusterState, move: Move) -> str:
    """Return why the partition of a move is not the one it was planned for; "" while it is."""
    topic = state.topic(move.tp.topic)
    if topic is None:
        if state.hidden is not None and state.hidden.takes_rights:
            return "is not seen: its topic has been deleted, or this user may not describe it"
        return "is not there any more: its topic has been deleted"
    if None not in (topic.id, move.topic_id) and topic.id != move.topic_id:
        return "is another topic's by now: the one of the plan was deleted, and made anew"
    return "is not there any more" if state.find(move.tp) is None else ""


def _rebase_move(move: Move, now: tuple[int, ...]) -> Move | None:
    """Return the move from `now` on; None when what others made of it contradicts it."""
    before, after = set(move.before), set(move.after)
    if set(now) == before:
        # Only where new brokers take the places of old ones is it clear what becomes of an order.
        pairs = list(zip(move.before, move.after, strict=False))
        in_place = all(old == new or new not in before for old, new in pairs)
        if len(move.before) != len(move.after) or not in_place:
            return None
        instead = dict(pairs)
        return _from(move, now, tuple(instead[broker] for broker in now))
    if before & after <= set(now) <= before | after:
        return _from(move, now, move.after)
    return None


def _from(move: Move, before: tuple[int, ...], after: tuple[int, ...]) -> Move:
    """Return the move with this base and target, and of its log dirs what still applies."""
    named = {b: path for b, path in move.new_log_dirs.items() if b not in before} | move.dir_moves
    held = dict(zip(move.before, move.log_dirs_before or (), strict=False))
    log_dirs = tuple(named.get(broker, ANY) for broker in after)
    if all(path == ANY for path in log_dirs):
        return replace(move, before=before, after=after, log_dirs=None, log_dirs_before=None)
    dirs_before = tuple(held.get(broker, ANY) for broker in before)
    return replace(move, before=before, after=after, log_dirs=log_dirs, log_dirs_before=dirs_before)


def _changed(state: ClusterState, move: Move, now: Sequence[int]) -> str:
    row = state.find(move.tp)
    assert row is not None, "what is gone does not come here"
    if tuple(now) != state.replicas(row):
        return f"is on its way to {id_list(now)}, as somebody else has asked"
    if set(now) == set(move.before):
        return f"was put in another order by somebody else: {id_list(now)}"
    return f"has {id_list(now)} by now, not {id_list(move.before)}"


def destination_problem(state: ClusterState, move: Move) -> str:
    """Return why nothing can be written where a move would write it, or "" while it can."""
    for broker in move.receiving:
        known = state.broker_by_id.get(broker)
        if known is None:
            return f"would go to broker {broker}, which the cluster does not have any more"
        if not known.alive:
            return f"would go to broker {broker}, which is down"
    for broker, path, how in missing_log_dirs(state, move):
        why = "it does not have" if how == "no" else "is offline"
        return f"would go to log dir {path} of broker {broker}, which {why}"
    return ""
