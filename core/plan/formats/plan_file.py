"""Reads plan files and lists of topics to move, and validates them: Kafka's, Cruise Control's.

Everything that is wrong with a file is one DocumentError: one sentence, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from core import bug_log, files
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.plan.checks.catalogue import REBASE
from core.plan.formats.json_values import (
    add_once,
    expect_list,
    expect_number,
    expect_object,
    expect_optional_text,
    expect_partition,
    expect_replicas,
    expect_rows,
    expect_text,
    parse_json,
    read_document_text,
)
from core.plan.plan import ANY, Move, Plan, current_target, log_dir_of
from core.text.json_output import compact
from core.units import counted

FORMAT = "trimtab.plan"
MAJOR = 1


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
    if source == files.STDIN:
        return parse_plan_file(read_document_text(source, "The plan on stdin"), "The plan on stdin")
    if isinstance(source, Path):
        return parse_plan_file(read_document_text(source, str(source)), source.name)
    return parse_plan_file(source, "The plan")


def parse_plan_file(text: str, name: str) -> PlanDocument:
    """Return the content of plan file `name`; raises DocumentError."""
    bug_log.note("plan", {"form": "JSON", "bytes": len(text)})
    document = expect_object(parse_json(text, name), name, "")
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
    for i, value in enumerate(expect_rows(document.get("partitions", []), name, "partitions")):
        tp, replicas = _assignment(value, name, f"partitions[{i}]")
        add_once(targets, tp, replicas, name)
        if named := _log_dirs(value, name, tp, replicas):
            log_dirs[tp] = named
    ours = document.get("trimtab")
    if ours is None:
        return PlanDocument(name, targets, log_dirs)
    return _with_ours(PlanDocument(name, targets, log_dirs), expect_object(ours, name, "trimtab"))


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
    for i, value in enumerate(expect_rows(document["proposals"], name, "proposals")):
        where = f"proposals[{i}]"
        row = expect_object(value, name, where)
        at = f"{where}.topicPartition"
        tp = expect_partition(expect_object(row.get("topicPartition"), name, at), name, at)
        old = expect_list(row.get("oldReplicas"), name, f"{where}.oldReplicas")
        before = tuple(
            expect_number(broker, name, f"{where}.oldReplicas[{n}]") for n, broker in enumerate(old)
        )
        after = expect_replicas(row.get("newReplicas"), tp, name, f"{where}.newReplicas")
        add_once(targets, tp, after, name)
        if before:
            base[tp] = MoveBase(before)
    return PlanDocument(name, targets, {}, base=base, notes=("from Cruise Control's proposals",))


def _with_ours(document: PlanDocument, ours: Mapping[str, Any]) -> PlanDocument:
    name = document.name
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
    base: dict[TopicPartition, MoveBase] = {}
    for i, value in enumerate(expect_list(ours.get("base", []), name, "trimtab.base")):
        where = f"trimtab.base[{i}]"
        tp, replicas = _assignment(value, name, where)
        topic_id = expect_optional_text(value.get("topic_id"), name, f"{where}.topic_id")
        reason = expect_optional_text(value.get("because"), name, f"{where}.because") or ""
        base[tp] = MoveBase(replicas, topic_id, _log_dirs(value, name, tp, replicas), reason)
    notes = expect_list(ours.get("notes", []), name, "trimtab.notes")
    return replace(
        document,
        base=base,
        cluster_id=expect_optional_text(ours.get("cluster_id"), name, "trimtab.cluster_id"),
        notes=tuple(expect_text(note, name, f"trimtab.notes[{i}]") for i, note in enumerate(notes)),
    )


def _assignment(value: Any, name: str, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return partition and ordered replicas of one entry; raises DocumentError."""
    row = expect_object(value, name, where)
    tp = expect_partition(row, name, where)
    return tp, expect_replicas(row.get("replicas"), tp, name, f"{where}.replicas")


def _log_dirs(
    row: Mapping[str, Any], name: str, tp: TopicPartition, replicas: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Return the log dirs that a row names; None when it leaves all of them to the brokers."""
    if "log_dirs" not in row:
        return None
    values = expect_list(row["log_dirs"], name, f"log_dirs of {tp}")
    log_dirs = tuple(expect_text(path, name, f"log_dirs of {tp}") for path in values)
    if len(log_dirs) != len(replicas):
        raise DocumentError(
            f"{name} gives {tp} {len(replicas)} replicas and {len(log_dirs)} log_dirs.",
            next='Give one log dir for each replica, or "any".',
        )
    return log_dirs if any(path != ANY for path in log_dirs) else None


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the plan file as a document."""
    document: dict[str, Any] = json.loads(format_plan_file(plan))
    return document


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
    if state is not None and loosely:
        refuse_other_cluster(document, state)
    elif state is not None:
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
                f"{name} names {tp}; {tp.topic} has {counted(len(rows), 'partition')}, counted "
                "from 0.",
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


def read_topics_to_move(path: Path) -> tuple[str, ...]:
    """Return the topics that Kafka's `--topics-to-move-json-file` names, each once; stdin for `-`.

    Raises DocumentError.
    """
    name = "The list on stdin" if path == files.STDIN else path.name
    document = expect_object(parse_json(read_document_text(path, name), name), name, "")
    if document.get("version", 1) != 1:
        raise DocumentError(
            f"{name} has version {document['version']}; topics-to-move files have version 1.",
            next="Set it to 1 if it is one.",
        )
    rows = expect_list(document.get("topics"), name, "topics")
    if not rows:
        raise DocumentError(f"{name} names no topic.", next="Name at least one.")
    names = []
    for i, value in enumerate(rows):
        row = expect_object(value, name, f"topics[{i}]")
        names.append(expect_text(row.get("topic"), name, f"topics[{i}].topic"))
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
