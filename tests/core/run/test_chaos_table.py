"""The table that `make chaos` prints: what is missing is said, and what is wrong is never met."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos import simulated, table
from chaos.killing import CANCELLED_AT, CANCELS
from chaos.orders import KINDS, WHEN
from chaos.played import Played

WELL = {"outcome": "done", "wrong": []}


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path


def verdicts(reports: Path) -> dict[str, str]:
    return {row.what: row.verdict for row in table.rows(reports)}


def test_nothing_that_was_not_played_is_met(reports: Path) -> None:
    assert set(verdicts(reports).values()) == {table.UNFINISHED}


def test_a_target_is_met_once_all_of_it_was_played_well(reports: Path) -> None:
    what = "cancelled at each kind of record, real brokers"
    played = Played(reports / "chaos-processes.json")
    for kind in CANCELLED_AT[1:]:
        played.add(CANCELS, f"after {kind}", WELL)
    assert verdicts(reports)[what] == table.UNFINISHED
    played.add(CANCELS, f"after {CANCELLED_AT[0]}", WELL)
    assert verdicts(reports)[what] == table.MET


def test_one_wrong_result_is_a_miss_however_many_were_well(reports: Path) -> None:
    what = "process killed at each kind of record, real brokers"
    played = Played(reports / "chaos-processes.json")
    for kind in KINDS:
        for when in WHEN:
            for name in ("1", "2", "3"):
                played.add(f"{when} {kind}", name, WELL)
    assert verdicts(reports)[what] == table.MET
    played.add("before moved", "4", {"outcome": "done", "wrong": ["a stray throttle"]})
    assert verdicts(reports)[what] == table.MISSED


def test_what_was_wrong_in_a_run_that_nothing_struck_is_a_miss_too(reports: Path) -> None:
    played = Played(reports / "chaos-nodes-1.json")
    played.add("runs on real brokers", "1", {**WELL, "wrong": ["x"]})
    assert verdicts(reports)["runs that ended as they should, real brokers"] == table.MISSED


def test_a_sample_says_how_much_of_the_whole_it_is(reports: Path) -> None:
    played = Played(reports / "chaos-simulated.json")
    played.expect({simulated.DEATHS: 2, "other": 200})
    played.add(simulated.DEATHS, "1", WELL)
    played.add("other", "1", WELL)
    rows = {row.what: row for row in table.rows(reports)}
    assert rows["besides: other deaths and requests, simulator"].seen.startswith("1 of 200 (")
    deaths = rows["process killed at each record of 60 moves, simulator"]
    assert (deaths.seen, deaths.verdict) == ("1 of 2, 0 wrong", table.UNFINISHED)
