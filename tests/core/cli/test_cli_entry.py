"""The entry point: Ctrl-C at any moment of a start is one word and 130, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from tui.__main__ import main
sys.argv = ["trimtab", "--from", {saved!r}, "show"]
{before}
main()
"""


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    partitions = [{"topic": "t", "partition": 0, "leader": 1, "replicas": [1]}]
    path.write_text(json.dumps({"brokers": [{"id": 1}], "partitions": partitions}))
    return str(path)


def trimtab(saved: str, module: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run `show`, interrupted when `module` is imported for the first time."""
    return subprocess.run(
        [sys.executable, "-P", "-c", INTERRUPT.format(module=module, saved=saved, before=before)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    "module",
    [
        "core.cli.main",
        "click",
        "numpy",
        "core.load.view.heat",
    ],
)
def test_ctrl_c_while_it_starts(saved: str, module: str) -> None:
    done = trimtab(saved, module)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "trimtab: stopped.")


def test_ctrl_c_while_it_leaves(saved: str) -> None:
    at_exit = (
        "import atexit, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    )
    done = trimtab(saved, "none", at_exit)
    assert (done.returncode, done.stderr.strip()) == (130, "trimtab: stopped.")
    assert "skew" in done.stdout


def test_who_ignores_ctrl_c_goes_on(saved: str) -> None:
    """As `nohup` and shells do for what runs in the background."""
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = trimtab(saved, "click", ignored)
    assert (done.returncode, done.stderr) == (0, "")
