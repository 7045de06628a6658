"""The decision log and the switch: read back as they were written, whatever became of the file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from clusters import NOON, tp

from core import paths
from core.autopilot import log as logs
from core.autopilot import switch as switches
from core.autopilot.daemon import (
    ENDING_SECONDS,
    ROLE,
    STOP_SECONDS,
    is_running,
    read_status,
    runs_in_progress,
    set_switch,
    switch_on,
)
from core.autopilot.decision import Reason
from core.autopilot.log import DecisionLog, Entry, EntryKind
from core.autopilot.removal import forget_autopilot
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cluster.connect import Address
from core.daemons.lease import hold_lease, lease_file
from core.errors import DocumentError, TrimtabError
from core.run.journal.journal import journal_path

ENTRY = Entry(
    NOON,
    EntryKind.ACT,
    (Reason("act", "Broker 1 is at 0 %."), Reason("more", "…")),
    run="0101-120000",
    bytes=5.0,
    moved=((tp("t-0"), (2, 1), (3, 1)),),
    ended_at=NOON,
)
SWITCH = Switch(
    "c-1",
    "prod",
    Address("b:9092", Path("/x.conf"), timeout_seconds=3.0),
    AutopilotSettings(mode=Mode.ACT),
    NOON,
    "ada",
    "/s",
    False,
)


@dataclass
class Later:
    """A clock by which each wait lets something happen."""

    events: list[Callable[[], object]] = field(default_factory=list)
    waited: float = 0.0

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.waited)

    def monotonic(self) -> float:
        return self.waited

    def sleep(self, seconds: float) -> None:
        self.waited += seconds
        if self.events:
            self.events.pop(0)()


def running() -> AbstractContextManager[bool]:
    """Hold what the autopilot of SWITCH holds while it runs."""
    return hold_lease(lease_file(paths.load_root(), SWITCH.cluster_id, ROLE))


def test_entries_are_read_back_as_they_were_written() -> None:
    log = DecisionLog("c-1")
    assert list(log.entries()) == []
    others = Entry(NOON, EntryKind.WAIT, (Reason("balanced", "Even."),))
    log.add(ENTRY)
    log.add(others)
    assert list(log.entries()) == [ENTRY, others]


def test_truncated_line_left_by_a_crash_does_not_damage_other_entries() -> None:
    log = DecisionLog("c-1")
    log.add(ENTRY)
    with log.path.open("ab") as file:
        file.write(b'{"at": "2026-')
    log.add(ENTRY)
    assert list(log.entries()) == [ENTRY, ENTRY]


def test_the_log_is_bounded_and_two_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 1500)
    log = DecisionLog("c-1")
    for n in range(40):
        log.add(replace(ENTRY, run=f"run-{n}"))
    kept = list(log.entries())
    assert 4 <= len(kept) < 15
    assert kept[-1].run == "run-39"
    assert sum(path.stat().st_size for path in log.path.parent.glob("*.jsonl")) < 5000


def test_a_switch_is_read_back_as_it_was_set() -> None:
    assert switches.read("c-1") is None
    switches.write(SWITCH)
    assert switches.read("c-1") == SWITCH
    assert list(switches.read_all()) == [SWITCH]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"format": "trimtab.autopilot/9"}'])
def test_unreadable_switch_is_reported(text: bytes) -> None:
    switches.write(SWITCH)
    switches.switch_file("c-1").write_bytes(text)
    with pytest.raises(DocumentError, match="taken for off|cannot be read"):
        switches.read("c-1")
    assert list(switches.read_all()) == []


def test_the_timeout_of_config_toml_is_read_each_time() -> None:
    config = paths.config_file()
    config.parent.mkdir(parents=True, exist_ok=True)
    for at_first, later, expected in ((10.0, 60.0, 60.0), (3.0, 60.0, 3.0)):
        config.write_text('[clusters.prod]\nbootstrap = "b:9092"\ntimeout = "10s"\n')
        address = replace(SWITCH.address, timeout_seconds=at_first)
        switches.write(replace(SWITCH, address=address))
        config.write_text(f'[clusters.prod]\nbootstrap = "b:9092"\ntimeout = "{later:.0f}s"\n')
        read = switches.read("c-1")
        assert read.address.timeout_seconds == expected


def test_mode_off_is_logged_without_needing_a_cluster() -> None:
    switches.write(SWITCH)
    set_switch(SWITCH.turned(Mode.OFF, at=NOON, who="bob"))
    assert runs_in_progress(SWITCH, Later()) == ()
    switch = switches.read("c-1")
    assert (switch.mode, switch.who, switch.settings.aim_band) == (Mode.OFF, "bob", 0.1)
    stands = read_status(switch)
    assert stands.process is None
    assert stands.last.text == "Set to off by bob."


STARTED = Entry(NOON, EntryKind.STARTED, (Reason("started", "…"),), run="0101-120000")
FAILED = Entry(NOON, EntryKind.FAILED, (Reason("failed", "…"),))
MEANT = replace(ENTRY, run=None, ended_at=None)


def unreadable(started: Entry) -> None:
    """Give a run a journal that nobody can read: it may well go on."""
    assert started.run is not None
    path = journal_path("c-1", started.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("?")


@pytest.mark.parametrize(("then", "runs"), [(STARTED, ("0101-120000",)), (FAILED, ())])
def test_a_run_that_is_just_being_started_is_waited_for(then: Entry, runs: tuple[str, ...]) -> None:
    log = DecisionLog("c-1")
    log.add(MEANT)
    unreadable(STARTED)
    clock = Later([lambda: None, lambda: log.add(then)])
    with running():
        set_switch(SWITCH.turned(Mode.OFF, at=NOON, who="bob"))
        assert runs_in_progress(SWITCH, clock) == runs
    assert clock.events == []


def test_last_entry_written_by_a_process_is_read_after_it_has_ended() -> None:
    log = DecisionLog("c-1")
    log.add(MEANT)
    with ExitStack() as lease:
        lease.enter_context(running())

        def end() -> None:
            unreadable(STARTED)
            log.add(STARTED)
            lease.close()

        assert runs_in_progress(SWITCH, Later([end])) == ("0101-120000",)


def test_starting_run_that_never_becomes_known_is_reported_after_the_timeout() -> None:
    DecisionLog("c-1").add(MEANT)
    clock = Later()
    with running(), pytest.raises(TrimtabError, match="is starting a run that is not known yet"):
        runs_in_progress(SWITCH, clock)
    assert clock.waited >= STOP_SECONDS


def test_run_intended_by_a_process_long_gone_is_not_waited_for() -> None:
    DecisionLog("c-1").add(MEANT)
    clock = Later()
    assert runs_in_progress(SWITCH, clock) == ()
    assert clock.waited == 0


def test_process_that_has_read_mode_off_ends_despite_a_later_switch_on() -> None:
    set_switch(SWITCH.turned(Mode.OFF, at=NOON, who="bob"))
    clock = Later([lambda: None])
    with ExitStack() as lease:
        lease.enter_context(running())
        clock.events.append(lease.close)  # it ends a moment later
        assert not switch_on(SWITCH, clock)
    assert switches.read("c-1") == SWITCH


@pytest.mark.parametrize(("mode", "waited"), [(Mode.OFF, ENDING_SECONDS), (Mode.SUGGEST, 0.0)])
def test_process_that_keeps_running_is_reused_by_switch_on(mode: Mode, waited: float) -> None:
    switches.write(SWITCH.turned(mode, at=NOON, who="bob"))
    clock = Later()
    with running():
        assert switch_on(SWITCH, clock)
    assert clock.waited == pytest.approx(waited, abs=0.5)


def test_switch_on_reports_at_once_that_no_process_is_running() -> None:
    clock = Later()
    assert not switch_on(SWITCH, clock)
    assert clock.waited == 0


HOLD = """
import sys
from pathlib import Path
from core.daemons.lease import hold_lease

with hold_lease(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def test_forget_removes_process_switch_and_decisions_of_that_cluster_only() -> None:
    for cluster_id in ("gone", "stays"):
        settings = AutopilotSettings(mode=Mode.ACT)
        switches.write(Switch(cluster_id, "x", Address("b:9092"), settings, NOON, "ada"))
        DecisionLog(cluster_id).add(Entry(NOON, EntryKind.WAIT, (Reason("balanced", "Even."),)))
    lease = lease_file(paths.load_root(), "gone", ROLE)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"True"
        forget_autopilot("gone")
        assert not is_running("gone")
    assert not paths.autopilot_dir("gone").exists()
    assert [switch.cluster_id for switch in switches.read_all()] == ["stays"]


def test_forget_does_nothing_for_a_cluster_without_an_autopilot() -> None:
    forget_autopilot("none")
    assert not paths.autopilots_dir().exists()
