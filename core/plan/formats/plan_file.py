"""Reads plan files and lists of topics to move, and validates them: Kafka's, Cruise Control's.

Everything that is wrong with a file is one DocumentError: one sentence, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from core import bug_log, files
from core.cluster.documents.json_object import (
    InvalidDocumentError,
    JsonObject,
    reject_duplicate_keys,
)
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.plan.checks.catalogue import REBASE
from core.plan.plan import ANY, Move, Plan, current_target, log_dir_of
from core.text.json_output import compact
from core.units import counted, name_list

FORMAT = "trimtab.plan"
MAJOR = 1
FIX = "Mend it there, or export the plan again."


@dataclass(frozen=True, slots=True)
class MoveBase:
    """What one partition was when a plan was made, and why it is in it."""

    replicas: tuple[int, ...]
    topic_id: str | None = None
    log_dirs: tuple[str, ...] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A plan file as it stands, not yet held against a cluster.

    `targets` keeps the file's order and partitions that change nothing; `log_dirs` has only the
    partitions for which one is named. `base` is None for files that Kafka's tools or people wrote.
    """

    name: str
    targets: Mapping[TopicPartition, tuple[int, ...]]
    log_dirs: Mapping[TopicPartition, tuple[str, ...]]
    base: Mapping[TopicPartition, MoveBase] | None = None
    cluster_id: str | None = None
    notes: tuple[str, ...] = ()


def read_document(source: Path | str) -> PlanDocument:
    """Return a plan file's content (of stdin for `-`), checked in itself; raises DocumentError."""
    name = "The plan"
    if isinstance(source, Path):
        name = "The plan on stdin" if source == files.STDIN else source.name
        source = _read_text(source, name if source == files.STDIN else str(source))
    bug_log.note("plan", {"form": "JSON", "bytes": len(source)})
    try:
        return _parse_plan(_parse_json(source, name), name)
    except InvalidDocumentError as error:
        raise DocumentError(f"{name} cannot be read: {error}.", next=FIX) from error


def _read_text(path: Path, name: str) -> str:
    try:
        return files.read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not text: byte {error.start} is not UTF-8.", next="Give one in JSON."
        ) from error
    except OSError as error:
        raise DocumentError(
            f"{name} cannot be read: {error.strerror}.", next="Check the name and its permissions."
        ) from error


def _parse_json(text: str, name: str) -> dict[str, Any]:
    """Return the object that a document is; raises InvalidDocumentError for another value."""
    if not text.strip():
        raise DocumentError(f"{name} is empty.", next="Give one in JSON.")
    try:
        values = json.loads(text, object_pairs_hook=reject_duplicate_keys)
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.", next=FIX
        ) from error
    except (RecursionError, ValueError) as error:
        raise DocumentError(
            f"{name} cannot be read: it is nested too deeply or has huge numbers.",
            next="Export the plan again.",
        ) from error
    if not isinstance(values, dict):
        raise InvalidDocumentError("it is not an object")
    return values


def _parse_plan(document: dict[str, Any], name: str) -> PlanDocument:
    version = document.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise DocumentError(
            f"{name} has version {json.dumps(version)}; reassignment files have version 1.",
            next="Export the plan again, or set version to 1 if it is a reassignment file.",
        )
    if "proposals" in document or "goalSummary" in document:
        return _parse_proposals(document, name)
    if "partitions" not in document and "topics" in document:
        raise DocumentError(
            f"{name} lists topics to move, not the replicas they should have.",
            next="Have a plan made for them: trimtab plan suggest --topics-to-move FILE.",
        )
    if "partitions" not in document and isinstance(document.get("plan"), dict):
        raise DocumentError(
            f'{name} has its plan under "plan": it is all that a command answered with --json.',
            next="Save what is under plan alone, or have it written: -o FILE without --json.",
        )
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs: dict[TopicPartition, tuple[str, ...]] = {}
    root = JsonObject(document, "the document")
    for row in _rows(root, "partitions", name):
        tp = _partition(row)
        targets[tp] = _replicas(row, "replicas", tp, name, targets)
        if named := _log_dirs(row, name, tp, targets[tp]):
            log_dirs[tp] = named
    plain = PlanDocument(name, targets, log_dirs)
    ours = root.child("trimtab")
    return plain if ours is None else _with_ours(plain, ours)


def _parse_proposals(document: Mapping[str, Any], name: str) -> PlanDocument:
    """Return what Cruise Control proposes: its REST API's answer with `json=true&verbose=true`.

    Its ExecutionProposal names brokers in order, preferred leader first; log dirs are not in it.
    Old replicas are empty for a partition that is yet to be made.
    """
    if document.get("proposals") is None:
        raise DocumentError(
            f"{name} is Cruise Control's summary; its proposals are not in it.",
            next="Ask it for them: add verbose=true to the request.",
        )
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    base: dict[TopicPartition, MoveBase] = {}
    for row in _rows(JsonObject(document, "the document"), "proposals", name):
        named = row.child("topicPartition")
        if named is None:
            raise InvalidDocumentError(f"{row.where} has no 'topicPartition'")
        tp = _partition(named)
        targets[tp] = _replicas(row, "newReplicas", tp, name, targets)
        if before := row.ids("oldReplicas", required=True):
            base[tp] = MoveBase(before)
    return PlanDocument(name, targets, {}, base=base, notes=("from Cruise Control's proposals",))


