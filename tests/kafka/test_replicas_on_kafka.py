"""Replicas read from their own brokers, followers too; a byte flipped in one of their logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from on_kafka import client_with
from waiting import eventually

from core.cli.main import run
from core.cluster.client import OffsetAt, ReplicaRecords
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.watch.replicas.record_batches import Record, batches, read_records
from tests.sandbox_data import fill

TOPIC = "verified"
BATCHES_FROM = 300_000
"""Where in a log of a megabyte a byte is turned."""


@pytest.fixture(scope="module")
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    with client_with(sandbox, {TOPIC: [(1, 2, 3), (2, 4, 1)]}) as client:
        sizes = {TopicPartition(TOPIC, 0): 1_000_000, TopicPartition(TOPIC, 1): 200_000}
        fill(ConnectionSettings(sandbox.bootstrap), sizes)
        yield client


def test_a_flipped_byte_in_one_replicas_log_is_found_and_named(
    sandbox: Sandbox,
    client: KafkaClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))

    def verify() -> tuple[int, Any]:
        capfd.readouterr()
        words = ["-b", sandbox.bootstrap, "replicas", "verify", "--topics", TOPIC, "--json"]
        return run(lambda context: None, words), json.loads(capfd.readouterr().out)

    def all_in_sync() -> bool:
        state = client.describe_cluster()
        return bool(state.in_sync[state.replica_slice(state.partitions_of(TOPIC)[0])].all())

    code, document = verify()
    assert (code, document["same"]) == (0, True)
    first, second = document["partitions"]
    assert first["until"] == first["end"] > 900
    assert first["largest_lag"] == second["largest_lag"] == 0
    # A batch that one replica's answer was too short for is read again with the next piece.
    once = 3 * document["compared_bytes"]
    assert once <= document["read_bytes"] <= 1.25 * once

    sandbox.stop(3)
    try:
        _flip(sandbox, 3, BATCHES_FROM)
    finally:
        sandbox.start(3)
    eventually(all_in_sync)

    code, document = verify()
    assert code == 6
    first, second = document["partitions"]
    assert (first["standing"], second["standing"]) == ("different", "same")
    (diff,) = first["differences"]
    assert (diff["what"], diff["brokers"], diff["others"]) == ("corrupt", [3], [1, 2])
    assert 200 < diff["first_offset"] <= diff["offset"] <= diff["last_offset"] < 400


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_with_every_compression_codec(
    sandbox: Sandbox, client: KafkaClient, codec: str
) -> None:
    tp = TopicPartition(TOPIC, 1)
    begin = client.fetch_offsets([tp], OffsetAt.LATEST)[tp]
    producer = Producer(
        {"bootstrap.servers": sandbox.bootstrap, "compression.type": codec, "linger.ms": 100}
    )
    values = [f"value {number} ".encode() * 20 for number in range(50)]
    for value in values:
        producer.produce(TOPIC, value, partition=1)
    assert producer.flush(30) == 0

    def read() -> ReplicaRecords:
        answer = client.fetch_records({4: {tp: begin}}, 1_000_000)[tp, 4]
        assert isinstance(answer, ReplicaRecords)
        return answer

    # A follower hears of the high watermark with its next fetch.
    eventually(lambda: read().high_watermark == begin + len(values))
    answer = read()
    records_by_offset: dict[int, Record] = {}
    for batch in batches(answer.records):
        assert batch.sound
        records_by_offset |= read_records(answer.records[batch.start : batch.end]) or {}
    assert list(records_by_offset) == list(range(begin, begin + len(values)))
    assert all(value in records_by_offset[begin + at][1] for at, value in enumerate(values))


def _flip(sandbox: Sandbox, broker: int, at: int) -> None:
    (segment,) = (
        path
        for log_dir in sandbox.node(broker).log_dirs
        for path in (log_dir / f"{TOPIC}-0").glob("*.log")
    )
    with segment.open("r+b") as log:
        log.seek(at)
        (before,) = log.read(1)
        log.seek(at)
        log.write(bytes([before ^ 1]))
