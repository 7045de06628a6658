"""Files and folders that other processes come to as well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core import files, paths
from core.daemons.lease import hold_lease


def test_folder_is_removed_only_if_it_is_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "b").touch()
    files.remove_empty(folder)
    assert folder.exists()
    (folder / "b").unlink()
    files.remove_empty(folder)
    assert not folder.exists()
    files.remove_empty(folder)


def test_remove_empty_raises_if_the_path_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    with pytest.raises(NotADirectoryError):
        files.remove_empty(path)


def test_deleted_file_has_age_zero(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    assert files.age_seconds(path, path.stat().st_mtime + 5) == 5
    path.unlink()
    assert files.age_seconds(path, 1e12) == 0


def test_locks_and_small_files_in_our_own_folders_are_accessible_to_their_owner_only(
    tmp_path: Path,
) -> None:
    """What is published in a folder of the user's own is for whom the umask lets read it."""
    before = os.umask(0o022)
    try:
        for folder in (paths.data_dir() / "a", tmp_path / "published"):
            files.write_text(folder / "text", "a")
            with files.locked(folder / "lock"), hold_lease(folder / "lease"):
                pass
    finally:
        os.umask(before)
    for folder, mode in (paths.data_dir() / "a", 0o600), (tmp_path / "published", 0o644):
        modes = {place.name: place.stat().st_mode & 0o777 for place in folder.iterdir()}
        assert modes == dict.fromkeys(("text", "lock", "lease"), mode)


def test_write_does_not_follow_a_symlink_planted_in_a_shared_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f"{files.TEMPORARY}{os.getpid()}-plan.json").symlink_to(victim)
    files.write_text(tmp_path / "plan.json", "new")
    assert (tmp_path / "plan.json").read_text() == "new"
    assert victim.read_text() == "kept"
