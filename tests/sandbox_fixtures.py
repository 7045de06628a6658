"""The real brokers that all tests of one session share; tests/conftest.py loads it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from core import files, paths
from core.cluster.sandbox import sandbox as brokers
from core.cluster.sandbox.sandbox import Sandbox

UP_SECONDS = 300.0
"""How long brokers may take to come up where everything else is tested beside them."""


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brokers, "_UP_SECONDS", UP_SECONDS)
        yield


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """Four brokers, 1 to 4, in racks a, b, a, b. Leave it as you found it: whole and quiet.

    Its name is always the same, so that what a killed session left is cleaned by the next one;
    a second session at the same time waits for its turn. Each of several workers has its own.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    name = f"tests-{worker}" if worker else "tests"
    folder = paths.sandbox_dir(name)
    with files.locked(folder.with_name(f".{name}.session")):
        sandbox = Sandbox.up(name, (1, 2, 3, 4), 2, replace=True)
        yield sandbox
        sandbox.down()
