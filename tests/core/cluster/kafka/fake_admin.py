"""confluent-kafka's admin client without a cluster: each call is answered as a test says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException


class FakeAdminClient:
    """What a test answers each call with, by its name: a function that returns or raises.

    A call for several things (groups, partitions, resources) is answered for each of them.
    """

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self._answers = answers
        self.is_destroyed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._answers:
            raise AttributeError(name)
        answer = self._answers[name]

        def call(asked: Any = None, **_: object) -> Any:
            if asked is None:
                return SimpleNamespace(result=answer)
            return {one: SimpleNamespace(result=partial(answer, one)) for one in asked}

        return call

    def close(self) -> None:
        """Nothing is left of it."""

    def __exit__(self, *_: object) -> None:
        self.is_destroyed = True


def raises(code: int, why: str = "why") -> Callable[..., NoReturn]:
    """Return an answer that is this error."""

    def answer(*_: object) -> NoReturn:
        raise KafkaException(KafkaError(code, why))

    return answer


def group_description(coordinator: int, state: str = "STABLE") -> Any:
    """Return what a coordinator tells of a consumer group without members."""
    return SimpleNamespace(
        state=SimpleNamespace(name=state),
        type=SimpleNamespace(name="CLASSIC"),
        coordinator=SimpleNamespace(id=coordinator),
        partition_assignor="range",
        members=[],
    )


class FakeWire:
    """Brokers that answer ListGroups as a test says: a list of groups, or why they do not."""

    def __init__(self, *brokers: Any, operations: Any = None) -> None:
        self._answers = dict(enumerate(brokers, 1))
        self._operations = operations

    def send_to_any(self, request: Any) -> Any:
        return SimpleNamespace(
            authorized_operations=self._operations,
            brokers=[SimpleNamespace(broker_id=id) for id in self._answers],
        )

    def ask_each(self, requests: Any, seconds: float) -> dict[int, Any]:
        def answer(told: Any) -> Any:
            if isinstance(told, Exception):
                return told
            if isinstance(told, int):
                return SimpleNamespace(error_code=told)
            return SimpleNamespace(error_code=0, groups=told)

        return {id: answer(self._answers[id]) for id in requests}

    def explain(self, error: Exception, detail: str) -> Exception:
        from core.errors import UnreachableError

        return UnreachableError(detail)


def listed(id: str, protocol_type: str, type: str | None, state: str = "Stable") -> Any:
    """Return a group as a broker lists it."""
    return SimpleNamespace(
        group_id=id, protocol_type=protocol_type, group_type=type, group_state=state
    )
