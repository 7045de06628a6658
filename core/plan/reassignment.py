"""Plan files: Kafka's reassignment JSON in and out, with one `trimtab` object of ours beside it.

Kafka's ReassignPartitionsCommand reads `version` and `partitions` and ignores every other key, so
one file serves both. The `trimtab` object holds what Kafka's form cannot: which cluster, and the
topic ids and ordered replicas that the plan was made from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.cluster.state import ClusterState, TopicPartition
from core.errors import DocumentError
from core.plan.plan import Move, Plan, current_target
from core.plan.plan_document import ANY, FORMAT, MAJOR, Base, PlanDocument, read_document

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
        for move in plan
    ]
    return to_kafka(plan) | {
        "trimtab": {
            "format": f"{FORMAT}/{MAJOR}",
            "cluster_id": plan.cluster_id,
            "base": base,
            "notes": list(plan.notes),
        }
    }


def dump(plan: Plan) -> str:
    """Return the plan file's text, in the one line that Kafka's tool prints."""
    return compact(to_document(plan))


def compact(document: Mapping[str, Any]) -> str:
    """Return JSON without spaces, as Kafka's tool (Jackson) writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


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
        log_dirs = _wanted_log_dirs(document, state, tp, base)
        moves.append(Move(tp, base.replicas, target, base.topic_id, log_dirs))
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


def _wanted_log_dirs(
    document: PlanDocument, state: ClusterState | None, tp: TopicPartition, base: Base
) -> tuple[str, ...] | None:
    """Return the log dirs asked for new replicas, `any` for those that stay where they are.

    Kafka's tool (4.x) writes the present paths into the file that it offers for a rollback.
    Raises DocumentError where a replica that stays should change its log dir.
    """
    named = document.log_dirs.get(tp)
    if named is None:
        return None
    target = document.targets[tp]
    for broker, path in zip(target, named, strict=True):
        held = _log_dir_of(state, tp, broker) if state and broker in base.replicas else None
        if path != ANY and held is not None and held != path:
            raise DocumentError(
                f"{document.name} moves {tp} on broker {broker} to log dir {path}; "
                "trimtab moves between brokers only.",
                next='Write "any" there, or use Kafka\'s own tool for log dirs.',
            )
    wanted = tuple(
        ANY if broker in base.replicas else path for broker, path in zip(target, named, strict=True)
    )
    return wanted if any(path != ANY for path in wanted) else None


def _log_dir_of(state: ClusterState, tp: TopicPartition, broker: int) -> str | None:
    """Return the log dir of a replica, None when it is not known."""
    index = state.find(tp)
    if index is None or broker not in state.replicas(index):
        return None
    place = int(state.log_dir[state.replica_slice(index)][state.replicas(index).index(broker)])
    return state.log_dir_paths[place] if place >= 0 else None


def _refuse_misfits(document: PlanDocument, state: ClusterState) -> None:
    refuse_other_cluster(document, state)
    name = document.name
    for tp, replicas in document.targets.items():
        if state.find(tp) is None:
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
