"""The Spark session: on this machine, or a driver of the Spark cluster that somebody has.

On this machine it has no network but loopback, and is started as fast as it goes: a class-data
archive (AppCDS) in the cache halves the start; the first session to end makes it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import core
from core import paths
from core.errors import TrimtabError
from core.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "The pipeline is an extra of trimtab, and {} is not installed."
REMEDY = "Install trimtab with its extra `pipeline`, or take the bundle that has Spark."
EXTRA = ("pyspark", "pandas")
"""What that installs."""
ARCHIVE_SECONDS = 60.0
MASTER_SECONDS = 10.0
COMPILED_ROWS = 10_000
"""A batch's that are worth that code is compiled for them."""
PARALLEL_ROWS = 30_000
"""Those that are worth more than one task: a poll of 10,000 partitions with three replicas."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Is in the environment of what `spark-submit` runs."""
NEEDED = {
    # Nothing that grows with partitions may come here: what does fails.
    "spark.driver.maxResultSize": "8m",
    # Small tables are broadcast where it is said; a large one would come to the driver.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    # A segment swept into quarantine between listing and reading must not stop the rest.
    "spark.sql.files.ignoreMissingFiles": "true",
    # pyspark would note each expression's line: a third of what a small batch takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings on any Spark, where its administrator has not said otherwise."""
CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".FileSystemBasedCheckpointFileManager"
}
"""Writes checkpoints without a process for each file, which asks whether it is a link.

Only Spark 4.0 has the class there: later ones write theirs as they do by themselves.
"""
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
    """Return pyspark's version; raises TrimtabError, naming the extra, where a part is missing."""
    if missing := missing_part():
        raise TrimtabError(MISSING.format(missing), next=REMEDY)
    import pyspark

    return str(pyspark.__version__)


def missing_part() -> str | None:
    """Return the package of the extra that is not installed, if any; imports none of them."""
    return next((name for name in EXTRA if importlib.util.find_spec(name) is None), None)


