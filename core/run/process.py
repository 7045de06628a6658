"""Processes on this machine: is the one that a journal names still the same, and alive?"""

from __future__ import annotations

import subprocess
from pathlib import Path


def started(pid: int) -> str | None:
    """Return when a live process began, in words that only serve to compare; None when dead.

    A pid alone is not enough: the system gives it to another process later.
    """
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # the name before ")" may hold anything
        return None if fields[0] in ("Z", "X") else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def alive(pid: int | None, began: str | None) -> bool:
    """Return whether process `pid` lives and is the one that began then."""
    return pid is not None and began is not None and started(pid) == began
