"""Typed access to JSON documents: a value of the expected type, or a DocumentError."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from core import files
from core.cluster.documents.json_object import InvalidDocumentError, reject_duplicate_keys
from core.cluster.metadata import TopicPartition
from core.errors import DocumentError

FIX = "Mend it there, or export the plan again."
_LARGEST_ID = 2**31 - 1

T = TypeVar("T")


def read_document_text(path: Path, name: str) -> str:
    """Return a file's text, of stdin for `-`."""
    try:
        return files.read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not text: byte {error.start} is not UTF-8.",
            next="Give one in JSON.",
        ) from error
    except OSError as error:
        raise DocumentError(
            f"{name} cannot be read: {error.strerror}.", next="Check the name and its permissions."
        ) from error


def parse_json(text: str, name: str) -> Any:
    if not text.strip():
        raise DocumentError(f"{name} is empty.", next="Give one in JSON.")
    try:
        return json.loads(text, object_pairs_hook=reject_duplicate_keys)
    except InvalidDocumentError as error:
        raise DocumentError(f"{name} cannot be read: {error}.", next=FIX) from error
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.",
            next=FIX,
        ) from error
    except (RecursionError, ValueError) as error:
        raise DocumentError(
            f"{name} cannot be read: it is nested too deeply or has huge numbers.",
            next="Export the plan again.",
        ) from error


def unexpected(kind: str, value: Any, name: str, where: str) -> DocumentError:
    found = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    found = found if len(found) <= 40 else found[:39] + "…"
    place = f" at {where}" if where else ""
    return DocumentError(f"{name}{place}: expected {kind}, found {found}.", next=FIX)


def expect_object(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise unexpected("an object", value, name, where)
    return value


def expect_list(value: Any, name: str, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise unexpected("a list", value, name, where)
    return value


def expect_text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise unexpected("a text", value, name, where)
    return value


def expect_optional_text(value: Any, name: str, where: str) -> str | None:
    return None if value is None else expect_text(value, name, where)


def expect_number(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_ID:
        raise unexpected("a number from 0", value, name, where)
    return value


def expect_rows(value: Any, name: str, where: str) -> Sequence[Any]:
    """Return the entries of a plan, at least one."""
    rows = expect_list(value, name, where)
    if not rows:
        raise DocumentError(
            f"{name} has no partitions.", next="Name at least one partition with its replicas."
        )
    return rows


def expect_partition(row: Mapping[str, Any], name: str, where: str) -> TopicPartition:
    """Return the partition that `topic` and `partition` of an entry name."""
    topic = expect_text(row.get("topic"), name, f"{where}.topic")
    if not topic.isprintable():
        raise unexpected("a topic's name", topic, name, f"{where}.topic")
    return TopicPartition(topic, expect_number(row.get("partition"), name, f"{where}.partition"))


def expect_replicas(value: Any, tp: TopicPartition, name: str, where: str) -> tuple[int, ...]:
    """Return the brokers that are to hold `tp`: at least one, each once."""
    replicas = tuple(
        expect_number(broker, name, f"{where}[{i}]")
        for i, broker in enumerate(expect_list(value, name, where))
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
    return replicas


def add_once(entries: dict[TopicPartition, T], tp: TopicPartition, entry: T, name: str) -> None:
    """Add what a document says of `tp`; it may say it once."""
    if tp in entries:
        raise DocumentError(
            f"{name} names {tp} twice.", next=f"Keep one entry for {tp} and remove the other."
        )
    entries[tp] = entry
