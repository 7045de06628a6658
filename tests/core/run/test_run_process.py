"""One run at a time: whoever comes second is told which run is in progress."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from core.run import run_process as lock
from core.run.run_process import BusyError, logout_policy, take_lock


class Named:
    """A run as `list_runs` gives it, as far as the lock looks at it."""

    class state:
        ended = False

    run = "1121-131735"


def test_lock_holder_that_is_just_starting_is_named_once_its_run_is_listed(
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


def test_lock_released_by_a_holder_without_a_listed_run_is_taken_by_the_next() -> None:
    held = take_lock("c")
    with pytest.raises(BusyError, match="^A run is in progress"):
        take_lock("c")
    gone = threading.Timer(0.2, os.close, (held,))
    gone.start()
    os.close(take_lock("c", patience_seconds=60))
    gone.join()


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "sre")


def configure(root: Path, name: str, text: str) -> None:
    path = root / "etc/systemd" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, False),
        ({"logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, False),
        ({"logind.conf": "[Login]\nKillUserProcesses=yes\n"}, True),
        ({"logind.conf": "[Login]\nKillUserProcesses = True\n"}, True),
        ({"logind.conf.d/50-kill.conf": "[Login]\nKillUserProcesses=1\n"}, True),
        (
            {
                "logind.conf": "KillUserProcesses=yes",
                "logind.conf.d/90-keep.conf": "KillUserProcesses=no",
            },
            False,
        ),
    ],
)
def test_last_kill_user_processes_setting_of_logind_takes_effect(
    tmp_path: Path, files: dict[str, str], kills: bool
) -> None:
    for name, text in files.items():
        configure(tmp_path, name, text)
    assert logout_policy(tmp_path).kills is kills


def test_run_starts_without_prefix_or_warning_if_logout_kills_nothing(tmp_path: Path) -> None:
    policy = logout_policy(tmp_path)
    assert not policy.ends_runs
    assert policy.warning("this run") == ""
    assert policy.prefix() == ()


def test_without_lingering_logout_would_end_a_run_and_the_remedy_is_named(tmp_path: Path) -> None:
    configure(tmp_path, "logind.conf", "KillUserProcesses=yes")
    policy = logout_policy(tmp_path)
    assert policy.ends_runs
    assert policy.remedy == "loginctl enable-linger sre"
    assert policy.warning("this run").endswith("this run too: first loginctl enable-linger sre")
    assert policy.prefix() == ()


def test_run_starts_under_the_users_systemd_manager_if_lingering_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, "logind.conf", "KillUserProcesses=yes")
    linger = tmp_path / "var/lib/systemd/linger/sre"
    linger.parent.mkdir(parents=True)
    linger.touch()
    runner = tmp_path / "systemd-run"
    runner.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    policy = logout_policy(tmp_path)
    assert not policy.ends_runs
    assert policy.prefix()[:3] == (str(runner), "--user", "--scope")
    runner.unlink()
    assert logout_policy(tmp_path).ends_runs
