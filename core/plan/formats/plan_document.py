"""Reads plan files and lists of topics to move: Kafka's, Cruise Control's, and our own.

Everything that is wrong with a file in itself is one DocumentError: one sentence, and what to do
next. What it means for a cluster is in `core.plan.formats.plan_file`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from core.errors import DocumentError
from core.plan.plan import ANY

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
    return plain if ours is None else _with_trimtab_fields(plain, ours)


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


def _with_trimtab_fields(document: PlanDocument, ours: JsonObject) -> PlanDocument:
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
    previous: Mapping[TopicPartition, object] = MappingProxyType({}),
) -> tuple[int, ...]:
    """Return the brokers that are to hold `tp`, at least one; `previous` may not have it too."""
    if tp in previous:
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
