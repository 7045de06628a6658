"""Records of a topic of samples, read by Spark's own Avro reader: what is in them, what is bad."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import pytest
from sample_rows import arrays_of, sample_row

from core import ivy
from core.cluster.client import NewRecord
from core.errors import TrimtabError
from core.load.samples import COLUMNS
from core.load.samples_topic import SCHEMA, TOPIC, encode_poll, headers_of
from core.pipeline import topic
from core.pipeline.source import SCHEMA as ROWS
from core.pipeline.topic import SamplesTopic, Span, bad_records, lost_records, rows, spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
RECORDS = (
    "key binary, value binary, headers array<struct<key string, value binary>>, "
    "topic string, partition int, offset bigint"
)


class Record(NamedTuple):
    """A record as Spark's Kafka connector gives it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None
    topic: str
    partition: int
    offset: int


def received(record: NewRecord, offset: int = 0) -> Record:
    return Record(record.key, record.value, [*record.headers.items()], TOPIC, 3, offset)


def poll(*partitions: int, cluster: str = "c-1") -> Record:
    """Return a poll of these partitions' leaders, as one record."""
    samples = [sample_row(partition, cluster=cluster) for partition in partitions]
    (record,) = encode_poll(cluster, "host-1-1", arrays_of(samples), AT)
    return received(record)


def batch(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    return spark.createDataFrame([tuple(record) for record in records], RECORDS)


def with_header(record: Record, name: str, value: bytes | None) -> Record:
    headers = [header for header in record.headers or () if header[0] != name]
    return record._replace(headers=headers if value is None else [*headers, (name, value)])


def with_value(record: Record, value: bytes) -> Record:
    """Return a record whose writer meant this value."""
    return record._replace(value=value, headers=[*headers_of(value).items()])


# -- samples ---------------------------------------------------------------------------------------


def test_a_record_becomes_a_row_for_each_sample(spark: SparkSession) -> None:
    records = [poll(0, 1), poll(2, cluster="c-2")._replace(partition=4, offset=17)]
    frame = rows(batch(spark, records))
    assert frame.columns == ["cluster", "unit", "part", "is_last", *(c.name for c in COLUMNS)]
    assert [field.dataType for field in frame.schema.fields[4:]] == [f.dataType for f in ROWS]
    by_partition = {row.partition: row.asDict() for row in frame.collect()}
    assert by_partition[0].pop("unit") == f"{TOPIC}-3-0"
    assert by_partition[2]["unit"] == f"{TOPIC}-4-17"
    assert by_partition[2]["cluster"] == by_partition[2]["cluster_id"] == "c-2"
    ts = by_partition[0].pop("ts")
    expected = {**sample_row(0), "cluster": "c-1", "part": 0, "is_last": True}
    expected.pop("ts")
    assert by_partition[0] == expected
    # Spark gives times in the zone of this machine.
    assert ts.astimezone(UTC).replace(tzinfo=UTC) == AT


def test_a_poll_without_replicas_has_no_rows_and_is_not_bad(spark: SparkSession) -> None:
    frame = batch(spark, [poll()])
    assert rows(frame).collect() == []
    assert bad_records(frame).collect() == []


def test_a_number_that_is_too_large_for_its_column_is_null(spark: SparkSession) -> None:
    datum = {
        "cluster_id": "c-1",
        "poll": "host-1-1",
        "at": AT,
        "part": 0,
        "is_last": True,
        "samples": [{**sample_row(0), "in_method": 300}],
    }
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(SCHEMA)), datum)
    (row,) = rows(batch(spark, [with_value(poll(), out.getvalue())])).collect()
    assert (row.partition, row.in_method) == (0, None)


@pytest.mark.parametrize("key", [b"\xff\xfe", b"a/b", b"", b"x" * 400, None])
def test_record_whose_key_names_no_cluster_is_bad_and_yields_no_rows(
    spark: SparkSession, key: bytes | None
) -> None:
    frame = batch(spark, [poll(0)._replace(key=key)])
    assert rows(frame).collect() == []
    (bad,) = bad_records(frame).collect()
    assert (bad.cluster, bad.reason) == (None, "cluster")


# -- bad records -----------------------------------------------------------------------------------

GOOD = poll(0)
GOOD_VALUE = GOOD.value or b""


@pytest.mark.parametrize(
    ("reason", "record"),
    [
        ("empty", GOOD._replace(value=None)),
        ("format", GOOD._replace(headers=None)),
        ("format", with_header(GOOD, "format", b"trimtab.window/1")),
        ("format", with_header(GOOD, "format", b"trimtab.sample/0")),
        ("format", with_header(GOOD, "format", b"trimtab.sample/99999999999999")),
        ("format", with_header(GOOD, "format", b"\xff\xfe")),
        ("newer_format", with_header(GOOD, "format", b"trimtab.sample/2")),
        ("schema", with_header(GOOD, "schema", None)),
        ("schema", with_header(GOOD, "schema", b"0123456789abcdef")),
        ("schema", with_value(GOOD, b"")),
        ("schema", with_value(GOOD, b"rubbish")),
        ("schema", with_value(GOOD, GOOD_VALUE[:-20])),
        ("damaged", GOOD._replace(value=b"")),
        ("damaged", GOOD._replace(value=GOOD_VALUE[:-20])),
        ("damaged", with_header(GOOD, "crc32", None)),
        ("cluster", GOOD._replace(key=None)),
        ("cluster", GOOD._replace(key=b"c-2")),
    ],
)
def test_unreadable_record_is_named_with_its_reason_and_stops_no_other_record(
    spark: SparkSession, reason: str, record: Record
) -> None:
    both = batch(spark, [record, poll(7)._replace(offset=1)])
    assert [row.partition for row in rows(both).collect()] == [7]
    (bad,) = bad_records(both).collect()
    assert (bad.reason, bad.unit, bad.offset) == (reason, f"{TOPIC}-3-0", 0)
    assert bad.value == record.value
    assert bad.cluster == (record.key.decode() if record.key else None)


