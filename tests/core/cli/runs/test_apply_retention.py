"""What is said before `apply --retention` deletes records, and what it has nothing to do with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import cluster
from run_help import move

from core.cli.runs.launch import describe_deletions
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.plan import Plan


def state(**policies: str | None) -> ClusterState:
    there = cluster({f"{name}-0": [1, 2] for name in policies})
    return there.with_topics(
        {t.name: replace(t, cleanup_policy=policies[t.name]) for t in there.topics}
    )


def plan(*topics: str) -> Plan:
    return Plan("c", tuple(move(topic, 0, (1, 2), (3, 2)) for topic in topics))


@pytest.mark.parametrize("policy", ["delete", "compact,delete", None])
def test_what_is_deleted_by_its_age_is_said(policy: str | None) -> None:
    (said,) = describe_deletions(state(t=policy), plan("t"), 3_600_000)
    assert said.startswith("Records of t older than 1 h 00 m are")


def test_topics_that_are_only_compacted_are_left_out_by_name() -> None:
    there = state(t="delete", u="compact", v="compact")
    first, second = describe_deletions(there, plan("t", "u", "v"), 3_600_000)
    assert first.startswith("Records of t older than ")
    assert second == "Only compacted, so no retention shortens what is copied: u, v."


def test_a_retention_that_shortens_nothing_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has no effect: u is only compacted"):
        list(describe_deletions(state(t="delete", u="compact"), plan("u"), 3_600_000))


def test_nothing_is_said_where_nothing_is_copied() -> None:
    reorder = Plan("c", (move("t", 0, (1, 2), (2, 1)),))
    assert not list(describe_deletions(state(t="compact"), reorder, 3_600_000))
