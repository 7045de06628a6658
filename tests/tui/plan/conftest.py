"""Fixtures for the tests of the Plan screen and its dialogs."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record what would be started instead of starting it."""
    calls: list[tuple[Any, ...]] = []

    def start(*arguments: Any) -> str:
        calls.append(arguments)
        return "0101-021101"

    monkeypatch.setattr("core.run.launch.start_run", start)
    return calls
