"""Kafka's topics-to-move JSON: the topics that a plan is to be made for, by their names.

ReassignPartitionsCommand takes it as `--topics-to-move-json-file` with `--generate`.
"""

from __future__ import annotations

from pathlib import Path

from core import files
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.plan.formats.json_values import (
    expect_list,
    expect_object,
    expect_text,
    parse_json,
    read_document_text,
)


def read_topics(path: Path) -> tuple[str, ...]:
    """Return the topics that a file names (stdin for `-`), each once; raises DocumentError."""
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


def refuse_unknown(state: ClusterState, topics: tuple[str, ...]) -> None:
    """Raise DocumentError for topics that the cluster does not have."""
    missing = [topic for topic in topics if state.topic(topic) is None]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DocumentError(
            f"The cluster does not have topic {missing[0]}{more}.",
            next="Correct the list of topics to move.",
        )
