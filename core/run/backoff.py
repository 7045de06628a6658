"""Refused changes: a denial is an answer of its own, and waits a while before it is retried.

A real cluster's client raises when all that one call asks for is denied, be it a single topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.kafka_errors import AllDeniedError, Fault

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


def with_denials_as_faults(client: ClusterClient) -> ClusterClient:
    """Return `client` whose calls for configs give a fault for each resource that is denied."""
    return cast(ClusterClient, _DenialsAsFaults(client))


class _DenialsAsFaults:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        return _fault_for_each(lambda: self._client.describe_configs(resources, names), resources)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        touched = [change.resource for change in changes]
        return _fault_for_each(lambda: self._client.alter_configs(changes), touched)

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        return _fault_for_each(lambda: self._client.fetch_list_entries(lists), lists)


def _fault_for_each(
    call: Callable[[], dict[Subject, Answer | Fault]], subjects: Collection[Subject]
) -> dict[Subject, Answer | Fault]:
    try:
        return call()
    except AllDeniedError as error:
        return dict.fromkeys(subjects, error.fault)


RETRY_SECONDS = 5.0
"""How long what was refused is left alone, unless another time is said."""
What = TypeVar("What", bound=Hashable)


class _Rest(NamedTuple):
    why: str
    until: float
    seconds: float


class Backoff(Generic[What]):
    """Resources or partitions that are left alone, each with why, without its full stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests: dict[What, _Rest] = {}

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
        self._rests[what] = _Rest(why, self._clock.monotonic() + seconds, seconds)

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
