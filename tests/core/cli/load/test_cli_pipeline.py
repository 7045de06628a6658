"""`trimtab pipeline once`: what it prints of a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import Trimtab

from core.load.snapshot.format import Counts
from core.pipeline.publish import Heading, Published

AT = datetime(2026, 1, 1, tzinfo=UTC)


def published(cluster_id: str, counts: Counts, *, shown: bool = True) -> Published:
    heading = Heading("000001-00000002", 1, AT, AT, counts) if shown else None
    return Published("q-2", cluster_id, counts, AT, heading)


ONE = [published("a", Counts(3000, 2900, 50, 30, {"negative": 20}))]
MANY = [*ONE, published("b", Counts(4, 4)), published("c", Counts(2), shown=False)]


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[Published]]:
    """Return what the job of the command will have done."""
    done: list[list[Published]] = []

    @contextmanager
    def chosen_job(*of: Any, quick: bool) -> Iterator[SimpleNamespace]:
        report: Callable[[list[Published]], None] = of[-1]
        yield SimpleNamespace(once=lambda: [report(batch) for batch in done])

    monkeypatch.setattr("core.cli.load.pipeline.chosen_job", chosen_job)
    return done


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (ONE, "000001-00000002: 3,000 samples read, 2,900 accepted, 30 late, 20 quarantined\n"),
        (
            MANY,
            "q-2: 2 snapshots of 3 clusters: 3,006 samples read, 2,904 accepted, 30 late, "
            "20 quarantined\n",
        ),
        (
            [published("c", Counts(2, 2), shown=False)],
            "no snapshot yet: 2 samples read, 2 accepted\n",
        ),
        ([], ""),
    ],
    ids=["one", "many", "no-snapshot", "nothing"],
)
def test_batch_is_printed_as_one_line_for_any_number_of_clusters(
    batch: list[Published],
    text: str,
    batches: list[list[Published]],
    tmp_path: Path,
    trimtab: Trimtab,
) -> None:
    batches.append(batch)
    answer = trimtab("pipeline", "once", "--all", "--root", str(tmp_path))
    assert answer == (0, "", text)


def test_json_has_a_line_for_each_cluster(
    batches: list[list[Published]], tmp_path: Path, trimtab: Trimtab
) -> None:
    batches.append(MANY)
    _, printed, _ = trimtab("pipeline", "once", "--all", "--root", str(tmp_path), "--json")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["cluster_id"] for line in lines] == ["a", "b", "c"]
    assert [line["read"] for line in lines] == [3000, 4, 2]
