"""Plan files: Kafka's reassignment JSON in and out, with one `trimtab` object of ours beside it.

Kafka's ReassignPartitionsCommand reads `version` and `partitions` and ignores every other key, so
one file serves both. The `trimtab` object holds what Kafka's form cannot: which cluster, the topic
ids, ordered replicas and log dirs that the plan was made from, and why each move is in it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.plan.findings import REBASE
from core.plan.plan import ANY, Move, Plan, current_target, log_dir_of
from core.plan.plan_document import FORMAT, MAJOR, Base, PlanDocument, read_document
from core.text.json import compact

# -- out ---------------------------------------------------------------------------------------


def to_kafka(plan: Plan) -> dict[str, Any]:
    """Return Kafka's own form, keys in Kafka's order; nothing of ours in it."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": move.tp.topic,
                "partition": move.tp.partition,
                "replicas": list(move.after),
                "log_dirs": list(move.log_dirs or [ANY] * len(move.after)),
            }
            for move in plan
        ],
    }


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the plan file: Kafka's form plus our `trimtab` object."""
    base = [
        {
            "topic": move.tp.topic,
            "partition": move.tp.partition,
            "topic_id": move.topic_id,
            "replicas": list(move.before),
        }
        | ({"log_dirs": list(move.log_dirs_before)} if move.log_dirs_before else {})
        | ({"because": move.because} if move.because else {})
        for move in plan
    ]
    return to_kafka(plan) | {
        "trimtab": {
            "format": f"{FORMAT}/{MAJOR}",
            "cluster_id": plan.cluster_id or None,
            "base": base,
            "notes": list(plan.notes),
        }
    }


def dump(plan: Plan) -> str:
    """Return the plan file's text, in the one line that Kafka's tool prints.

    It is the document's. Plans repeat themselves: 100,000 moves take a third of the time when
    each topic and each list of brokers is written once.
    """
    text = cache(compact)
    targets, base = [], []
    for move in plan:
        head = f'{{"topic":{text(move.tp.topic)},"partition":{move.tp.partition},'
        dirs = move.log_dirs or (ANY,) * len(move.after)
        found = f',"log_dirs":{text(move.log_dirs_before)}' if move.log_dirs_before else ""
        why = f',"because":{text(move.because)}' if move.because else ""
        targets.append(f'{head}"replicas":{text(move.after)},"log_dirs":{text(dirs)}}}')
        base.append(
            f'{head}"topic_id":{text(move.topic_id)},"replicas":{text(move.before)}{found}{why}}}'
        )
    frame = compact(to_document(replace(plan, moves=())))
    before, _, rest = frame.partition('"partitions":[]')
    between, _, after = rest.partition('"base":[]')
    return f'{before}"partitions":[{",".join(targets)}]{between}"base":[{",".join(base)}]{after}\n'


# -- in ----------------------------------------------------------------------------------------


def read_plan(source: Path | str, state: ClusterState | None = None) -> Plan:
    """Return the plan of a file (a Path) or of JSON text (a str), held against `state`.

    A file without a base of its own takes it from `state`. Raises DocumentError, one sentence
    and what to do next, for every file that cannot be carried out as it is; whether the cluster
    has changed since the plan was made is `core.plan.check`'s to say.
    """
    return bind(read_document(source), state)


def bind(document: PlanDocument, state: ClusterState | None, *, loosely: bool = False) -> Plan:
    """Return the plan that `document` is for the cluster `state`; raises DocumentError.

    `loosely` takes partitions and brokers that the cluster does not have, too: for a rebase.
    """
    if state is not None and loosely:
        refuse_other_cluster(document, state)
    elif state is not None:
        _refuse_misfits(document, state)
    moves = []
    for tp, target in document.targets.items():
        base = _base_of(document, state, tp)
        move = Move(tp, base.replicas, target, base.topic_id, because=base.because)
        moves.append(_with_dirs(document, state, move))
    cluster_id = document.cluster_id or (state.cluster_id if state else None)
    return Plan.of(moves, cluster_id=cluster_id, notes=document.notes)


def refuse_other_cluster(document: PlanDocument, state: ClusterState) -> None:
    """Raise DocumentError when the file says it was made for another cluster."""
    if document.cluster_id is not None and document.cluster_id != state.cluster_id:
        raise DocumentError(
            f"{document.name} is for cluster {document.cluster_id}; this is {state.cluster_id}.",
            next="Connect to the cluster it was made for, or make a new plan here.",
        )


def _base_of(document: PlanDocument, state: ClusterState | None, tp: TopicPartition) -> Base:
    if document.base is not None and tp in document.base:
        return document.base[tp]
    if state is None:
        raise DocumentError(
            f"{document.name} does not say what {tp} is now, so its changes are unknown.",
            next="Name the cluster: -b HOST:PORT, --cluster NAME or --from FILE.",
        )
    if state.find(tp) is None:
        return Base(())
    topic = state.topic(tp.topic)
    return Base(current_target(state, tp), topic.id if topic else None)


def _with_dirs(document: PlanDocument, state: ClusterState | None, move: Move) -> Move:
    """Return the move with the log dirs that the file asks for, and those that replicas leave.

    Kafka's tool (4.x) writes the present paths into the file that it offers for a rollback: what
    is there already is not asked for.
    """
    named = document.log_dirs.get(move.tp)
    if named is None:
        return move
    base = (document.base or {}).get(move.tp)
    told = dict(zip(move.before, base.log_dirs, strict=True)) if base and base.log_dirs else {}
    now = {b: (state and log_dir_of(state, move.tp, b)) or ANY for b in move.before}
    held = {b: now[b] if told.get(b, ANY) == ANY else told[b] for b in move.before}
    pairs = tuple(zip(move.after, named, strict=True))
    wanted = tuple(ANY if path == held.get(broker) else path for broker, path in pairs)
    if all(path == ANY for path in wanted):
        return move
    leaving = {b for b, path in zip(move.after, wanted, strict=True) if path != ANY}
    leaving |= set(move.removing)
    found = tuple(held[broker] if broker in leaving else ANY for broker in move.before)
    return replace(move, log_dirs=wanted, log_dirs_before=found)


def _refuse_misfits(document: PlanDocument, state: ClusterState) -> None:
    refuse_other_cluster(document, state)
    name = document.name
    for tp, replicas in document.targets.items():
        if state.find(tp) is None:
            if document.base is not None and tp in document.base:
                raise DocumentError(f"{name} moves {tp}, which is not there any more.", next=REBASE)
            rows = state.partitions_of(tp.topic)
            if not rows:
                raise DocumentError(
                    f"{name} names topic {tp.topic}, which the cluster does not have.",
                    next="Correct the name, or remove its partitions from the plan.",
                )
            raise DocumentError(
                f"{name} names {tp}; {tp.topic} has {len(rows)} "
                f"{'partition' if len(rows) == 1 else 'partitions'}, counted from 0.",
                next=f"Remove {tp} from the plan.",
            )
        for broker in replicas:
            if broker not in state.broker_by_id:
                known = ", ".join(str(b.id) for b in state.brokers[:12])
                more = ", …" if len(state.brokers) > 12 else ""
                raise DocumentError(
                    f"{name} puts {tp} on broker {broker}, which the cluster does not have.",
                    next=f"Choose one of its brokers: {known}{more}.",
                )
