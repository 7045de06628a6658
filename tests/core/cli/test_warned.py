"""Warnings in a command's own process are said as commands say things."""

from __future__ import annotations

import subprocess
import sys

WARNS = """
import logging
from core.cli.warned import say_warnings
say_warnings()
logging.getLogger("trimtab.record").warning("groups: %s", "no\\x1b[2J")
logging.getLogger("trimtab.record").info("nothing that matters")
"""


def test_a_warning_is_said_and_does_nothing_to_a_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", WARNS], check=True, capture_output=True, text=True)
    assert done.stderr == "trimtab: groups: no\ufffd[2J\n"
