"""What a cluster refused and is left alone for a while, so that all else of a run goes on."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from core.clock import Clock

AGAIN_SECONDS = 5.0
"""How long what was refused is left alone."""
What = TypeVar("What", bound=Hashable)


class Resting(Generic[What]):
    """Resources or partitions that are left alone, each with why, without its full stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[What, tuple[str, float]] = {}

    @property
    def now(self) -> dict[What, str]:
        """Return what is left alone now, and why."""
        now = self._clock.monotonic()
        return {what: why for what, (why, until) in self._until.items() if now < until}

    def tried(self, tried: Collection[What], refused: Mapping[What, str]) -> None:
        """Note what came of a try: what was refused rests, and why; the others do not any more."""
        for what in tried:
            self._until.pop(what, None)
        until = self._clock.monotonic() + AGAIN_SECONDS
        self._until |= {what: (why, until) for what, why in refused.items()}

    def __contains__(self, what: What) -> bool:
        """Return whether this was refused when it was last tried."""
        return what in self._until

    def __bool__(self) -> bool:
        """Return whether something was refused when it was last tried."""
        return bool(self._until)
