"""A journal whose disk is full."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from full_disk import files_of_at_most

from core.cluster.connect import Address
from core.cluster.metadata import TopicPartition
from core.plan.plan import Move, Plan
from core.run.journal.journal import Journal, JournalError, journal_path
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_no_run_starts_where_its_journal_does_not_fit(tmp_path: Path) -> None:
    with files_of_at_most(1024), pytest.raises(JournalError, match="cannot be made") as refused:
        Journal.create(tmp_path / "r.run")
    assert "No run starts without its journal" in (refused.value.detail or "")


@pytest.mark.parametrize(
    ("room", "says"),
    [(0, "cannot be made"), (16_000, "cannot be made"), (64_000, "cannot be written")],
    ids=["nothing fits", "its tables do not", "its first record does not"],
)
def test_a_journal_that_does_not_fit_leaves_no_file(
    room: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one would be taken for a damaged journal ever after."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    plan = Plan.of(Move(TopicPartition("t", p), (1,), (2,)) for p in range(1000))
    asked = Address("sim:none"), "c", plan, RunOptions(1), None
    with files_of_at_most(room), pytest.raises(JournalError, match=says):
        create_journal(*asked, at=NOON)
    assert not list(journal_path("c", "any").parent.iterdir())
    with create_journal(*asked, at=NOON) as journal:
        assert journal.path.name == "0101-120000.run"


def test_a_journal_whose_disk_fills_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "r.run") as journal:
        written = [journal.write(NOON, Kind.WAITING, {"why": "first"})]

        def fill() -> None:
            while True:
                written.append(journal.write(NOON, Kind.WAITING, {"why": "x" * 1000}))

        with files_of_at_most(64 * 1024), pytest.raises(JournalError, match="cannot be written"):
            fill()
        written.append(journal.write(NOON, Kind.WAITING, {"why": "last"}))
        assert journal.records() == tuple(written)
        journal.check()
