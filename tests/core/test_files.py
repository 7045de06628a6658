"""Files and folders that other processes come to as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import files


def test_a_folder_goes_only_when_nothing_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "b").touch()
    files.remove_empty(folder)
    assert folder.exists()
    (folder / "b").unlink()
    files.remove_empty(folder)
    assert not folder.exists()
    files.remove_empty(folder)


def test_what_is_no_folder_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    with pytest.raises(NotADirectoryError):
        files.remove_empty(path)


def test_what_has_just_been_taken_away_has_no_age(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    assert files.age_seconds(path, path.stat().st_mtime + 5) == 5
    path.unlink()
    assert files.age_seconds(path, 1e12) == 0
