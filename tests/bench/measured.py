"""One command in a process of its own, measured as a whole: wall time, processor time, memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass

_COMMAND = """
import sys
from core.cli.main import run
sys.exit(run(lambda context: None))
"""
# The kernel's ru_maxrss would count what this process held when it made the other one.
_LAST = """
import atexit, json, sys, time
def tell():
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps([time.process_time(), int(peak.split()[1]) * 1024]), file=sys.stderr)
atexit.register(tell)
"""


@dataclass(frozen=True, slots=True)
class Played:
    """What a process wrote to stdout, and what it took; `code` is its exit code."""

    output: str
    code: int
    seconds: float
    processor_seconds: float
    memory_bytes: int


def run_measured(*arguments: str, program: str = _COMMAND) -> Played:
    """Play `trimtab` with some arguments, or another program; raises where it tells nothing."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LAST + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    last = done.stderr.strip().splitlines()[-1:] or [""]
    if not last[0].startswith("["):
        raise RuntimeError(done.stderr)
    processor, peak = json.loads(last[0])
    return Played(done.stdout, done.returncode, seconds, processor, peak)
