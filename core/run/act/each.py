"""A client whose denials are answers: where one resource may not be touched, the others go on.

A real cluster's client raises when all that one call asks for is denied, be it a single topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.faults import AllDeniedError, Fault

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def each_told(client: ClusterClient) -> ClusterClient:
    """Return `client` whose calls for configs give a fault for each resource that is denied."""
    return cast(ClusterClient, _EachTold(client))


class _EachTold:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        return _told(lambda: self._client.configs(resources, names), resources)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        touched = [change.resource for change in changes]
        return _told(lambda: self._client.alter_configs(changes), touched)

    def list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        return _told(lambda: self._client.list_entries(lists), lists)


def _told(
    call: Callable[[], dict[Asked, Answer | Fault]], asked: Collection[Asked]
) -> dict[Asked, Answer | Fault]:
    try:
        return call()
    except AllDeniedError as error:
        return dict.fromkeys(asked, error.fault)
