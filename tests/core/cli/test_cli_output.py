"""What `-o FILE` does: a whole file, or what was there before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from core.cli.context import write_text
from core.errors import UsageError


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    output.write_text("old")
    write_text("new", output)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert output.read_text() == "new"


@pytest.mark.parametrize("name", ["missing/plan.json", "file/plan.json", "folder"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="Cannot write"):
        write_text("new", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text("new", pipe)
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()
