"""What a cluster refused and is left alone for a while, so that all else of a run goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from core.clock import Clock
from core.cluster.client import Resource

AGAIN_SECONDS = 5.0
"""How long what was refused is left alone."""


class Resting:
    """Resources that are left alone, each with why, in a sentence without its full stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[Resource, tuple[str, float]] = {}

    @property
    def now(self) -> dict[Resource, str]:
        """Return what is left alone now, and why."""
        now = self._clock.monotonic()
        return {resource: why for resource, (why, until) in self._until.items() if now < until}

    def tried(self, resources: Collection[Resource], refused: Mapping[Resource, str]) -> None:
        """Note what came of a try: what was refused rests, and why; the others do not any more."""
        for resource in resources:
            self._until.pop(resource, None)
        until = self._clock.monotonic() + AGAIN_SECONDS
        self._until |= {resource: (why, until) for resource, why in refused.items()}

    def __bool__(self) -> bool:
        """Return whether something was refused when it was last tried."""
        return bool(self._until)
