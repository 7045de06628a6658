"""Samples that lie in a Kafka topic: the stream of its records, the samples in them, bad records.

Everything is done by Spark's own Kafka connector and Avro reader, in the JVM; no record passes
through Python. Both come from Maven Central, in the version of the pyspark that is installed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from core import ivy, paths
from core.ivy import Artifact, Jars
from core.java import find_java
from core.load.samples import FORMAT
from core.load.samples_topic import (
    CHECKSUM_HEADER,
    FORMAT_HEADER,
    SCHEMA_HEADER,
    SCHEMA_JSON,
    TOPIC,
    schema_id,
)
from core.pipeline.session import spark_version
from core.pipeline.source import SCHEMA, Arrived

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAX_RECORDS_PER_BATCH = 5_000
"""Of some 4,000 samples each, where clusters are large."""
CLUSTER_ID = r"^[A-Za-z0-9._-]{1,100}$"
"""What a record's key may be: it names folders."""
RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset")

_REFUSED = frozenset(
    (
        *("auto.offset.reset", "enable.auto.commit", "group.id", "interceptor.classes"),
        *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
    )
)
"""Client properties that Spark's connector sets itself, and refuses from others."""
_OF_PYSPARK = tuple(map(Artifact, ("org.apache.hadoop", "org.scala-lang", "org.slf4j")))
"""What the connector needs and pyspark has: Hadoop's client alone is over 100 MB."""

_OF_A_PART = ("part", "is_last", "samples")

log = logging.getLogger(__name__)


# -- the connector ---------------------------------------------------------------------------------


def coordinates() -> tuple[str, str]:
    """Return the connector and the Avro reader as `spark-submit --packages` takes them."""
    kafka, avro = _artifacts()
    return _coordinate(kafka), _coordinate(avro)


_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_ALLOWED_ENDPOINTS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A system property without which Kafka's clients from 3.9.1 on ask no endpoint for a token."""


