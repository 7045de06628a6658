"""Reports to a topic of real brokers: what is read of it, and what `collect` makes of that."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from metric_records import PARTITION_SIZE, TOPIC_IN, TOPIC_OUT, cruise_control_record
from on_kafka import client_with, trimtab

from core.cluster.connect import Address, open_topic_reader
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import TrimtabError, UsageError
from core.load.samples import Method
from core.load.sources import cruise_control

TOPIC = cruise_control.TOPICS[0]
BOTH = {TOPIC: [(1,), (2,), (3,)], "metered.orders": [(1, 2), (1, 2), (2, 1)]}


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    with client_with(sandbox, BOTH) as client:
        yield client


class Producer:
    """Writes records with times of their own, as the reporters do."""

    def __init__(self, sandbox: Sandbox, config: Mapping[str, str] | None = None) -> None:
        from confluent_kafka import Producer as TheirProducer

        self._producer = TheirProducer({"bootstrap.servers": sandbox.bootstrap, **(config or {})})

    def write(self, partition: int, at: datetime, *records: bytes) -> None:
        for record in records:
            at_ms = round(at.timestamp() * 1000)
            self._producer.produce(TOPIC, record, partition=partition, timestamp=at_ms)
        assert self._producer.flush(30) == 0


@pytest.mark.usefixtures("library")
def test_reading_starts_at_the_given_time_and_resumes_where_it_ended(
    sandbox: Sandbox, client: KafkaClient
) -> None:
    now = datetime.now(UTC)
    producer = Producer(sandbox)
    producer.write(0, now - timedelta(hours=1), b"old")
    producer.write(0, now, b"a")
    producer.write(1, now, b"b")
    reader = open_topic_reader(Address(sandbox.bootstrap), TOPIC)
    since = now - timedelta(minutes=1)

    def read(partitions: tuple[int, ...], at: datetime) -> list[bytes]:
        return sorted(r.value for records in reader.read(partitions, since, at) for r in records)

    try:
        assert read((0, 1), now) == [b"a", b"b"]
        assert read((0, 1), now) == []
        producer.write(1, now, b"c")
        producer.write(2, now, b"d")
        assert read((0, 1, 2), now) == [b"c", b"d"]
        assert read((0, 1, 2), now) == []
        since = now + timedelta(minutes=5)  # it was away for long: it begins anew
        producer.write(0, now + timedelta(minutes=6), b"e")
        assert read((0,), since) == [b"e"]
    finally:
        reader.close()
    with pytest.raises(TrimtabError):
        list(open_topic_reader(Address(sandbox.bootstrap), "no.such").read((0,), since, now))


def test_codec_unsupported_by_kafka_python_is_reported_with_the_package_to_install(
    sandbox: Sandbox, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    Producer(sandbox, {"compression.type": "zstd"}).write(0, now, b"a" * 1000)
    monkeypatch.setattr(ConnectionSettings, "suits_librdkafka", False)
    monkeypatch.setattr("kafka.codec.zstd", None)
    reader = open_topic_reader(Address(sandbox.bootstrap), TOPIC)
    with closing(reader), pytest.raises(UsageError, match="zstd") as excinfo:
        list(reader.read((0,), now - timedelta(minutes=1), now))
    assert "Install zstandard" in excinfo.value.next


@contextmanager
def orders(sandbox: Sandbox) -> Iterator[None]:
    """Produce ten times as much to partition 0 as to 1 meanwhile, and some to 2."""
    from confluent_kafka import Producer as TheirProducer

    producer, stop = TheirProducer({"bootstrap.servers": sandbox.bootstrap}), threading.Event()

    def produce() -> None:
        while not stop.wait(0.02):
            for partition, count in enumerate((10, 1, 3)):
                for _ in range(count):
                    producer.produce("metered.orders", bytes(1000), partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(30)


def test_samples_from_the_metrics_topic_have_the_bytes_that_brokers_reported(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path
) -> None:
    producer = Producer(sandbox)
    began = datetime.now(UTC) - timedelta(seconds=75)
    for minute in range(2):
        at = began + timedelta(minutes=minute)
        at_ms = round(at.timestamp() * 1000)
        for broker, rate in ((1, 3e6), (2, 5e6)):
            name = "metered_orders"
            producer.write(
                broker,
                at,
                cruise_control_record(TOPIC_IN, at_ms, broker, rate, name),
                cruise_control_record(TOPIC_OUT, at_ms, broker, 2 * rate, name),
                cruise_control_record(PARTITION_SIZE, at_ms, broker, 1e6, name, 0),
                cruise_control_record(5, at_ms, broker, 0.5),
            )
    producer.write(0, datetime.now(UTC), b"rubbish")
    words = ("collect", "--from", "cruise-control", "--interval", "3s", "--once", "--json")
    with orders(sandbox):
        answer = trimtab(sandbox.bootstrap, *words, "--root", tmp_path)
    assert answer.returncode == 0, answer.stderr
    first, second = json.loads(answer.stdout)
    assert (first["quarantined"], second["quarantined"]) == ({"length": 1}, {})
    rows: list[dict[str, Any]] = pq.ParquetFile(second["segment"]).read().to_pylist()
    led = {
        row["partition"]: row
        for row in rows
        if row["topic"] == "metered.orders" and row["is_leader"]
    }
    assert [led[p]["in_method"] for p in range(3)] == [Method.SPLIT, Method.SPLIT, Method.COUNTED]
    rates = [led[p]["in_bytes"] * 1000 / led[p]["dt_ms"] for p in range(3)]
    assert rates[0] + rates[1] == pytest.approx(3e6, rel=0.01)
    assert rates[0] / rates[1] == pytest.approx(10, rel=0.2)
    assert rates[2] == pytest.approx(5e6, rel=0.01)
    assert led[0]["out_bytes"] == pytest.approx(2 * led[0]["in_bytes"])
