"""Cruise Control's proposals: what its REST API answers with `json=true&verbose=true`.

Its ExecutionProposal names brokers in order, preferred leader first; log dirs are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.cluster.metadata import TopicPartition
from core.errors import DocumentError
from core.plan.formats.json_values import (
    add_once,
    expect_list,
    expect_number,
    expect_object,
    expect_partition,
    expect_replicas,
    expect_rows,
)

NOTE = "from Cruise Control's proposals"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One partition's ordered replicas; `before` is empty for one that is yet to be made."""

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]


def is_proposals(document: Mapping[str, Any]) -> bool:
    """Return whether a document is an answer of Cruise Control's optimizer."""
    return "proposals" in document or "goalSummary" in document


def parse_proposals(document: Mapping[str, Any], name: str) -> list[Proposal]:
    """Return what document `name` proposes; raises DocumentError."""
    if document.get("proposals") is None:
        raise DocumentError(
            f"{name} is Cruise Control's summary; its proposals are not in it.",
            next="Ask it for them: add verbose=true to the request.",
        )
    found: dict[TopicPartition, Proposal] = {}
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
        add_once(found, tp, Proposal(tp, before, after), name)
    return list(found.values())