def connector_settings(
    say: Callable[[str], None], properties: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the session's settings with which it reads topics; the jars are brought once.

    `properties` are a Java client's: executors may ask the endpoint that they name for a token.
    Raises TrimtabError when they are not in the cache and cannot be brought, or without Java.
    """
    version = spark_version()
    folder = paths.cache_dir() / "spark" / f"kafka-connector-{version}"
    if not folder.is_dir():
        say(f"Bringing Spark's Kafka connector {version} (about 15 MB, once)…")
        jars = Jars(f"Spark's Kafka connector {version}", _artifacts(), _OF_PYSPARK)
        ivy.fetch(jars, folder, find_java(), say)
    endpoint = (properties or {}).get(_TOKEN_ENDPOINT)
    allowed = {} if endpoint is None else {_EXECUTOR_OPTIONS: f"-D{_ALLOWED_ENDPOINTS}={endpoint}"}
    return {
        **allowed,
        "spark.jars": ",".join(str(jar) for jar in sorted(folder.glob("*.jar"))),
        # The source's options hold passwords, and Spark prints options with its plans.
        "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|keystore[.]key",
    }


def _artifacts() -> tuple[Artifact, Artifact]:
    version = spark_version()
    return (
        Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        Artifact("org.apache.spark", "spark-avro_2.13", version),
    )


def _coordinate(artifact: Artifact) -> str:
    return f"{artifact.group}:{artifact.name}:{artifact.version}"


# -- the stream ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplesTopic:
    """A topic of samples of any clusters, on brokers that `properties` reach as a Java client's."""

    properties: Mapping[str, str] = field(repr=False)
    """With `bootstrap.servers`."""
    topic: str = TOPIC
    max_records_per_batch: int = MAX_RECORDS_PER_BATCH

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topic's records from its beginning, as RECORD_COLUMNS.

        Records that are gone before they were read do not end the stream: `lost_records` finds
        them.
        """
        endpoint = self.properties.get(_TOKEN_ENDPOINT)
        if endpoint is not None:  # of the driver, which on this machine is the executor, too
            spark._jvm.java.lang.System.setProperty(_ALLOWED_ENDPOINTS, endpoint)
        return (
            spark.readStream.format("kafka")
            .options(**self.options())
            .load()
            .select(*RECORD_COLUMNS)
        )

    def options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source."""
        client = {
            f"kafka.{name}": value
            for name, value in self.properties.items()
            if name not in _REFUSED
        }
        return {
            **client,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "maxOffsetsPerTrigger": str(self.max_records_per_batch),
            "includeHeaders": "true",
        }

    def arrived(
        self, spark: SparkSession, batch: DataFrame, offsets: Mapping[str, int]
    ) -> Arrived | None:
        """Return the samples in a batch of records, and the records that cannot be read."""
        batch.persist()
        batch_spans = spans(batch)
        if not batch_spans:
            batch.unpersist()
            return None
        following = dict(offsets)
        lost_records(batch_spans, following)
        return Arrived(
            rows(batch), offsets=following, bad=bad_records(batch), release=batch.unpersist
        )

    def settle(self, units: Iterable[str]) -> None:
        """Do nothing: brokers delete records by the topic's retention."""

    def sweep(self) -> int:
        """Return 0: records that cannot be read do not stop a batch."""
        return 0


# -- a batch ---------------------------------------------------------------------------------------


def rows(batch: DataFrame) -> DataFrame:
    """Return the samples in a batch of records, with the columns that `Arrived` names.

    `cluster` is the record's key, `unit` names the record. Those of `bad_records` have no rows.
    """

    def part_of(record: Column) -> Column:
        fits = record["cluster_id"].eqNullSafe(F.col("cluster"))
        return F.array(F.when(fits, F.struct(*(record[name] for name in _OF_A_PART))))

    parts = _with_reason(batch).select(
        "cluster", "unit", F.explode_outer(_read_record(part_of)).alias("record")
    )
    samples = parts.select(
        "cluster",
        "unit",
        *(F.col(f"record.{name}").alias(name) for name in ("part", "is_last")),
        F.explode("record.samples").alias("sample"),
    )
    return samples.select(
        *("cluster", "unit", "part", "is_last"),
        # A number that is none of the column's type is null, and no end of the batch.
        *(F.col("sample")[c.name].try_cast(c.dataType).alias(c.name) for c in SCHEMA),
    )


def bad_records(batch: DataFrame) -> DataFrame:
    """Return what of a batch cannot be read: `cluster`, `unit`, `reason`, and RECORD_COLUMNS.

    | reason | the record |
    |---|---|
    | `empty` | has no value |
    | `format` | is not said to be of samples |
    | `newer_format` | is of a newer trimtab |
    | `schema` | was written with a schema that is not known here, or with another than it says |
    | `damaged` | ends too soon, or has other bytes than were written |
    | `cluster` | is of another cluster than its key says |
    """

    def reason_of(record: Column) -> Column:
        reason = _first(
            # What cannot be read is a record of nulls.
            ("schema", record["samples"].isNull()),
            ("cluster", ~record["cluster_id"].eqNullSafe(F.col("cluster"))),
        )
        return F.array(F.coalesce(F.col("reason"), reason))

    reasons = _with_reason(batch).select(
        "cluster", "unit", F.explode_outer(_read_record(reason_of)).alias("reason"), *RECORD_COLUMNS
    )
    return reasons.where(F.col("reason").isNotNull())


def _with_reason(batch: DataFrame) -> DataFrame:
    """Add `cluster`, `unit`, and `reason`: why a record cannot be read, as far as headers tell."""
    name, _, newest = FORMAT.rpartition("/")
    written = _header(FORMAT_HEADER)
    major = F.regexp_extract(written, rf"^{name}/(\d{{1,9}})$", 1).try_cast("int")
    reason = _first(
        ("empty", F.col("value").isNull()),
        ("format", written.isNull() | major.isNull() | (major < int(newest))),
        ("newer_format", major > int(newest)),
        ("schema", ~_header(SCHEMA_HEADER).eqNullSafe(F.lit(schema_id()))),
        ("damaged", ~_header(CHECKSUM_HEADER).eqNullSafe(F.crc32("value").cast("string"))),
    )
    return batch.select(
        *RECORD_COLUMNS,
        F.when(F.col("key").cast("string").rlike(CLUSTER_ID), F.col("key").cast("string")).alias(
            "cluster"
        ),
        F.concat_ws("-", "topic", "partition", "offset").alias("unit"),
        reason.alias("reason"),
    )


def _read_record(result: Callable[[Column], Column]) -> Column:
    """Return what is made of a record, all nulls where it cannot be read.

    A lambda's argument is evaluated once. A column that is used twice would be decoded twice, and
    so would one that a filter is on, but for what `explode_outer` has made of it.
    """
    value = F.when(F.col("reason").isNull(), F.col("value"))
    record = from_avro(value, SCHEMA_JSON, {"mode": "PERMISSIVE"})
    return F.get(F.transform(F.array(record), result), F.lit(0))


def _header(name: str) -> Column:
    """Return the first header of this name as a string; null where there is none."""
    headers = F.filter("headers", lambda header: header["key"] == name)
    return F.get(headers, F.lit(0))["value"].cast("string")


def _first(*rules: tuple[str, Column]) -> Column:
    """Return the first reason that holds, or null."""
    reason = F.lit(None).cast("string")
    for name, wrong in reversed(rules):
        reason = F.when(wrong, F.lit(name)).otherwise(reason)
    return reason


# -- records that are gone -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """The records of a batch from one partition: offset of the first and last, and how many."""

    topic: str
    partition: int
    first: int
    last: int
    records: int


def spans(batch: DataFrame) -> list[Span]:
    """Return which records a batch has, by partition; reads the batch."""
    ranges = batch.groupBy("topic", "partition").agg(
        F.min("offset"), F.max("offset"), F.count(F.lit(1))
    )
    return sorted((Span(*row) for row in ranges.collect()), key=lambda s: (s.topic, s.partition))


def lost_records(batch_spans: Iterable[Span], expected: dict[str, int]) -> int:
    """Return how many records were gone before this batch read them, and say so in the log.

    `expected` are the offsets that come next by topic and partition (`topic-0`), as far as they are
    known; it is brought up to date. Offsets that began anew, as in a topic that was created again,
    count as none lost.
    """
    lost = 0
    for span in batch_spans:
        key = f"{span.topic}-{span.partition}"
        gap = max(0, span.first - expected.get(key, span.first))
        gap += span.last - span.first + 1 - span.records
        if gap:
            log.warning(
                "%s: %s records before offset %s were gone before they were read",
                *(key, gap, span.last + 1),
            )
        expected[key] = span.last + 1
        lost += gap
    return lost
