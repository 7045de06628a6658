"""A journal whose disk is full."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from full_disk import files_of_at_most

from core.run.record.journal import Journal, JournalError
from core.run.record.records import Kind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_no_run_starts_where_its_journal_does_not_fit(tmp_path: Path) -> None:
    with files_of_at_most(1024), pytest.raises(JournalError, match="cannot be made") as refused:
        Journal.create(tmp_path / "r.run")
    assert "No run starts without its journal" in (refused.value.detail or "")


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
