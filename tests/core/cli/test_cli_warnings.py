"""Warnings in a command's own process are said as commands say things."""

from __future__ import annotations

import subprocess
import sys

WARNS = """
import logging
from core.cli.common.output import (say_warnings)
say_warnings()
logging.getLogger("trimtab.record").warning("groups: %s", "no\\x1b[2J")
logging.getLogger("trimtab.record").info("nothing that matters")
"""


BROKEN = """
import sys
class Full:
    def write(self, text): raise OSError(28, "No space left on device")
    def flush(self): pass
sys.stderr = Full()
"""


def test_a_warning_that_cannot_be_said_ends_nothing() -> None:
    words = [sys.executable, "-c", f"{BROKEN}{WARNS}print('on')"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == "on\n"


def test_a_warning_is_said_and_does_nothing_to_a_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", WARNS], check=True, capture_output=True, text=True)
    assert done.stderr == "trimtab: groups: no\ufffd[2J\n"
