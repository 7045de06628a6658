"""The Spark session: one machine, no network but loopback, quiet, and started as fast as it goes.

A class-data archive (AppCDS) in the cache halves the start; the first session to end makes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import paths
from core.errors import TrimtabError
from core.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "Spark is missing: the pipeline is an extra of trimtab."
REMEDY = "Run: pip install 'trimtab[pipeline]'"
ARCHIVE_SECONDS = 60.0
HEAP = "1g"

_LOGGING = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def spark_version() -> str:
    """Return pyspark's version; raises TrimtabError, naming the extra, when it is missing."""
    try:
        import pyspark
    except ImportError as error:
        raise TrimtabError(MISSING, next=REMEDY) from error
    return str(pyspark.__version__)


class Session:
    """A running Spark and how to end it; the first one leaves the class-data archive behind."""

    def __init__(self, spark: SparkSession, archive: Path | None, aside: Path | None) -> None:
        self.spark = spark
        self._archive = archive
        self._aside = aside

    def stop(self) -> None:
        """Stop Spark and its JVM; returns when the JVM is gone."""
        gateway = self.spark.sparkContext._gateway
        process: Any = getattr(gateway, "proc", None)
        self.spark.stop()
        if gateway is not None:
            gateway.shutdown()
        _forget_gateway()
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(ARCHIVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            # Cut off: Java would not use it, and it would never be made again.
            if self._aside is not None:
                self._aside.unlink(missing_ok=True)
        if self._archive is not None and self._aside is not None and self._aside.exists():
            self._aside.replace(self._archive)


def _forget_gateway() -> None:
    """Let a later session in this process start a JVM of its own."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None


def open_session(*, cores: int = 2, quick: bool = False) -> Session:
    """Start Spark on this machine.

    `quick` compiles less: half the work for a job of seconds or a cluster of thousands of
    partitions, slower for larger ones. Raises TrimtabError without pyspark, or without a Java that
    it runs on.
    """
    version = spark_version()
    java = find_java()
    from pyspark.sql import SparkSession

    # pyspark's launcher takes the Java of JAVA_HOME and binds what SPARK_LOCAL_IP says.
    os.environ["JAVA_HOME"] = str(java.path.resolve().parent.parent)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.pop("SPARK_HOME", None)
    folder = paths.cache_dir() / "spark"
    paths.make_folder(folder)
    logging = folder / "log4j2.properties"
    if not logging.exists() or logging.read_text(encoding="utf-8") != _LOGGING:
        logging.write_text(_LOGGING, encoding="utf-8")
    archive = folder / f"spark-{version}-java-{java.version}.jsa"
    aside = None if archive.exists() else folder / f".{os.getpid()}-{archive.name}"
    builder = SparkSession.builder.master(f"local[{cores}]").appName("trimtab")
    for name, value in _settings(folder, cores).items():
        builder = builder.config(name, value)
    builder = builder.config(
        "spark.driver.extraJavaOptions", _java_options(java, logging, archive, aside, quick)
    )
    log = paths.log_dir() / "spark.log"
    try:
        with _stderr_to(log):
            spark = builder.getOrCreate()
    except Exception as error:
        words = str(error).splitlines() or [type(error).__name__]
        raise TrimtabError(
            f"Spark does not start: {words[0]}",
            next=f"Its own words are in {log}; `trimtab doctor` checks Java.",
        ) from error
    return Session(spark, archive, aside)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Give the JVM that starts meanwhile a log file for its stderr: it has much to say."""
    paths.make_folder(log.parent)
    sys.stderr.flush()
    ours = os.dup(2)
    theirs = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(theirs, 2)
    os.close(theirs)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _settings(folder: Path, cores: int) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": HEAP,
        # Nothing that grows with partitions may come here: what does fails.
        "spark.driver.maxResultSize": "8m",
        # Small tables are broadcast where it is said; a large one would come to the driver.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # It plans each stage anew: more than that takes.
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(1, 2 * cores if cores > 1 else 1)),
        "spark.sql.files.maxPartitionBytes": "512m",
        # A segment swept into quarantine between listing and reading must not stop the rest.
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.metricsEnabled": "false",
        # A job may be a day old: what its checkpoint keeps of batches done is kept short.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "60s",
        "spark.sql.debug.maxToStringFields": "200",
        # A day has 288 window files: listing them as a job takes longer than they do.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        # pyspark would note each expression's line: a third of what a small batch takes.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.cleaner.referenceTracking.cleanCheckpoints": "false",
    }


def _java_options(java: Java, logging: Path, archive: Path, aside: Path | None, quick: bool) -> str:
    options = [f'-Dlog4j2.configurationFile="file:{logging}"', "-Xlog:disable"]
    if aside is None:
        options.append(f'-XX:SharedArchiveFile="{archive}"')
    else:
        options.append(f'-XX:ArchiveClassesAtExit="{aside}"')
    if quick:
        options.append("-XX:TieredStopAtLevel=1")
    if java.major < 21:
        options.append("-XX:+UseParallelGC")
    return " ".join(options)