def _with_ours(document: PlanDocument, ours: JsonObject) -> PlanDocument:
    name = document.name
    kind, _, major = ours.get("format", str, "").partition("/")
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
    base: dict[TopicPartition, MoveBase] = {}
    for row in ours.each("base"):
        tp = _partition(row)
        replicas = _replicas(row, "replicas", tp, name)
        topic_id, reason = _text(row, "topic_id"), _text(row, "because") or ""
        base[tp] = MoveBase(replicas, topic_id, _log_dirs(row, name, tp, replicas), reason)
    cluster_id, notes = _text(ours, "cluster_id"), _texts(ours, "notes")
    return replace(document, base=base, cluster_id=cluster_id, notes=notes)


def _rows(document: JsonObject, key: str, name: str) -> list[JsonObject]:
    """Return the entries of a plan, at least one."""
    rows = document.each(key)
    if not rows:
        raise DocumentError(
            f"{name} has no partitions.", next="Name at least one partition with its replicas."
        )
    return rows


def _partition(row: JsonObject) -> TopicPartition:
    topic = row.get("topic", str)
    if not topic or not topic.isprintable():
        raise InvalidDocumentError(f"'topic' of {row.where} is not a topic's name")
    return TopicPartition(topic, row.id("partition"))


def _replicas(
    row: JsonObject,
    key: str,
    tp: TopicPartition,
    name: str,
    others: Mapping[TopicPartition, object] = MappingProxyType({}),
) -> tuple[int, ...]:
    """Return the brokers that are to hold `tp`, at least one; `others` may not hold it as well."""
    if tp in others:
        raise DocumentError(
            f"{name} names {tp} twice.", next=f"Keep one entry for {tp} and remove the other."
        )
    brokers = row.get(key, list)
    if not brokers:
        raise DocumentError(
            f"{name} leaves {tp} without a replica.",
            next="Name at least one broker, or remove the entry.",
        )
    twice = next((b for b in brokers if type(b) is int and brokers.count(b) > 1), None)
    if twice is not None:
        raise DocumentError(
            f"{name} puts {tp} on broker {twice} twice.",
            next="A broker holds a partition once: name another broker, or fewer.",
        )
    return row.ids(key)


def _text(row: JsonObject, key: str) -> str | None:
    """Return a text, None where there is none; an empty id would pass for an unknown one."""
    value = row.get(key, str, None)
    if value == "":
        raise InvalidDocumentError(f"{key!r} of {row.where} is empty")
    return value


def _texts(row: JsonObject, key: str) -> tuple[str, ...]:
    values = row.get(key, list, [])
    if not all(isinstance(value, str) and value for value in values):
        raise InvalidDocumentError(f"{key!r} of {row.where} is not a list of texts")
    return tuple(values)


def _log_dirs(
    row: JsonObject, name: str, tp: TopicPartition, replicas: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Return the log dirs that a row names; None when it leaves all of them to the brokers."""
    if not row.has("log_dirs"):
        return None
    log_dirs = _texts(row, "log_dirs")
    if len(log_dirs) != len(replicas):
        raise DocumentError(
            f"{name} gives {tp} {len(replicas)} replicas and {len(log_dirs)} log_dirs.",
            next='Give one log dir for each replica, or "any".',
        )
    return log_dirs if any(path != ANY for path in log_dirs) else None


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
        found = f',"log_dirs":{text(move.log_dirs_before)}' if move.log_dirs_before else ""
        why = f',"because":{text(move.reason)}' if move.reason else ""
        targets.append(f'{head}"replicas":{text(move.after)},"log_dirs":{text(dirs)}}}')
        base.append(
            f'{head}"topic_id":{text(move.topic_id)},"replicas":{text(move.before)}{found}{why}}}'
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
            _refuse_misfits(document, state)
    moves = []
    for tp, target in document.targets.items():
        base = _base_of(document, state, tp)
        move = Move(tp, base.replicas, target, base.topic_id, reason=base.reason)
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


def _base_of(document: PlanDocument, state: ClusterState | None, tp: TopicPartition) -> MoveBase:
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
    found = tuple(held[broker] if broker in leaving else ANY for broker in move.before)
    return replace(move, log_dirs=targets, log_dirs_before=found)


def _refuse_misfits(document: PlanDocument, state: ClusterState) -> None:
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


def read_topics_to_move(path: Path) -> tuple[str, ...]:
    """Return the topics that Kafka's `--topics-to-move-json-file` names, each once; stdin for `-`.

    Raises DocumentError.
    """
    name = "The list on stdin" if path == files.STDIN else path.name
    try:
        document = _parse_json(_read_text(path, name), name)
        rows = JsonObject(document, "the document").each("topics", required=True)
        names = [row.get("topic", str) for row in rows]
    except InvalidDocumentError as error:
        raise DocumentError(f"{name} cannot be read: {error}.", next=FIX) from error
    if document.get("version", 1) != 1:
        raise DocumentError(
            f"{name} has version {document['version']}; topics-to-move files have version 1.",
            next="Set it to 1 if it is one.",
        )
    if not names:
        raise DocumentError(f"{name} names no topic.", next="Name at least one.")
    return tuple(dict.fromkeys(names))


def refuse_unknown_topics(state: ClusterState, topics: tuple[str, ...]) -> None:
    """Raise DocumentError for topics that the cluster does not have."""
    missing = [topic for topic in topics if state.topic(topic) is None]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DocumentError(
            f"The cluster does not have topic {missing[0]}{more}.",
            next="Correct the list of topics to move.",
        )
