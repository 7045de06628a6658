"""Plan files: a plan becomes one, and one becomes a plan for a cluster.

Whatever does not fit the cluster is one DocumentError: one sentence, and what to do next.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from core.cluster.known_names import name_and_id
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError, rights_advice
from core.plan.checks.catalogue import REBASE
from core.plan.formats.plan_document import FORMAT, MAJOR, MoveBase, PlanDocument, read_document
from core.plan.plan import ANY, Move, Plan, current_target, log_dir_of
from core.text.json_text import compact
from core.units import counted, name_list


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the document that `format_plan_file` writes: to read that back takes four times it."""
    targets: list[dict[str, Any]] = []
    base: list[dict[str, Any]] = []
    for move in plan:
        at = move.tp._asdict()
        dirs = move.log_dirs or (ANY,) * len(move.after)
        targets.append({**at, "replicas": list(move.after), "log_dirs": list(dirs)})
        base.append({**at, "topic_id": move.topic_id, "replicas": list(move.before)})
        if move.log_dirs_before:
            base[-1]["log_dirs"] = list(move.log_dirs_before)
        if move.reason:
            base[-1]["because"] = move.reason
    ours = {"format": f"{FORMAT}/{MAJOR}", "cluster_id": plan.cluster_id or None}
    trimtab = {**ours, "base": base, "notes": list(plan.notes)}
    return {"version": 1, "partitions": targets, "trimtab": trimtab}


def format_plan_file(plan: Plan) -> str:
    """Return the plan file's text: Kafka's form, in its tool's order of keys, plus our `trimtab`.

    It is the one line that Kafka's tool prints. 100,000 moves take a third of the time when each
    topic and list of brokers is written once.
    """
    text = cache(compact)
    targets, base = [], []
    for move in plan:
        head = f'{{"topic":{text(move.tp.topic)},"partition":{move.tp.partition},'
        dirs = move.log_dirs or (ANY,) * len(move.after)
        paths = f',"log_dirs":{text(move.log_dirs_before)}' if move.log_dirs_before else ""
        why = f',"because":{text(move.reason)}' if move.reason else ""
        targets.append(f'{head}"replicas":{text(move.after)},"log_dirs":{text(dirs)}}}')
        base.append(
            f'{head}"topic_id":{text(move.topic_id)},"replicas":{text(move.before)}{paths}{why}}}'
        )
    head = f'"format":"{FORMAT}/{MAJOR}","cluster_id":{text(plan.cluster_id or None)}'
    ours = f'{{{head},"base":[{",".join(base)}],"notes":{text(plan.notes)}}}'
    return f'{{"version":1,"partitions":[{",".join(targets)}],"trimtab":{ours}}}\n'


def read_plan(source: Path | str, state: ClusterState | None = None) -> Plan:
    """Return the plan of a file (a Path) or of JSON text (a str), held against `state`.

    A file without a base of its own takes it from `state`. Raises DocumentError.
    """
    return bind_document(read_document(source), state)


def bind_document(
    document: PlanDocument, state: ClusterState | None, *, loosely: bool = False
) -> Plan:
    """Return the plan that `document` is for the cluster `state`; raises DocumentError.

    `loosely` takes partitions and brokers that the cluster does not have, too: for a rebase.
    """
    if state is not None:
        refuse_other_cluster(document, state)
        if not loosely:
            _refuse_unknown_targets(document, state)
    moves = []
    for tp, target in document.targets.items():
        base = _move_base(document, state, tp)
        move = Move(tp, base.replicas, target, base.topic_id, reason=base.reason)
        moves.append(_with_dirs(document, state, move))
    cluster_id = document.cluster_id or (state.cluster_id if state else None)
    return Plan.of(moves, cluster_id=cluster_id, notes=document.notes)


def refuse_other_cluster(document: PlanDocument, state: ClusterState) -> None:
    """Raise DocumentError when the file says it was made for another cluster."""
    if document.cluster_id is not None and document.cluster_id != state.cluster_id:
        raise DocumentError(
            f"{document.name} is for cluster {name_and_id(document.cluster_id)}; this is "
            f"{name_and_id(state.cluster_id)}.",
            next="Connect to the cluster it was made for, or make a new plan here.",
        )


def _move_base(document: PlanDocument, state: ClusterState | None, tp: TopicPartition) -> MoveBase:
    if document.base is not None and tp in document.base:
        return document.base[tp]
    if state is None:
        raise DocumentError(
            f"{document.name} does not say what {tp} is now, so its changes are unknown.",
            next="Name the cluster: -b HOST:PORT, --cluster NAME or --from FILE.",
        )
    if state.find(tp) is None:
        return MoveBase(())
    topic = state.topic(tp.topic)
    return MoveBase(current_target(state, tp), topic.id if topic else None)


def _with_dirs(document: PlanDocument, state: ClusterState | None, move: Move) -> Move:
    """Return the move with the log dirs that the file asks for, and those that replicas leave.

    Kafka's tool (4.x) writes the present paths into the file that it offers for a rollback: what
    is there already is not asked for.
    """
    named = document.log_dirs.get(move.tp)
    if named is None:
        return move
    base = (document.base or {}).get(move.tp)
    base_dirs = dict(zip(move.before, base.log_dirs, strict=True)) if base and base.log_dirs else {}
    now = {b: (state and log_dir_of(state, move.tp, b)) or ANY for b in move.before}
    held = {b: now[b] if base_dirs.get(b, ANY) == ANY else base_dirs[b] for b in move.before}
    pairs = tuple(zip(move.after, named, strict=True))
    targets = tuple(ANY if path == held.get(broker) else path for broker, path in pairs)
    if all(path == ANY for path in targets):
        return move
    leaving = {b for b, path in zip(move.after, targets, strict=True) if path != ANY}
    leaving |= set(move.removing)
    log_dirs_before = tuple(held[broker] if broker in leaving else ANY for broker in move.before)
    return replace(move, log_dirs=targets, log_dirs_before=log_dirs_before)


def _refuse_unknown_targets(document: PlanDocument, state: ClusterState) -> None:
    name = document.name
    for tp, replicas in document.targets.items():
        if state.find(tp) is None:
            if document.base is not None and tp in document.base:
                raise DocumentError(f"{name} moves {tp}, which is not there any more.", next=REBASE)
            rows = state.partitions_of(tp.topic)
            if not rows:
                hidden = state.hidden is not None and state.hidden.takes_rights
                or_hidden = ", or this user may not describe" if hidden else ""
                takes = f" {rights_advice(f'DESCRIBE on {tp.topic}')}" if hidden else ""
                raise DocumentError(
                    f"{name} names topic {tp.topic}, which the cluster does not have{or_hidden}.",
                    next=f"Correct the name, or remove its partitions from the plan.{takes}",
                )
            raise DocumentError(
                f"{name} names {tp}; {tp.topic} has {counted(len(rows), 'partition')}, counted "
                "from 0.",
                next=f"Remove {tp} from the plan.",
            )
        for broker in replicas:
            if broker not in state.broker_by_id:
                known = name_list(state.broker_ids.tolist(), 12)
                raise DocumentError(
                    f"{name} puts {tp} on broker {broker}, which the cluster does not have.",
                    next=f"Choose one of its brokers: {known}.",
                )


def refuse_unknown_topics(state: ClusterState, topics: tuple[str, ...]) -> None:
    """Raise DocumentError for topics that the cluster does not have."""
    missing = [topic for topic in topics if state.topic(topic) is None]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DocumentError(
            f"The cluster does not have topic {missing[0]}{more}.",
            next="Correct the list of topics to move.",
        )
