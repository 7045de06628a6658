"""Brokers without a cluster: each request is answered as a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from core.cluster.metadata import TopicPartition


class FakeWire:
    """Brokers that answer ListGroups as a test says: a list of groups, or why they do not.

    Other requests are answered by `answers`, each a function of the broker (None for any of them)
    and the request, by the name of the request; what it returns may be an exception.
    """

    def __init__(
        self, *brokers: Any, operations: Any = None, **answers: Callable[[int | None, Any], Any]
    ) -> None:
        self._lists = dict(enumerate(brokers, 1))
        self._operations = operations
        self._answers = answers
        self.requests: list[tuple[int | None, Any]] = []
        self.leaders: dict[TopicPartition, int] = {}
        self.metadata_timeout = None

    def manager(self) -> Any:
        version = SimpleNamespace(api_version=lambda _: 8)
        return SimpleNamespace(broker_version_data=version)

    def send_to_any(self, request: Any, patience: object = None) -> Any:
        return self._answer(None, request)

    send_for_configs = send_to_any

    def ask_each(self, requests: Mapping[int, Any], seconds: float = 0) -> dict[int, Any]:
        return {broker: self._answer(broker, request) for broker, request in requests.items()}

    def raise_if_all_failed(self, answers: object, operation: str) -> None:
        """Of single answers it is known here what became of them."""

    def explain(self, error: Exception, detail: str) -> Exception:
        from core.errors import UnreachableError

        return UnreachableError(detail)

    def _answer(self, broker: int | None, request: Any) -> Any:
        self.requests.append((broker, request))
        name = type(request).__name__.removesuffix("Request")
        if name in self._answers:
            return self._answers[name](broker, request)
        if name == "DescribeCluster":
            ids = [SimpleNamespace(broker_id=id) for id in self._lists]
            return SimpleNamespace(authorized_operations=self._operations, brokers=ids)
        assert broker is not None
        assert name == "ListGroups"
        listed = self._lists[broker]
        if isinstance(listed, Exception):
            return listed
        if isinstance(listed, int):
            return SimpleNamespace(error_code=listed)
        return SimpleNamespace(error_code=0, groups=listed)


def listed(id: str, protocol_type: str, type: str | None, state: str = "Stable") -> Any:
    """Return a group as a broker lists it."""
    return SimpleNamespace(
        group_id=id, protocol_type=protocol_type, group_type=type, group_state=state
    )
