"""One Spark session for all tests here, and samples to feed it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feeding import for_few_rows

from core.pipeline.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
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
