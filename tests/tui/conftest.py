"""Fixtures for the tests of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from own_home import own_home

from core.run.control import SentRequest
from tui.moves import requests as run_requests

__all__ = ["own_home"]


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record what a run would be asked for instead of asking."""
    calls: list[tuple[str, Any]] = []

    def request(cluster_id: str, run: str, kind: str, payload: Mapping[str, Any]) -> SentRequest:
        assert cluster_id == "test-cluster"
        calls.append((kind, dict(payload)))
        return SentRequest(run, len(calls), kind, is_waiting=False)

    monkeypatch.setattr(run_requests, "request", request)
    return calls


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record what would be started instead of starting it, as run 0101-021101."""
    calls: list[tuple[Any, ...]] = []

    def start(*arguments: Any) -> str:
        calls.append(arguments)
        return "0101-021101"

    monkeypatch.setattr("core.run.launch.start_run", start)
    return calls
