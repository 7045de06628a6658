"""A flag for threads that follow something until it is set; it is a script of what happens."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Flag
from typing import Any


class Script(Flag):
    """A flag that does one thing each time it is waited for, and is set after the last."""

    def __init__(self, *actions: Callable[[], Any]) -> None:
        super().__init__()
        self.actions = list(actions)

    def wait(self, timeout: float | None = None) -> bool:
        if self.actions:
            self.actions.pop(0)()
        else:
            self.set()
        return True
