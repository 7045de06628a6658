"""Fixtures for the tests of core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_help import here, simulated
from in_process import hand, trimtab
from offline import saved
from own_home import own_home
from run_help import Run, Start

__all__ = ["hand", "here", "own_home", "saved", "simulated", "start", "trimtab"]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Begin runs in this process, in a home of their own; their journals are closed at the end."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    runs: list[Run] = []

    def begin(*args: Any, **kwargs: Any) -> Run:
        runs.append(Run(*args, **kwargs))
        return runs[-1]

    yield begin
    for run in runs:
        run.journal.close()
