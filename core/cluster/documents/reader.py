"""Reads a cluster document (`--from`); an invalid one is a DocumentError of one sentence.

Unknown keys are ignored; an absent or null value is unknown, never 0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from core import bug_log, files
from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import FORMAT, ClusterDocument, DocumentGroup
from core.cluster.documents.json_object import (
    InvalidDocumentError,
    JsonObject,
    reject_duplicate_keys,
)
from core.cluster.groups import Member
from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import (
    NO_LEADER,
    UNKNOWN,
    Broker,
    LogDir,
    PartitionRow,
    Topic,
    TopicPartition,
)
from core.cluster.state import ClusterState, read_only
from core.errors import DocumentError

_MAKE_ONE = "Make one with trimtab show --json -o FILE."


def read_document(path: Path) -> ClusterDocument:
    """Return a cluster document from a file, or `-` for stdin; raises DocumentError."""
    name = "The document on stdin" if path == files.STDIN else str(path)
    try:
        content = path if _starts_with(path, arrow.MAGIC) else files.read_input(path)
        if isinstance(content, Path) or content.startswith(arrow.MAGIC):  # a file, or a pipe
            bug_log.note("document", {"form": "Arrow"})
            document = parse_arrow(*arrow.read_arrow(content), _written_at(path))
        else:
            bug_log.note("document", {"form": "JSON", "bytes": len(content)})
            document = parse_json(_load_json(content, name), _written_at(path))
        groups = None if document.groups is None else len(document.groups)
        bug_log.note("cluster", lambda: document.state.counts | {"groups": groups})
        return document
    except OSError as error:
        raise DocumentError(
            f"{name} cannot be read: {error.strerror}.", next="Name a file made by show --json."
        ) from error
    except InvalidDocumentError as error:
        raise DocumentError(
            f"{name} is not a cluster document: {error}.", next=_MAKE_ONE
        ) from error


def _load_json(content: bytes, name: str) -> object:
    try:
        return json.loads(content, object_pairs_hook=reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        wrong = f"is not JSON: {error}" if content.strip() else "is empty"
        raise DocumentError(f"{name} {wrong}.", next=_MAKE_ONE) from error


def _starts_with(path: Path, magic: bytes) -> bool:
    """Return whether a file begins so; stdin and pipes are read once only."""
    if path == files.STDIN or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _written_at(path: Path) -> datetime:
    if path == files.STDIN:
        return datetime.now(UTC)
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def parse_json(
    document: object, written_at: datetime, holders: Collection[int] = ()
) -> ClusterDocument:
    """Return the document of JSON values; `holders` are brokers of replicas beside those in it."""
    root = JsonObject(document, "the document")
    format_name = root.get("format", str, FORMAT)
    if not format_name.startswith("trimtab.cluster/"):
        raise InvalidDocumentError(f"its format is {format_name!r}")
    if format_name != FORMAT:
        raise InvalidDocumentError(f"its format is {format_name}, and this trimtab reads {FORMAT}")
    partitions = root.each("partitions", required=True)
    rows = [_parse_partition(p) for p in partitions]
    _check_unique("partition", [str(row.tp) for row in rows])
    brokers = [_parse_broker(b) for b in root.each("brokers", required=True)]
    _check_unique("broker", [str(broker.id) for broker in brokers])
    holding = {broker for row in rows for broker in row.replicas}.union(holders)
    gone = sorted(holding - {broker.id for broker in brokers})
    brokers += [Broker(broker, alive=False) for broker in gone]
    described = ClusterState.build(
        cluster_id=root.get("cluster_id", str, ""),
        fetched_at=root.time("fetched_at") or written_at,
        controller=root.get("controller", int, None),
        brokers=brokers,
        topics=[_parse_topic(t) for t in root.each("topics")],
        partitions=rows,
        moves_unknown=root.get("moves_unknown", str, ""),
    )
    described = replace(described, hidden=_parse_hidden_topics(root, brokers))
    state = with_log_dirs(described, _parse_logs(brokers, partitions))
    rates = {
        name: np.full(state.partition_count, np.nan)
        for name in ("in_bytes_per_s", "out_bytes_per_s")
    }
    for reader, row in zip(partitions, rows, strict=True):
        index = state.find(row.tp)
        assert index is not None
        for name, column in rates.items():
            column[index] = reader.rate(name)
    # An empty list says that there are none; without one nobody knows.
    listed = root.get("groups", list, None) is not None
    groups = tuple(_parse_group(g) for g in root.each("groups")) if listed else None
    return ClusterDocument(state, rates["in_bytes_per_s"], rates["out_bytes_per_s"], groups)


def _parse_hidden_topics(document: JsonObject, brokers: Collection[Broker]) -> HiddenTopics | None:
    """Return what is hidden; null is unknown, and without the key nobody has looked.

    A broker that is down tells nothing, whether the document names it for that or not.
    """
    key = "hidden_topics"
    if not document.has(key):
        return None
    section = document.child(key)
    if section is None:
        return HiddenTopics(why_unknown="the document does not tell")
    why = section.get("why_unknown", str, "")
    topics = section.size("topics")
    if topics is None and not why:
        why = "the document does not tell"
    logs = tuple(
        HiddenLogDir(
            log.id("broker"),
            log.get("path", str),
            log.size("topics") or 0,
            log.size("replicas") or 0,
            log.size("bytes") or 0,
        )
        for log in section.each("log_dirs")
    )
    silent = {broker.id for broker in brokers if not broker.alive} - {log.broker for log in logs}
    unknown = tuple(sorted(silent.union(section.ids("unknown_brokers"))))
    return HiddenTopics(topics or 0, logs, unknown, why)


def parse_arrow(
    header: Mapping[str, Any], arrays: Mapping[str, arrow.Array], written_at: datetime
) -> ClusterDocument:
    """Return the document of an Arrow file; raises InvalidDocumentError."""
    holders = np.unique(arrays["replica_broker"]).tolist()
    described = parse_json({**header, "partitions": []}, written_at, holders)
    if [topic.name for topic in described.state.topics] != [t["name"] for t in header["topics"]]:
        raise InvalidDocumentError("its topics are not in order")
    rates = {name: arrays[name] for name in arrow.RATES}
    columns: dict[str, Any] = {n: read_only(a) for n, a in arrays.items() if n not in rates}
    paths = tuple(header.get("log_dir_paths", ()))
    state = replace(described.state, log_dir_paths=paths, **columns)
    return ClusterDocument(state, **rates, groups=described.groups)


def _check_unique(what: str, names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidDocumentError(f"{what} {name} is in it twice")


def _parse_broker(reader: JsonObject) -> Broker:
    return Broker(
        id=reader.id("id"),
        rack=reader.get("rack", str, None),
        host=reader.get("host", str, ""),
        port=reader.get("port", int, 0),
        alive=reader.get("alive", bool, True),
        log_dirs=tuple(
            LogDir(
                d.get("path", str),
                d.size("total_bytes"),
                d.size("usable_bytes"),
                d.get("error", str, None),
            )
            for d in reader.each("log_dirs")
        ),
        in_capacity_bytes_per_s=reader.capacity("in_capacity_bytes_per_s"),
        out_capacity_bytes_per_s=reader.capacity("out_capacity_bytes_per_s"),
    )


def _parse_topic_name(reader: JsonObject, key: str) -> str:
    """Return a name that a terminal can be shown; Kafka's own are far narrower."""
    name = reader.get(key, str)
    if not name or not name.isprintable():
        raise InvalidDocumentError(f"{key!r} of {reader.where} is not a topic's name")
    return name