def test_records_with_corrupted_bytes_are_counted_as_damaged_and_yield_no_rows(
    spark: SparkSession,
) -> None:
    # Of some of them it would take all memory: an array of billions, by its first bytes.
    chance = random.Random(5)
    changed = []
    for offset in range(100):
        value = bytearray(GOOD_VALUE)
        at = chance.randrange(len(value))
        value[at] ^= 1 << chance.randrange(8)
        changed.append(GOOD._replace(value=bytes(value), offset=offset))
    frame = batch(spark, changed)
    assert rows(frame).count() == 0
    assert [row.asDict() for row in bad_records(frame).groupBy("reason").count().collect()] == [
        {"reason": "damaged", "count": 100}
    ]


@pytest.mark.parametrize("result", [rows, bad_records])
def test_a_record_is_decoded_once(spark: SparkSession, result: Any) -> None:
    plan = result(batch(spark, [GOOD]))._jdf.queryExecution().executedPlan().toString()
    assert plan.count("from_avro(") == 1


# -- records that are gone -------------------------------------------------------------------------


def test_records_that_were_gone_before_they_were_read_are_counted(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = {3: (5, 6, 9), 4: (0, 1)}
    records = [
        GOOD._replace(partition=partition, offset=offset)
        for partition, all_of_it in offsets.items()
        for offset in all_of_it
    ]
    offset_spans = spans(batch(spark, records))
    assert offset_spans == [Span(TOPIC, 3, 5, 9, 3), Span(TOPIC, 4, 0, 1, 2)]
    expected = {f"{TOPIC}-3": 2}
    assert lost_records(offset_spans, expected) == 3 + 2
    assert expected == {f"{TOPIC}-3": 10, f"{TOPIC}-4": 2}
    (warning,) = caplog.messages
    assert f"{TOPIC}-3: 5 records" in warning


def test_recreated_topic_has_lost_no_records() -> None:
    expected = {f"{TOPIC}-0": 100}
    assert lost_records([Span(TOPIC, 0, 0, 4, 5)], expected) == 0
    assert expected == {f"{TOPIC}-0": 5}


# -- where it is read from -------------------------------------------------------------------------


def test_client_properties_reach_the_connector_except_those_the_connector_sets() -> None:
    samples = SamplesTopic(
        {
            "bootstrap.servers": "b:9092",
            "sasl.jaas.config": "x required username='u' password='p';",
            "group.id": "mine",
            "auto.offset.reset": "latest",
            "value.deserializer": "theirs",
        },
        topic="samples",
        max_records_per_batch=7,
    )
    options = samples.options()
    assert {name: value for name, value in options.items() if name.startswith("kafka.")} == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.sasl.jaas.config": "x required username='u' password='p';",
    }
    assert options["subscribe"] == "samples"
    assert options["startingOffsets"] == "earliest"
    assert options["failOnDataLoss"] == "false"
    assert options["maxOffsetsPerTrigger"] == "7"
    assert "password" not in repr(samples)


def test_stream_has_the_columns_of_kafka_records(spark: SparkSession) -> None:
    stream = SamplesTopic({"bootstrap.servers": "127.0.0.1:1"}).stream(spark)
    assert stream.isStreaming
    assert stream.columns == list(topic.RECORD_COLUMNS)
    assert rows(stream).isStreaming


def test_connector_jars_match_the_version_of_pyspark() -> None:
    import pyspark

    version = pyspark.__version__
    assert topic.coordinates() == (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        f"org.apache.spark:spark-avro_2.13:{version}",
    )
    jars = topic.connector_settings(lambda _: None)["spark.jars"].split(",")
    names = {Path(jar).name for jar in jars}
    assert {f"spark-sql-kafka-0-10_2.13-{version}.jar", f"spark-avro_2.13-{version}.jar"} <= names
    assert not any(name.startswith("hadoop") for name in names)


def test_missing_connector_without_network_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    monkeypatch.setattr(ivy, "_run_ivy", lambda *_: (1, ["Server access error"]))
    with pytest.raises(TrimtabError, match="^Spark's Kafka connector .* could not be") as caught:
        topic.connector_settings(lambda _: None)
    assert "kafka-connector-" in caught.value.next


def test_oauth_token_endpoint_is_an_allowed_url_for_spark_clients(spark: SparkSession) -> None:
    endpoint = "https://sso.example.com/token"
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }
    name = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    settings = topic.connector_settings(lambda _: None, properties)
    assert settings["spark.executor.extraJavaOptions"] == f"-D{name}={endpoint}"
    topic.SamplesTopic(properties).stream(spark)
    assert spark._jvm is not None
    system: Any = spark._jvm.java.lang.System
    assert system.getProperty(name) == endpoint
    system.clearProperty(name)
