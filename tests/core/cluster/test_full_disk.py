"""A journal whose disk is full, told by the system itself: a limit on the size of files."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.run.record.journal import Journal, JournalError
from core.run.record.records import Kind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes (Python has SIGXFSZ ignored)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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