class Session:
    """A running Spark and how to end it; the first one leaves the class-data archive behind."""

    def __init__(
        self,
        spark: SparkSession,
        archive: Path | None,
        aside: Path | None,
        code: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.spark = spark
        self._code = code
        self._archive = archive
        self._aside = aside

    def stop(self) -> None:
        """Stop Spark and its JVM; returns when the JVM is gone."""
        gateway = self.spark.sparkContext._gateway
        process: Any = getattr(gateway, "proc", None)
        self.spark.stop()
        if self._code is not None:
            self._code.cleanup()
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


def open_session(
    *,
    master: str | None = None,
    cores: int = 2,
    quick: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """Start Spark on this machine, or a driver of the cluster that `master` is the address of.

    `quick` compiles less: half the work for a job of seconds or a cluster of thousands of
    partitions, slower for larger ones; `settings` are added to Spark's. What `spark-submit` has
    started, with the master that it was given, is used as it is. Raises TrimtabError without
    pyspark, without a Java that it runs on, or where Spark does not start.
    """
    version = spark_version()
    if master is not None or SUBMITTED in os.environ:
        return _start_cluster_session(master, settings or {})
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
    checkpoints = CHECKPOINTS if version.startswith("4.0.") else {}
    for name, value in {**NEEDED, **_settings(folder), **checkpoints, **(settings or {})}.items():
        builder = builder.config(name, value)
    builder = builder.config(
        "spark.driver.extraJavaOptions", _java_options(java, logging, archive, aside, quick)
    )
    with _started():
        return Session(builder.getOrCreate(), archive, aside)


def _start_cluster_session(master: str | None, settings: Mapping[str, str]) -> Session:
    """Start a driver of a Spark cluster; its administrator's settings stay as they are."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if SUBMITTED not in os.environ:
        _check_master(str(master))
        os.environ.setdefault("JAVA_HOME", str(find_java().path.resolve().parent.parent))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        jars = settings.get("spark.jars")
        words = ["--master", str(master), *(["--jars", jars] if jars else []), "pyspark-shell"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(words)
    with _started():
        conf = SparkConf()
        for name, value in {"spark.app.name": "trimtab", **NEEDED, **settings}.items():
            conf.setIfMissing(name, value)
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    return Session(spark, None, None, _ship_code(spark))


def _check_master(master: str) -> None:
    """Raise TrimtabError where nobody answers at a standalone master's address.

    Spark itself asks for a minute.
    """
    match = re.fullmatch(r"spark://([^:/,]+):(\d+)", master)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), MASTER_SECONDS).close()
    except OSError as error:
        raise TrimtabError(
            f"Spark's master {master} cannot be reached: {error.strerror or error}.",
            next="Check the address, and that the master runs.",
        ) from error


def _ship_code(spark: SparkSession) -> tempfile.TemporaryDirectory[str] | None:
    """Send this version of trimtab to the workers, unless it came to them with the job.

    They fetch it from the folder that is returned, whenever one begins.
    """
    from pyspark import SparkContext

    package = Path(core.__file__).parent
    source = package.parent
    if source.suffix in SparkContext.PACKAGE_EXTENSIONS:
        return None
    folder = tempfile.TemporaryDirectory(prefix="trimtab-")
    archive = Path(folder.name) / "trimtab.zip"
    if source.is_file():  # a wheel, from --py-files: workers get it, and do not look into it
        shutil.copyfile(source, archive)
    else:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(package.rglob("*.py")):
                file.write(path, path.relative_to(source))
    spark.sparkContext.addPyFile(str(archive))
    return folder


def suit(spark: SparkSession, rows: int) -> None:
    """Let a Spark of this machine work as suits a batch of so many rows.

    Few are done before the code for them is compiled, and in one task; an administrator's Spark
    stays as it is.
    """
    if not spark.sparkContext.master.startswith("local"):
        return
    compiled = rows >= COMPILED_ROWS
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")
    cores = spark.sparkContext.defaultParallelism
    parallel = rows >= PARALLEL_ROWS and cores > 1
    spark.conf.set("spark.sql.shuffle.partitions", 2 * cores if parallel else 1)


def check_shared(spark: SparkSession, root: Path) -> None:
    """Raise TrimtabError where Spark's workers do not see the load root that the driver sees."""
    if spark.sparkContext.master.startswith("local"):
        return
    paths.make_folder(root)
    marker = root / f".shared-{os.getpid()}"
    marker.touch()
    place = str(marker)
    try:
        tasks = spark.sparkContext.parallelize(range(2 * spark.sparkContext.defaultParallelism))
        answers = tasks.map(lambda _: Path(place).exists()).collect()
    finally:
        marker.unlink()
    if not all(answers):
        raise TrimtabError(
            f"Spark's workers do not see {root}.",
            next="Give a --root on storage that the driver and all workers have mounted.",
        )


@contextmanager
def _started() -> Iterator[None]:
    """Say what keeps Spark from starting in one sentence."""
    log = paths.log_dir() / "spark.log"
    try:
        with _redirect_stderr(log):
            yield
    except Exception as error:
        words = str(error).splitlines() or [type(error).__name__]
        raise TrimtabError(
            f"Spark does not start: {words[0]}",
            next=f"Its own words are in {log}; `trimtab doctor` checks Java.",
        ) from error


@contextmanager
def _redirect_stderr(log: Path) -> Iterator[None]:
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


def _settings(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": HEAP,
        # It plans each stage anew: more than that takes.
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.files.maxPartitionBytes": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.metricsEnabled": "false",
        # Of 16 MB as Spark would take them, few rows keep 75 MB.
        "spark.buffer.pageSize": "1m",
        # A job may be a day old: what its checkpoint keeps of batches done is kept short.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "60s",
        "spark.sql.debug.maxToStringFields": "200",
        # A day has 288 window files: listing them as a job takes longer than they do.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        "spark.cleaner.referenceTracking.cleanCheckpoints": "false",
    }


def _java_options(java: Java, logging: Path, archive: Path, aside: Path | None, quick: bool) -> str:
    options = [f'-Dlog4j2.configurationFile="file:{logging}"', "-Xlog:disable"]
    if aside is None:
        options.append(f'-XX:SharedArchiveFile="{archive}"')
    else:
        options.append(f'-XX:ArchiveClassesAtExit="{aside}"')
    if quick:  # others work on the machine, too: what the heap grows by it gives back
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms160m", "-Xmn48m"]
        options += ["-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30"]
    elif java.major < 21:
        options.append("-XX:+UseParallelGC")
    return " ".join(options)
