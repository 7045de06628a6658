"""A client none of whose calls outlasts its cluster's silence, whatever the libraries wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from core.cluster.client import ClusterClient


class Watched(Protocol):
    """What tells when it was answered last, and finds out why it is answered no more."""

    @property
    def heard_at(self) -> float: ...

    def explain(self, detail: str) -> Exception: ...


def with_deadline(client: ClusterClient, watched: Watched, seconds: float) -> ClusterClient:
    """Return `client` whose calls raise UnreachableError after so long without any answer.

    As long as answers come, a call may last. One that is given up goes on in a thread that ends
    nothing and holds up nothing.
    """
    return cast("ClusterClient", _Deadlined(client, watched, seconds))


class _Deadlined:
    def __init__(self, client: ClusterClient, watched: Watched, seconds: float) -> None:
        self._client, self._watched, self._seconds = client, watched, seconds

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            return self._within(lambda: method(*args, **options))

        return call

    def _within(self, call: Callable[[], Any]) -> Any:
        began = time.monotonic()
        ended = threading.Event()
        answer: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                answer.append(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
                errors.append(error)
            ended.set()

        threading.Thread(target=run, name="kafka-call", daemon=True).start()
        while not ended.wait(max(0.0, self._left(began))):
            if self._left(began) <= 0:
                raise self._watched.explain(f"no answer has come for {self._seconds:g} s")
        if errors:
            try:
                raise errors.pop()
            finally:
                del errors  # else the error holds this frame, and this frame the error
        return answer.pop()

    def _left(self, began: float) -> float:
        return max(began, self._watched.heard_at) + self._seconds - time.monotonic()
