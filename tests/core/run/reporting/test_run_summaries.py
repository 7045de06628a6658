"""A list of many runs folds no journal twice, and never tells what a journal does not say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from clusters import NOON
from run_help import move, new_journal

from core import paths
from core.daemons.process import Process
from core.plan.plan import Plan
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.reporting.runs import (
    NAME,
    calibration,
    left_behind,
    list_runs,
    unreadable,
    with_throttles,
)
from core.run.reporting.views import RunStatus

CLUSTER = "c"


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which runs are folded."""
    seen: list[str] = []

    def count(records: Any) -> RunState:
        history = fold(records)
        seen.append(history.run_id)
        return history

    monkeypatch.setattr("core.run.reporting.runs.fold", count)
    return seen


def a_run(*, ended: bool = True, leaves: bool = False) -> Path:
    plan = Plan(CLUSTER, (move("t", 0, (1, 2), (3, 2)),))
    with new_journal(plan) as journal:
        if leaves:
            listed = {"topic": "t", "side": "leader", "prior": None, "pairs": ["0:1"]}
            intended = {"batch": 0, "lists": [listed], "rates": [], "foreign": []}
            journal.write(NOON, Kind.THROTTLE_INTENT, intended)
        if ended:
            end(journal)
        return journal.path


def end(journal: Journal) -> None:
    moved = {"index": 0, "phase": "done", "why": "", "leader": 3}
    journal.write(NOON, Kind.MOVED, {"moves": [moved], "stop": ""})
    journal.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})


def test_ended_run_is_read_once_and_then_listed_the_same(folded: list[str]) -> None:
    a_run(), a_run()
    first = list_runs(CLUSTER)
    assert len(folded) == 2
    folded.clear()
    assert list_runs(CLUSTER) == first
    assert unreadable(CLUSTER) == ()
    assert with_throttles(CLUSTER) == ()
    assert folded == []


def test_dead_run_is_found_without_opening_the_journals_of_ended_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_run(), a_run(leaves=True)
    dead = a_run(ended=False)
    gone = {"pid": Process.this().pid, "pid_started": "long ago"}
    preflight = {"sizes": [1], "leaders": [1], "min_insync": {}, "said": []}
    with Journal.open(dead) as journal:
        journal.write(NOON, Kind.STARTED, gone)
        journal.write(NOON, Kind.PREFLIGHT, preflight)
    assert left_behind(CLUSTER) == (dead.stem,)
    list_runs(CLUSTER)
    opened: set[str] = set()
    open_ = Journal.open

    def count(path: Path) -> Journal:
        opened.add(path.stem)
        return open_(path)

    monkeypatch.setattr(Journal, "open", count)
    assert left_behind(CLUSTER) == (dead.stem,)
    assert opened == {dead.stem}


def test_journal_of_a_run_in_progress_is_read_each_time(folded: list[str]) -> None:
    path = a_run(ended=False)
    list_runs(CLUSTER)
    folded.clear()
    with Journal.open(path) as journal:
        end(journal)
    (run,) = list_runs(CLUSTER)
    assert run.state is RunStatus.DONE
    assert folded == [path.stem]


def test_changed_journal_is_read_anew(folded: list[str]) -> None:
    path = a_run()
    list_runs(CLUSTER)
    path.write_text("garbage, long enough to look like something" * 100)
    assert list_runs(CLUSTER) == ()
    assert "damaged" in unreadable(CLUSTER)[0]


@pytest.mark.parametrize("payload", ["{}", "[]", "1", '{"moves": [99], "why": 3}'])
def test_journal_with_invalid_records_is_reported_as_damaged_and_listing_continues(
    payload: str,
) -> None:
    whole = a_run()
    good = whole.read_bytes()
    for kind in Kind:
        whole.write_bytes(good)
        with closing(sqlite3.connect(whole)) as database, database:
            changed = database.execute(
                "UPDATE records SET payload = ? WHERE kind = ?", (payload, kind.value)
            ).rowcount
        if changed:
            runs, wrong = list_runs(CLUSTER), unreadable(CLUSTER)
            assert len(runs) + len(wrong) == 1
            assert all("is damaged" in why for why in wrong)
        calibration(CLUSTER)


@pytest.mark.parametrize("text", ["", "[]", '{"format":1,"runs":{"x":1}}', '{"format":99}', "{"])
def test_runs_are_listed_even_if_the_summaries_file_is_empty_or_damaged(
    text: str, folded: list[str]
) -> None:
    a_run()
    first = list_runs(CLUSTER)
    (paths.runs_dir(CLUSTER) / NAME).write_text(text)
    folded.clear()
    assert list_runs(CLUSTER) == first
    assert len(folded) == 1


def test_deleted_run_is_not_listed_and_a_new_run_of_its_name_is_listed_as_itself() -> None:
    path, _ = a_run(), a_run()
    list_runs(CLUSTER)
    path.unlink()
    assert len(list_runs(CLUSTER)) == 1
    assert a_run(ended=False) == path
    assert {run.state for run in list_runs(CLUSTER)} == {RunStatus.DONE, RunStatus.STARTING}


def test_runs_are_listed_even_if_the_summaries_file_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_run()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.run.reporting.runs.files.write_text", full)
    assert len(list_runs(CLUSTER)) == 1


def test_journal_without_records_is_not_listed_as_a_run() -> None:
    """Its process died before it said what was asked: it has done nothing to the cluster."""
    folder = paths.runs_dir(CLUSTER)
    Journal.create(folder / "0101-000000.run").close()
    assert unreadable(CLUSTER) == ()
    assert list_runs(CLUSTER) == ()
    (folder / "0101-000001.run").touch()  # that of a run may have been cut off
    assert "not a run journal" in unreadable(CLUSTER)[0]
