"""What is left of an autopilot whose cluster is gone: neither process, nor switch, nor log."""

from __future__ import annotations

import subprocess
import sys

from clusters import NOON

from core import paths
from core.autopilot import switch as switches
from core.autopilot.daemon import ROLE, is_running
from core.autopilot.decision import Reason
from core.autopilot.log import DecisionLog, Entry, EntryKind
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.removal import forget_autopilot
from core.autopilot.switch import Switch
from core.cluster.connect import Address
from core.daemons.lease import lease_file

HOLD = """
import sys
from pathlib import Path
from core.daemons.lease import hold_lease

with hold_lease(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def test_its_process_its_switch_and_its_decisions_go_and_no_other_cluster_s() -> None:
    for cluster_id in ("gone", "stays"):
        settings = AutopilotSettings(mode=Mode.ACT)
        switches.write(Switch(cluster_id, "x", Address("b:9092"), settings, NOON, "ada"))
        DecisionLog(cluster_id).add(Entry(NOON, EntryKind.WAIT, (Reason("balanced", "Even."),)))
    lease = lease_file(paths.load_root(), "gone", ROLE)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as flying:
        assert flying.stdout.readline().strip() == b"True"
        forget_autopilot("gone")
        assert not is_running("gone")
    assert not paths.autopilot_dir("gone").exists()
    assert [switch.cluster_id for switch in switches.read_all()] == ["stays"]


def test_a_cluster_without_one_has_nothing_to_forget() -> None:
    forget_autopilot("none")
    assert not paths.autopilots_dir().exists()
