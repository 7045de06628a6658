"""One Spark session for all tests here, and samples to feed it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feeding import feed, row, run
from object_store import KEYS

from core import paths
from core.errors import TrimtabError
from core.pipeline.session import open_session, suit
from core.pipeline.topic import connector_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        # Its workers publish with what the environment had as it started.
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield from _sessions(tmp_path_factory)


def _sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if not list((paths.cache_dir() / "spark").glob("*.jsa")):
        # The first to end leaves the archive, of what a job loads, that makes all starts quick.
        with _session() as first:
            root = tmp_path_factory.mktemp("first")
            feed(root, "a", [row(0), row(1)])
            run(first, root)
    with _session() as session:
        yield session
    gc.collect()


@contextmanager
def _session() -> Iterator[SparkSession]:
    settings: dict[str, str] = {}
    with suppress(TrimtabError):  # what needs no connector is tested without network, too
        settings = connector_settings(lambda _: None)
    session = open_session(cores=1, quick=True, settings=settings)
    try:
        suit(session.spark, 0)
        yield session.spark
    finally:
        session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass what pyspark leaves to the garbage collector: sockets to its own JVM."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
                )
            )
