"""The bench of estimates beside the clock: what its rows ask for, and how one goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.estimate_against_clock import COPY_SECONDS, MB, ROWS, Row, begun


def test_rows_are_one_and_several_leaders_and_destinations_with_and_without_producers():
    assert {row.shape for row in ROWS} == {"one to one", "one to two", "two to one", "two to two"}
    assert {row.rate_mb_per_s for row in ROWS} >= {5, 100}
    assert sum(row.produced_mb_per_s > 0 for row in ROWS) >= 5
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_busiest_side_copies_for_as_long_as_a_row_takes(row: Row):
    sizes = row.sizes(seed=1)
    each = row.produced_mb_per_s / len(sizes)
    seconds = []
    for side in {("out", before[0]) for before, _ in row.moves} | {
        ("in", after[0]) for _, after in row.moves
    }:
        at, copies, counted = 0.0, 0, 1
        for size, (before, after) in zip(sizes, row.moves, strict=True):
            if side in (("out", before[0]), ("in", after[0])):
                at, copies = at + size, copies + 1
                counted = len(before) if side[0] == "out" else 1
        seconds.append(at / MB / (row.rate_mb_per_s - copies * each * counted))
    least, most = COPY_SECONDS
    assert least * (1 - 1e-6) <= max(seconds) <= most * (1 + 1e-6)


def test_rows_are_not_all_of_one_length_which_a_quota_window_might_divide():
    lengths = {sum(row.sizes(1)) / row.rate_mb_per_s for row in ROWS if row.shape == "one to one"}
    assert max(lengths) > 1.1 * min(lengths)


def test_sizes_are_of_the_seed():
    row = ROWS[0]
    assert row.sizes(1) == row.sizes(1)
    assert row.sizes(1) != row.sizes(2)


def test_what_was_interrupted_goes_on_and_what_is_complete_begins_anew(tmp_path: Path):
    path = tmp_path / "estimate.json"
    assert begun(path, 1) == []
    rows = [{"row": row.name, "seed": 1} for row in ROWS]
    path.write_text(json.dumps(rows[:3]))
    assert begun(path, 1) == rows[:3]
    assert begun(path, 2) == []
    path.write_text(json.dumps(rows))
    assert begun(path, 1) == []


def test_rows_of_another_form_are_measured_anew(tmp_path: Path):
    path = tmp_path / "estimate.json"
    path.write_text(json.dumps([{"shape": "one to one", "wall_seconds": 48.5}]))
    assert begun(path, 1) == []
