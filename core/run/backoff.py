"""Refused changes: a denial is an answer of its own, and waits a while before it is retried.

A real cluster's client raises when all that one call asks for is denied, be it a single topic.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange
from core.cluster.kafka_errors import AllDeniedError


def with_denials_as_faults(client: ClusterClient) -> ClusterClient:
    """Return `client` whose calls for configs give a fault for each resource that is denied."""
    return cast(ClusterClient, _DenialsAsFaults(client))


class _DenialsAsFaults:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in ("describe_configs", "alter_configs", "fetch_list_entries"):
            return call

        def call_or_fault(subjects: Collection[Any], *more: Any, **options: Any) -> dict[Any, Any]:
            try:
                return cast(dict[Any, Any], call(subjects, *more, **options))
            except AllDeniedError as error:
                return dict.fromkeys(
                    (s.resource if isinstance(s, ConfigChange) else s for s in subjects),
                    error.fault,
                )

        return call_or_fault


RETRY_SECONDS = 5.0
"""How long what was refused is left alone, unless another time is said."""
What = TypeVar("What", bound=Hashable)


class _Refusal(NamedTuple):
    why: str
    until: float
    seconds: float


class Backoff(Generic[What]):
    """Resources or partitions that are left alone, each with why, without its full stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests: dict[What, _Refusal] = {}

    @property
    def now(self) -> dict[What, str]:
        """Return what is left alone now, and why."""
        now = self._clock.monotonic()
        return {what: rest.why for what, rest in self._rests.items() if now < rest.until}

    def refused(
        self,
        what: What,
        why: str,
        min_seconds: float = RETRY_SECONDS,
        max_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Leave something alone: each time in a row for twice as long, up to a limit."""
        last = self._rests.get(what)
        seconds = min(max_seconds, 2 * last.seconds) if last else min_seconds
        self._rests[what] = _Refusal(why, self._clock.monotonic() + seconds, seconds)

    def taken(self, what: What) -> None:
        self._rests.pop(what, None)

    def tried(self, tried: Collection[What], refused: Mapping[What, str]) -> None:
        """Note what came of a try: what was refused rests, and why; the others do not any more."""
        for what in tried:
            self._rests.pop(what, None)
        for what, why in refused.items():
            self.refused(what, why)

    def __contains__(self, what: What) -> bool:
        """Return whether this was refused when it was last tried."""
        return what in self._rests

    def __bool__(self) -> bool:
        """Return whether something was refused when it was last tried."""
        return bool(self._rests)
