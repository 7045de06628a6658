"""Waiting in a scenario until something is so, for as long as that may take."""

from __future__ import annotations

import time
from collections.abc import Callable

from core.errors import TrimtabError

_SECONDS = 60.0


def until(holds: Callable[[], bool], what: str) -> None:
    """Return once it holds; raises TrimtabError after a minute, saying what was waited for."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TrimtabError(f"Waited {_SECONDS:.0f} s until {what}, in vain.")
        time.sleep(0.1)
