"""`trimtab demo` without a terminal: Ctrl-C stops everything, and says nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from waiting import eventually


def alive_below(home: Path) -> list[str]:
    """Return the command lines of the processes that have something below `home` in them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(home) in line:
                found.append(line)
    return found


def test_ctrl_c_during_its_run_stops_everything(tmp_path: Path) -> None:
    demo = [sys.executable, "-P", "-m", "tui", "demo", "--brokers", "6", "--partitions", "100"]
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*demo, "--speed", "0.1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "TRIMTAB_HOME": str(tmp_path / "home"),
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
        )
    try:
        eventually(lambda: "1 of 1 submitted" in said.read_text() or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        assert alive_below(tmp_path / "home")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, said.read_text()
    finally:
        process.kill()
        process.wait()
    after = said.read_text().rpartition("1 of 1 submitted")[2]
    assert "goes on" not in after
    assert "Follow it" not in after
    assert "Traceback" not in after
    assert "stopp" in after.lower()
    assert alive_below(tmp_path / "home") == []
    assert not list((tmp_path / "home" / "data" / "runs").glob("*/*.run"))
