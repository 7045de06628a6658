"""One run at a time: whoever comes second is told which run is in progress."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from core.run import run_process as lock
from core.run.run_process import BusyError, take_lock


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))


class Named:
    """A run as `list_runs` gives it, as far as the lock looks at it."""

    class state:
        ended = False

    run = "1121-131735"


def test_a_run_that_is_just_being_started_is_waited_for_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def listed(cluster_id: str) -> tuple[Named, ...]:
        looks.append(1)
        return (Named(),) if len(looks) > 2 else ()

    monkeypatch.setattr(lock, "list_runs", listed)
    held = take_lock("c")
    try:
        with pytest.raises(BusyError, match="^Run 1121-131735 is in progress"):
            take_lock("c", patience_seconds=60)
        assert len(looks) == 3
    finally:
        os.close(held)


def test_one_that_gives_up_before_it_has_a_name_leaves_the_lock_to_the_next() -> None:
    held = take_lock("c")
    with pytest.raises(BusyError, match="^A run is in progress"):
        take_lock("c")
    gone = threading.Timer(0.2, os.close, (held,))
    gone.start()
    os.close(take_lock("c", patience_seconds=60))
    gone.join()
