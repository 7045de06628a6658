"""One Spark session for all tests here, and samples to feed it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feeding import for_few_rows

from core import paths
from core.pipeline.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if not list((paths.cache_dir() / "spark").glob("*.jsa")):
        # The first to end leaves the archive that makes this start and those of killed jobs quick.
        open_session(cores=1, quick=True).stop()
    session = open_session(cores=1, quick=True)
    for_few_rows(session.spark)
    yield session.spark
    session.stop()
    gc.collect()


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
