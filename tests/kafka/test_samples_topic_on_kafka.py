"""`collect --to kafka` on real brokers: the topic it makes, and the polls that lie in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from on_kafka import client_with, trimtab
from sample_rows import arrays_of, decoded, sample_row
from secured import LOGIN, SecuredBroker, acls
from waiting import eventually

from core.cluster.access.rights import TOPIC as TOPIC_KIND
from core.cluster.access.rights import Right
from core.cluster.client import NewRecord, UnconfirmedError
from core.cluster.configs import Resource
from core.cluster.connect import Address, open_topic_writer
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import TrimtabError
from core.load.samples_topic import PARTITIONS, TOPIC, encode_poll, headers_of
from core.load.snapshot.manifest import cluster_ids
from core.load.snapshot.reader import read_snapshot
from tests.sandbox_data import delete_topics

ORDERS = {"orders": [(1, 2), (2, 3), (3, 1)]}


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    with client_with(sandbox, ORDERS) as client:
        yield client
        delete_topics(ConnectionSettings(sandbox.bootstrap), [TOPIC])


def read(sandbox: Sandbox, topic: str, count: int) -> list[NewRecord]:
    """Return this many records of a topic, those of a partition in order."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": sandbox.bootstrap,
            "group.id": "reader-of-samples",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=60)
    finally:
        consumer.close()
    return [NewRecord(m.key(), m.value(), dict(m.headers() or ())) for m in messages]


def test_two_polls_are_written_to_a_topic_created_for_them(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path
) -> None:
    words = ("collect", "--to", "kafka", "--interval", "3s", "--once", "--json")
    answer = trimtab(sandbox.bootstrap, *words, "--root", tmp_path)
    assert answer.returncode == 0, answer.stderr
    first, second = json.loads(answer.stdout)
    state = client.describe_cluster()
    assert len(state.partitions_of(TOPIC)) == PARTITIONS
    configs = client.describe_configs([Resource.topic(TOPIC)], ["retention.ms"])
    assert configs[Resource.topic(TOPIC)]["retention.ms"].value == str(48 * 3600 * 1000)

    records = read(sandbox, TOPIC, first["records"] + second["records"])
    assert {record.key for record in records} == {state.cluster_id.encode()}
    assert all(record.headers == headers_of(record.value) for record in records)
    polls = [decoded(record.value) for record in records]
    assert len({poll["poll"] for poll in polls}) == 2
    assert sum(len(poll["samples"]) for poll in polls) == first["rows"] + second["rows"]
    led = [
        sample
        for poll in polls
        for sample in poll["samples"]
        if sample["topic"] == "orders" and sample["is_leader"]
    ]
    assert [sample["partition"] for sample in led] == [0, 1, 2, 0, 1, 2]
    assert [sample["poll_id"] for sample in led] == [first["poll_id"]] * 3 + [second["poll_id"]] * 3
    assert all(sample["dt_ms"] is None for sample in led[:3])
    assert all(2_000 < sample["dt_ms"] < 60_000 for sample in led[3:])


def test_pipeline_publishes_the_load_of_each_cluster_from_a_samples_topic(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path
) -> None:
    words = ("collect", "--to", "kafka", "--interval", "3s", "--once")
    assert trimtab(sandbox.bootstrap, *words, "--root", tmp_path).returncode == 0
    other = client.describe_cluster().cluster_id[:-1] + "-"
    writer = open_topic_writer(Address(sandbox.bootstrap), TOPIC)
    samples = [sample_row(partition, cluster=other) for partition in range(3)]
    writer.write(
        [
            *encode_poll(other, "elsewhere-1-1", arrays_of(samples), datetime.now(UTC)),
            NewRecord(other.encode(), b"no samples", headers_of(b"samples")),
        ]
    )
    writer.close()
    for accepted in (True, False):  # the second time there is nothing new
        answer = trimtab(
            sandbox.bootstrap,
            *("pipeline", "once", "--source", "kafka", "--json"),
            *("--root", tmp_path),
        )
        assert answer.returncode == 0, answer.stderr
        assert bool(answer.stdout) is accepted
    state = client.describe_cluster()
    assert set(cluster_ids(tmp_path)) == {state.cluster_id, other}
    mine, theirs = (read_snapshot(tmp_path, c) for c in (state.cluster_id, other))
    assert mine is not None
    assert theirs is not None
    load = mine.aligned(state)
    led = [state.find(TopicPartition("orders", p)) for p in range(3)]
    assert np.isfinite(load.in_bytes_per_s[led]).all()
    assert theirs.partition.tolist() == [0, 1, 2]
    assert theirs.counts.quarantined == {"record_damaged": 1}


@pytest.mark.usefixtures("library")
def test_records_not_acknowledged_in_time_are_written_once_when_brokers_return(
    sandbox: Sandbox, client: KafkaClient
) -> None:
    def is_acknowledged() -> bool:
        try:
            return writer.write([]) == 0
        except UnconfirmedError:
            return False

    with client_with(sandbox, {"alone": [(4,)]}):
        writer = open_topic_writer(Address(sandbox.bootstrap, timeout_seconds=3), "alone")
        try:
            writer.write([NewRecord(b"k", b"0", {})])
            sandbox.stop(4)
            try:
                with pytest.raises(UnconfirmedError):
                    writer.write([NewRecord(b"k", value, {}) for value in (b"1", b"2")])
            finally:
                sandbox.start(4)
            eventually(is_acknowledged)
        finally:
            writer.close()
        assert [record.value for record in read(sandbox, "alone", 3)] == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("library")
def test_writer_without_rights_raises_an_error_and_writes_once_they_are_granted(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    guest = tmp_path / "guest.properties"
    guest.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} required username="guest" password="right";\n'
    )
    writer = open_topic_writer(Address(secured.at("OUTSIDE"), guest), "guarded")

    def is_written() -> bool:
        try:
            return writer.write([NewRecord(b"k", b"v", {})]) == 1
        except TrimtabError:  # brokers hear of rights a moment later
            return False

    admin = ConnectionSettings(secured.at("PLAINTEXT"))
    create_topics(admin, {"guarded": [(1,)]})
    try:
        with pytest.raises(TrimtabError, match="may not write to guarded"):
            writer.write([NewRecord(b"k", b"v", {})])
        with acls(admin, "guest", [(Right(TOPIC_KIND, "WRITE"), "guarded")]):
            eventually(is_written)
    finally:
        writer.close()
        delete_topics(admin, ["guarded"])