def _parse_topic(reader: JsonObject) -> Topic:
    return Topic(
        _parse_topic_name(reader, "name"),
        reader.get("id", str, None),
        reader.get("min_insync", int, None),
        reader.get("retention_ms", int, None),
        reader.get("cleanup_policy", str, None),
        reader.get("retention_bytes", int, None),
        reader.get("remote_storage", bool, None),
    )


def _parse_partition(reader: JsonObject) -> PartitionRow:
    replicas = reader.ids("replicas", required=True)
    if not replicas:
        raise InvalidDocumentError(f"{reader.where} has no replicas")
    row = PartitionRow(
        topic=_parse_topic_name(reader, "topic"),
        partition=reader.id("partition"),
        leader=reader.id("leader", minimum=NO_LEADER),
        replicas=replicas,
        # Unknown, not empty: an absent ISR is taken to be whole.
        isr=reader.ids("isr") if reader.get("isr", list, None) is not None else replicas,
        adding=reader.ids("adding"),
        removing=reader.ids("removing"),
        leader_epoch=reader.id("leader_epoch", UNKNOWN, minimum=UNKNOWN),
    )
    if row.leader not in (NO_LEADER, *replicas):
        raise InvalidDocumentError(
            f"{row.tp} is led by broker {row.leader}, which is none of its replicas"
        )
    details = tuple(detail.id("broker") for detail in reader.each("replica_detail"))
    for key, brokers in (
        ("isr", row.isr),
        ("adding", row.adding),
        ("removing", row.removing),
        ("replica_detail", details),
    ):
        for broker in brokers:
            if broker not in replicas:
                raise InvalidDocumentError(
                    f"{row.tp} has broker {broker} in {key!r}, which is none of its replicas"
                )
    return row


def _parse_logs(brokers: list[Broker], partitions: list[JsonObject]) -> list[BrokerLogs]:
    """Return brokers' logs; without details a partition's size is taken as its leader's."""
    replicas: dict[int, list[ReplicaLog]] = {broker.id: [] for broker in brokers}
    for reader in partitions:
        topic, partition = reader.get("topic", str), reader.get("partition", int)
        details = reader.each("replica_detail")
        size, leader = reader.size("size_bytes"), reader.get("leader", int)
        if not details and size is not None and leader in replicas:
            replicas[leader].append(ReplicaLog(topic, partition, size, UNKNOWN, ""))
        for detail in details:
            known, broker = detail.size("size_bytes"), detail.get("broker", int)
            if known is not None and broker in replicas:
                lag, path = detail.size("lag"), detail.get("log_dir", str, "")
                replicas[broker].append(
                    ReplicaLog(topic, partition, known, UNKNOWN if lag is None else lag, path)
                )
    return [BrokerLogs(b.id, b.log_dirs, tuple(replicas[b.id])) for b in brokers]


def _parse_group(reader: JsonObject) -> DocumentGroup:
    def tp(item: JsonObject) -> TopicPartition:
        return TopicPartition(item.get("topic", str), item.get("partition", int))

    return DocumentGroup(
        reader.get("id", str),
        reader.get("state", str, "unknown"),
        tuple(
            Member(
                m.get("id", str),
                m.get("client_id", str, ""),
                m.get("host", str, ""),
                tuple(tp(item) for item in m.each("assignment")),
            )
            for m in reader.each("members")
        ),
        {tp(item): item.get("lag", int, None) for item in reader.each("lag")},
        unknown=reader.get("lag", list, None) is None,
        type=reader.get("type", str, ""),
    )
