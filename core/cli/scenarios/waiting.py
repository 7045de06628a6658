"""Waiting in a scenario until something is so, for as long as that may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from core.errors import TrimtabError

SECONDS = 60.0
_T = TypeVar("_T")


def until(holds: Callable[[], bool], what: str, *, seconds: float = SECONDS) -> None:
    """Return once it holds; raises TrimtabError after so long, saying what was waited for."""
    seen(holds, bool, what, seconds=seconds)


def seen(
    look: Callable[[], _T], holds: Callable[[_T], bool], what: str, *, seconds: float = SECONDS
) -> _T:
    """Return the first look for which it holds: another one may ask a broker that is behind.

    Raises TrimtabError as `until` does.
    """
    deadline = time.monotonic() + seconds
    while not holds(found := look()):
        if time.monotonic() > deadline:
            raise TrimtabError(f"Waited {seconds:.0f} s until {what}, in vain.")
        time.sleep(0.1)
    return found
