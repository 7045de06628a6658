"""Where files are: absolute folders only, the same for whatever is started from wherever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import paths

TELL = """
import json, os, subprocess, sys
from core import paths
if sys.argv[1:]:
    paths.settle()
    os.chdir("/")
    print(subprocess.run([sys.executable, "-c", sys.stdin.read()], text=True,
                         stdout=subprocess.PIPE, check=True).stdout)
else:
    print(json.dumps([str(f()) for f in
        (paths.config_dir, paths.cache_dir, paths.data_dir, paths.log_dir, paths.runtime_dir)]))
"""
XDG = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")


def folders(here: Path, **environment: str) -> list[str]:
    """Return the folders that a process started by one that `here` was typed finds."""
    env = {"HOME": str(here / "home"), "TMPDIR": str(here / "tmp"), "PATH": "/usr/bin:/bin"}
    (here / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", TELL, "start another"],
        input=TELL,
        cwd=here,
        env={**env, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    dirs: list[str] = json.loads(done.stdout)
    return dirs


def test_relative_xdg_folders_are_ignored_as_their_specification_has_it(tmp_path: Path) -> None:
    usual = folders(tmp_path)
    assert all(place.startswith((str(tmp_path), "/run/")) for place in usual)
    for value in ("data", "./data", "../data"):
        assert folders(tmp_path, **dict.fromkeys(XDG, value)) == usual
    assert not (tmp_path / "data").exists()


def test_absolute_xdg_folders_are_used(tmp_path: Path) -> None:
    given = {name: str(tmp_path / name) for name in XDG}
    config, cache, data, _, runtime = folders(tmp_path, **given)
    assert [config, cache, data, runtime] == [
        f"{given[name]}/trimtab" for name in XDG if name != "XDG_STATE_HOME"
    ]


@pytest.mark.parametrize("home", ["own", "./own", "{here}/own"])
def test_relative_home_is_resolved_against_the_working_directory(tmp_path: Path, home: str) -> None:
    given = home.format(here=tmp_path)
    dirs = folders(tmp_path, TRIMTAB_HOME=given, XDG_DATA_HOME="elsewhere")
    assert dirs == [str(tmp_path / "own" / k) for k in ("config", "cache", "data", "log", "run")]


def test_our_folders_are_accessible_to_their_owner_only_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one that others may write to, they could put a journal of their own in our place."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "own" / "home"))
    before = os.umask(0)
    try:
        paths.make_folder(paths.runs_dir("C"))
        paths.make_folder(paths.runs_dir("C"))
        paths.make_folder(tmp_path / "given" / "root")
    finally:
        os.umask(before)
    ours = [place for place in (tmp_path / "own").rglob("*") if place.stat().st_mode & 0o077]
    assert (ours, (tmp_path / "own" / "home").stat().st_mode & 0o777) == ([], 0o700)
    assert (tmp_path / "given" / "root").stat().st_mode & 0o777 == 0o777, "as its user has it"
