"""The real brokers that all tests of one session share; tests/conftest.py loads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import files, paths
from core.cluster.sandbox.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """Four brokers, 1 to 4, in racks a, b, a, b. Leave it as you found it: whole and quiet.

    Its name is always the same, so that what a killed session left is cleaned by the next one;
    a second session at the same time waits for its turn.
    """
    folder = paths.sandbox_dir("tests")
    with files.locked(folder.with_name(".tests.session")):
        sandbox = Sandbox.up("tests", (1, 2, 3, 4), 2, replace=True)
        yield sandbox
        sandbox.down()
