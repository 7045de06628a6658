"""Refused changes: a denial is an answer of its own, and waits a while before it is retried.

A real cluster's client raises when all that one call asks for is denied, be it a single topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.kafka_errors import AllDeniedError, Fault

Asked = TypeVar("Asked")
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
        return _told(lambda: self._client.describe_configs(resources, names), resources)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        touched = [change.resource for change in changes]
        return _told(lambda: self._client.alter_configs(changes), touched)

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        return _told(lambda: self._client.fetch_list_entries(lists), lists)


def _told(
    call: Callable[[], dict[Asked, Answer | Fault]], asked: Collection[Asked]
) -> dict[Asked, Answer | Fault]:
    try:
        return call()
    except AllDeniedError as error:
        return dict.fromkeys(asked, error.fault)


RETRY_SECONDS = 5.0
"""How long what was refused is left alone."""
What = TypeVar("What", bound=Hashable)


class Backoff(Generic[What]):
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
        until = self._clock.monotonic() + RETRY_SECONDS
        self._until |= {what: (why, until) for what, why in refused.items()}

    def __contains__(self, what: What) -> bool:
        """Return whether this was refused when it was last tried."""
        return what in self._until

    def __bool__(self) -> bool:
        """Return whether something was refused when it was last tried."""
        return bool(self._until)
