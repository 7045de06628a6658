"""Plan files: Kafka's reassignment JSON in and out, with one `trimtab` object of ours beside it.

Kafka's ReassignPartitionsCommand reads `version` and `partitions` and ignores every other key, so
one file serves both. The `trimtab` object holds what Kafka's form cannot: which cluster, and the
topic ids and ordered replicas that the plan was made from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.cluster.state import ClusterState, TopicPartition
from core.errors import DocumentError
from core.plan.plan import Move, Plan, current_target

FORMAT = "trimtab.plan"
MAJOR = 1
ANY = "any"
"""Kafka's word for "let the broker choose the log dir"."""

_MEND = "Mend it there, or export the plan again."
_LARGEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Base:
    """What one partition was when a plan was made."""

    replicas: tuple[int, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A plan file as it stands, not yet held against a cluster.

    `targets` keeps the file's order and partitions that change nothing; `base` is None for
    files that Kafka's tools or people wrote.
    """

    name: str
    targets: Mapping[TopicPartition, tuple[int, ...]]
    base: Mapping[TopicPartition, Base] | None = None
    cluster_id: str | None = None
    notes: tuple[str, ...] = ()


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
                "log_dirs": [ANY] * len(move.after),
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


def read_document(source: Path | str) -> PlanDocument:
    """Return a plan file's content, checked in itself; raises DocumentError."""
    if isinstance(source, Path):
        return parse(_text_of(source), source.name)
    return parse(source, "The plan")


def parse(text: str, name: str) -> PlanDocument:
    """Return the content of plan file `name`; raises DocumentError."""
    document = _object(_json(text, name), name, "")
    version = document.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise DocumentError(
            f"{name} has version {json.dumps(version)}; reassignment files have version 1.",
            next="Export the plan again, or set version to 1 if it is a reassignment file.",
        )
    if "partitions" not in document and "topics" in document:
        raise DocumentError(
            f"{name} lists topics to move, not the replicas they should have.",
            next="Give a reassignment file: it has a list named partitions.",
        )
    rows = _list(document.get("partitions", []), name, "partitions")
    if not rows:
        raise DocumentError(
            f"{name} has no partitions.", next="Name at least one partition with its replicas."
        )
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for i, value in enumerate(rows):
        tp, replicas = _assignment(value, name, f"partitions[{i}]")
        if tp in targets:
            raise DocumentError(
                f"{name} names {tp} twice.", next=f"Keep one entry for {tp} and remove the other."
            )
        _refuse_log_dirs(value, name, tp, replicas)
        targets[tp] = replicas
    ours = document.get("trimtab")
    if ours is None:
        return PlanDocument(name, targets)
    return _with_ours(name, targets, _object(ours, name, "trimtab"))


def bind(document: PlanDocument, state: ClusterState | None) -> Plan:
    """Return the plan that `document` is for the cluster `state`; raises DocumentError."""
    if state is not None:
        _refuse_misfits(document, state)
    moves = [
        Move(tp, base.replicas, target, base.topic_id)
        for tp, target in document.targets.items()
        for base in (_base_of(document, state, tp),)
    ]
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
    topic = state.topic(tp.topic)
    return Base(current_target(state, tp), topic.id if topic else None)


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


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path} is not text: byte {error.start} is not UTF-8.",
            next="Give a reassignment file in JSON.",
        ) from error
    except OSError as error:
        raise DocumentError(
            f"{path} cannot be read: {error.strerror}.", next="Check the name and its permissions."
        ) from error


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.",
            next=_MEND,
        ) from error
    except (RecursionError, ValueError) as error:
        raise DocumentError(
            f"{name} is not a reassignment file: it is nested too deeply or has huge numbers.",
            next="Export the plan again.",
        ) from error


def _with_ours(
    name: str, targets: Mapping[TopicPartition, tuple[int, ...]], ours: Mapping[str, Any]
) -> PlanDocument:
    kind, _, major = str(ours.get("format", "")).partition("/")
    if kind != FORMAT or not major.isdecimal():
        raise DocumentError(
            f"{name}: trimtab.format must be {FORMAT}/{MAJOR}.",
            next="Remove the trimtab object to read it as a plain reassignment file.",
        )
    if int(major) > MAJOR:
        raise DocumentError(
            f"{name} has format {kind}/{major}; this trimtab reads up to {FORMAT}/{MAJOR}.",
            next="Use the newer trimtab that wrote it.",
        )
    base: dict[TopicPartition, Base] = {}
    for i, value in enumerate(_list(ours.get("base", []), name, "trimtab.base")):
        where = f"trimtab.base[{i}]"
        tp, replicas = _assignment(value, name, where)
        base[tp] = Base(replicas, _optional_text(value.get("topic_id"), name, f"{where}.topic_id"))
    notes = _list(ours.get("notes", []), name, "trimtab.notes")
    return PlanDocument(
        name=name,
        targets=targets,
        base=base,
        cluster_id=_optional_text(ours.get("cluster_id"), name, "trimtab.cluster_id"),
        notes=tuple(_text(note, name, f"trimtab.notes[{i}]") for i, note in enumerate(notes)),
    )


def _assignment(value: Any, name: str, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return partition and ordered replicas of one entry; raises DocumentError."""
    row = _object(value, name, where)
    topic = _text(row.get("topic"), name, f"{where}.topic")
    tp = TopicPartition(topic, _number(row.get("partition"), name, f"{where}.partition"))
    values = _list(row.get("replicas"), name, f"{where}.replicas")
    replicas = tuple(
        _number(broker, name, f"{where}.replicas[{i}]") for i, broker in enumerate(values)
    )
    if not replicas:
        raise DocumentError(
            f"{name} leaves {tp} without a replica.",
            next="Name at least one broker, or remove the entry.",
        )
    twice = next((b for b in replicas if replicas.count(b) > 1), None)
    if twice is not None:
        raise DocumentError(
            f"{name} puts {tp} on broker {twice} twice.",
            next="A broker holds a partition once: name another broker, or fewer.",
        )
    return tp, replicas


def _refuse_log_dirs(
    row: Mapping[str, Any], name: str, tp: TopicPartition, replicas: tuple[int, ...]
) -> None:
    if "log_dirs" not in row:
        return
    log_dirs = _list(row["log_dirs"], name, f"log_dirs of {tp}")
    if len(log_dirs) != len(replicas):
        raise DocumentError(
            f"{name} gives {tp} {len(replicas)} replicas and {len(log_dirs)} log_dirs.",
            next='Give one log dir for each replica, or "any".',
        )
    chosen = next((path for path in log_dirs if path != ANY), None)
    if chosen is not None:
        raise DocumentError(
            f"{name} asks for log dir {chosen} for {tp}; trimtab moves between brokers only.",
            next='Write "any", or move it between log dirs with Kafka\'s own tool afterwards.',
        )


def _expect(kind: str, value: Any, name: str, where: str) -> DocumentError:
    found = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    found = found if len(found) <= 40 else found[:39] + "…"
    place = f" at {where}" if where else ""
    return DocumentError(f"{name}{place}: expected {kind}, found {found}.", next=_MEND)


def _object(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _expect("an object", value, name, where)
    return value


def _list(value: Any, name: str, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _expect("a list", value, name, where)
    return value


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _expect("a text", value, name, where)
    return value


def _optional_text(value: Any, name: str, where: str) -> str | None:
    return None if value is None else _text(value, name, where)


def _number(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_ID:
        raise _expect("a number from 0", value, name, where)
    return value
