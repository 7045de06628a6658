"""`plan impact` on a saved cluster with groups: what it prints, and what its document holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from offline import Here

from core.errors import ExitCode

GB = 1_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def saved(saved: Here) -> Here:
    """Two partitions of 20 GB, of which one has lost a replica, and two groups."""
    saved.save_cluster(
        {
            "t-0": ([0, 1], [0, 1], 20 * GB, 100_000.0),
            "t-1": ([1, 2], [1], 20 * GB, 100_000.0),
            "t-2": ([2, 0], [2, 0], GB, 0.0),
        }
    )
    change(
        saved,
        topics=[
            {
                "name": "t",
                "id": "t-id",
                "min_insync": 1,
                "retention_ms": 72 * HOUR_MS,
                "cleanup_policy": "delete",
                "remote_storage": False,
            }
        ],
        groups=[
            {"id": "etl", "state": "stable", "lag": [{"topic": "t", "partition": 0, "lag": 0}]},
            {"id": "other", "state": "empty", "lag": [{"topic": "t", "partition": 2, "lag": 7}]},
        ],
    )
    return saved


def change(saved: Here, **keys: Any) -> None:
    saved.cluster.write_text(json.dumps(json.loads(saved.cluster.read_text()) | keys))


def test_impact_names_affected_groups_and_partitions_without_a_spare_replica(saved: Here) -> None:
    code, out, _ = saved.run("plan", "impact", saved.plan(t0=[3, 1], t1=[1, 4]))
    assert code == ExitCode.DONE
    assert out.splitlines()[0] == "2 partitions: 2 copied, 1 with another leader."
    assert "t-1 has no in-sync replica to spare until moved" in " ".join(out.split())
    groups = out.splitlines()
    (etl,) = [line.split() for line in groups if line.startswith("etl")]
    assert etl == ["etl", "stable", "1", "1", "0", "0.0", "s", "500", "kB"]
    assert not [line for line in groups if line.startswith("other")]
    assert "t            200 kB/s            1       2" in out
    assert max(map(len, out.splitlines())) <= 80


def test_unconsumed_records_of_unmoved_partitions_advise_against_shorter_retention(
    saved: Here,
) -> None:
    plan = saved.plan(t0=[3, 1])
    _, document = saved.json("plan", "impact", plan)
    assert [reader["group"] for reader in document["shrinking"]["unsure"]] == ["other"]
    assert document["shrinking"]["is_advised"] is False


def test_no_shorter_retention_is_advised_while_the_reads_of_a_group_are_unknown(
    saved: Here,
) -> None:
    lag = [{"topic": "t", "partition": 0, "lag": 0}]
    known = {"id": "known", "state": "stable", "lag": lag}
    change(saved, groups=[known, {"id": "etl", "state": "unknown", "lag": None}])
    plan = saved.plan(t0=[3, 1])
    _, document = saved.json("plan", "impact", plan)
    assert [group["id"] for group in document["groups"]] == ["known"]
    assert document["groups_unknown"] == ["etl"]
    assert document["shrinking"]["is_advised"] is False
    _, out, _ = saved.run("plan", "impact", plan)
    assert "What consumer group etl reads is not known." in out
    assert [line for line in out.splitlines() if line.startswith("known ")]


@pytest.mark.parametrize(
    ("denied_groups", "message"),
    [
        (["etl"], "What consumer group etl reads is not known."),
        (["a", "b"], "What consumer groups a and b read is not known."),
        (["d", "b", "c", "a", "e"], "What consumer groups a, b, c and 2 more read is"),
    ],
)
def test_unreadable_groups_are_named_and_not_reported_as_no_groups(
    saved: Here, denied_groups: list[str], message: str
) -> None:
    change(saved, groups=[{"id": id, "state": "unknown", "lag": None} for id in denied_groups])
    _, out, _ = saved.run("plan", "impact", saved.plan(t0=[3, 1]))
    assert message in " ".join(out.split())
    assert "No consumer group" not in out


def test_retention_that_deletes_no_unconsumed_records_is_advised_with_its_option(
    saved: Here,
) -> None:
    groups = [{"id": "etl", "state": "stable", "lag": [{"topic": "t", "partition": 0, "lag": 0}]}]
    change(saved, groups=groups)
    plan = saved.plan(t0=[3, 1])
    _, out, _ = saved.run("plan", "impact", plan)
    text = " ".join(out.split())
    assert (
        "With a retention of 1h instead of 72h while they move, 19 GB to 20 GB less would be copied"
        in text
    )
    assert out.endswith(f"\n  trimtab apply {plan} --retention 1h\n")
    _, document = saved.json("plan", "impact", plan, "--retention", "2d")
    assert document["shrinking"]["seconds"] == 2 * 86_400
    assert document["shrinking"]["most_bytes"] == 20 * GB - 2 * 86_400 * 100_000


def test_document_without_groups_reports_the_readers_as_unknown(saved: Here) -> None:
    change(saved, groups=None)
    plan = saved.plan(t0=[3, 1])
    _, out, _ = saved.run("plan", "impact", plan)
    assert "Which consumer groups read them is not known." in out
    assert "--retention" not in out
    _, document = saved.json("plan", "impact", plan)
    assert document["groups"] is None


def test_document_with_an_empty_list_of_groups_reports_that_no_group_reads(saved: Here) -> None:
    change(saved, groups=[])
    plan = saved.plan(t0=[3, 1])
    _, out, _ = saved.run("plan", "impact", plan)
    assert "No consumer group reads them." in out
    _, document = saved.json("plan", "impact", plan)
    assert document["groups"] == []


@pytest.mark.parametrize("retention", ["0s", "soon"])
def test_invalid_retention_is_refused(saved: Here, retention: str) -> None:
    code, _, err = saved.run("plan", "impact", saved.plan(t0=[3, 1]), "--retention", retention)
    assert code == ExitCode.USAGE
    assert "Give one like 6h" in err or "Write it like" in err
