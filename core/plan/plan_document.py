"""What a plan file says, read and checked in itself; the cluster is not asked.

Kafka's form has `version` and `partitions`; the `trimtab` object beside it is ours. Proposals of
Cruise Control are read, too. Everything that is wrong with a file is one DocumentError: one
sentence, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core import bug_log, files
from core.cluster.metadata import TopicPartition
from core.errors import DocumentError
from core.plan import proposals
from core.plan.document_values import (
    a_list,
    a_partition,
    a_text,
    add_once,
    an_object,
    an_optional_text,
    json_of,
    ordered_replicas,
    some_rows,
    text_of,
)
from core.plan.plan import ANY

FORMAT = "trimtab.plan"
MAJOR = 1


@dataclass(frozen=True, slots=True)
class Base:
    """What one partition was when a plan was made, and why it is in it; "" where nobody said.

    `log_dirs` has one for each replica, or is None.
    """

    replicas: tuple[int, ...]
    topic_id: str | None = None
    log_dirs: tuple[str, ...] | None = None
    because: str = ""


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
        return parse(text_of(source, "The plan on stdin"), "The plan on stdin")
    if isinstance(source, Path):
        return parse(text_of(source, str(source)), source.name)
    return parse(source, "The plan")


def parse(text: str, name: str) -> PlanDocument:
    """Return the content of plan file `name`; raises DocumentError."""
    bug_log.note("plan", {"form": "JSON", "bytes": len(text)})
    document = an_object(json_of(text, name), name, "")
    version = document.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise DocumentError(
            f"{name} has version {json.dumps(version)}; reassignment files have version 1.",
            next="Export the plan again, or set version to 1 if it is a reassignment file.",
        )
    if proposals.are_in(document):
        return _with_base(name, proposals.read(document, name))
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
    for i, value in enumerate(some_rows(document.get("partitions", []), name, "partitions")):
        tp, replicas = _assignment(value, name, f"partitions[{i}]")
        add_once(targets, tp, replicas, name)
        if named := _log_dirs(value, name, tp, replicas):
            log_dirs[tp] = named
    ours = document.get("trimtab")
    if ours is None:
        return PlanDocument(name, targets, log_dirs)
    return _with_ours(PlanDocument(name, targets, log_dirs), an_object(ours, name, "trimtab"))


def _with_base(name: str, found: Sequence[proposals.Proposal]) -> PlanDocument:
    return PlanDocument(
        name,
        {one.tp: one.after for one in found},
        {},
        base={one.tp: Base(one.before) for one in found if one.before},
        notes=(proposals.NOTE,),
    )


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
    for i, value in enumerate(a_list(ours.get("base", []), name, "trimtab.base")):
        where = f"trimtab.base[{i}]"
        tp, replicas = _assignment(value, name, where)
        topic_id = an_optional_text(value.get("topic_id"), name, f"{where}.topic_id")
        because = an_optional_text(value.get("because"), name, f"{where}.because") or ""
        base[tp] = Base(replicas, topic_id, _log_dirs(value, name, tp, replicas), because)
    notes = a_list(ours.get("notes", []), name, "trimtab.notes")
    return replace(
        document,
        base=base,
        cluster_id=an_optional_text(ours.get("cluster_id"), name, "trimtab.cluster_id"),
        notes=tuple(a_text(note, name, f"trimtab.notes[{i}]") for i, note in enumerate(notes)),
    )


def _assignment(value: Any, name: str, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return partition and ordered replicas of one entry; raises DocumentError."""
    row = an_object(value, name, where)
    tp = a_partition(row, name, where)
    return tp, ordered_replicas(row.get("replicas"), tp, name, f"{where}.replicas")


def _log_dirs(
    row: Mapping[str, Any], name: str, tp: TopicPartition, replicas: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Return the log dirs that a row names; None when it leaves all of them to the brokers."""
    if "log_dirs" not in row:
        return None
    values = a_list(row["log_dirs"], name, f"log_dirs of {tp}")
    log_dirs = tuple(a_text(path, name, f"log_dirs of {tp}") for path in values)
    if len(log_dirs) != len(replicas):
        raise DocumentError(
            f"{name} gives {tp} {len(replicas)} replicas and {len(log_dirs)} log_dirs.",
            next='Give one log dir for each replica, or "any".',
        )
    return log_dirs if any(path != ANY for path in log_dirs) else None
