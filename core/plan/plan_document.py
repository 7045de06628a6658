"""What a plan file says, read and checked in itself; the cluster is not asked.

Kafka's form has `version` and `partitions`; the `trimtab` object beside it is ours. Everything
that is wrong with a file is one DocumentError: one sentence, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core import files
from core.cluster.state import TopicPartition
from core.errors import DocumentError

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

    `targets` keeps the file's order and partitions that change nothing; `log_dirs` has only the
    partitions for which one is named. `base` is None for files that Kafka's tools or people wrote.
    """

    name: str
    targets: Mapping[TopicPartition, tuple[int, ...]]
    log_dirs: Mapping[TopicPartition, tuple[str, ...]]
    base: Mapping[TopicPartition, Base] | None = None
    cluster_id: str | None = None
    notes: tuple[str, ...] = ()


def read_document(source: Path | str) -> PlanDocument:
    """Return a plan file's content (of stdin for `-`), checked in itself; raises DocumentError."""
    if source == files.STDIN:
        return parse(_text_of(source, "The plan on stdin"), "The plan on stdin")
    if isinstance(source, Path):
        return parse(_text_of(source, str(source)), source.name)
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
    log_dirs: dict[TopicPartition, tuple[str, ...]] = {}
    for i, value in enumerate(rows):
        tp, replicas = _assignment(value, name, f"partitions[{i}]")
        if tp in targets:
            raise DocumentError(
                f"{name} names {tp} twice.", next=f"Keep one entry for {tp} and remove the other."
            )
        targets[tp] = replicas
        if named := _log_dirs(value, name, tp, replicas):
            log_dirs[tp] = named
    ours = document.get("trimtab")
    if ours is None:
        return PlanDocument(name, targets, log_dirs)
    return _with_ours(PlanDocument(name, targets, log_dirs), _object(ours, name, "trimtab"))


def _text_of(path: Path, name: str) -> str:
    try:
        return files.read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not text: byte {error.start} is not UTF-8.",
            next="Give a reassignment file in JSON.",
        ) from error
    except OSError as error:
        raise DocumentError(
            f"{name} cannot be read: {error.strerror}.", next="Check the name and its permissions."
        ) from error


def _json(text: str, name: str) -> Any:
    if not text.strip():
        raise DocumentError(f"{name} is empty.", next="Give a reassignment file in JSON.")
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
    base: dict[TopicPartition, Base] = {}
    for i, value in enumerate(_list(ours.get("base", []), name, "trimtab.base")):
        where = f"trimtab.base[{i}]"
        tp, replicas = _assignment(value, name, where)
        base[tp] = Base(replicas, _optional_text(value.get("topic_id"), name, f"{where}.topic_id"))
    notes = _list(ours.get("notes", []), name, "trimtab.notes")
    return replace(
        document,
        base=base,
        cluster_id=_optional_text(ours.get("cluster_id"), name, "trimtab.cluster_id"),
        notes=tuple(_text(note, name, f"trimtab.notes[{i}]") for i, note in enumerate(notes)),
    )


def _assignment(value: Any, name: str, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return partition and ordered replicas of one entry; raises DocumentError."""
    row = _object(value, name, where)
    topic = _text(row.get("topic"), name, f"{where}.topic")
    if not topic.isprintable():
        raise _expect("a topic's name", topic, name, f"{where}.topic")
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


def _log_dirs(
    row: Mapping[str, Any], name: str, tp: TopicPartition, replicas: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Return the log dirs that a row names; None when it leaves all of them to the brokers."""
    if "log_dirs" not in row:
        return None
    values = _list(row["log_dirs"], name, f"log_dirs of {tp}")
    log_dirs = tuple(_text(path, name, f"log_dirs of {tp}") for path in values)
    if len(log_dirs) != len(replicas):
        raise DocumentError(
            f"{name} gives {tp} {len(replicas)} replicas and {len(log_dirs)} log_dirs.",
            next='Give one log dir for each replica, or "any".',
        )
    return log_dirs if any(path != ANY for path in log_dirs) else None


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
