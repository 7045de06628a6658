"""Bytes from a Prometheus: its API, whose series they are, counters that reset."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fake_prometheus import FakePrometheus, serving
from servers import nobody, says, server
from simulated import small_spec

from core.cluster.metadata import Broker, PartitionRow, Topic, TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, DocumentError, TrimtabError, UnreachableError, UsageError
from core.load.collector.collector import Collector
from core.load.samples import Method
from core.load.sources.metrics import BrokerMetrics
from core.load.sources.prometheus import (
    BYTES_IN,
    BYTES_OUT,
    SIZE,
    Prometheus,
    Query,
    counter_rate,
)
from core.load.sources.prometheus_api import PrometheusApi

NOW = 1_750_000_000.0


class StoppedClock:
    def now(self) -> datetime:
        return datetime.fromtimestamp(NOW, UTC)

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None: ...


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    with serving(FakePrometheus()) as fake:
        yield fake


def state_of(*hosts: str) -> ClusterState:
    """Return a cluster of brokers 1, 2, … with these hosts, and topics a.b and t."""
    return ClusterState.build(
        cluster_id="c",
        fetched_at=datetime.now(UTC),
        brokers=[Broker(n + 1, host=host, port=9092) for n, host in enumerate(hosts)],
        topics=[Topic("a.b"), Topic("t")],
        partitions=[PartitionRow(name, 0, 1, (1,), (1,)) for name in ("a.b", "t")],
    )


def fetch(
    prometheus: FakePrometheus, state: ClusterState, query: Query | None = None
) -> dict[int, BrokerMetrics]:
    api = PrometheusApi(prometheus.url)
    return dict(Prometheus(api, StoppedClock(), 60.0, query or Query()).fetch(state))


def counted(since: float, per_second: float, *, each: float = 15.0) -> list[tuple[float, float]]:
    """Return samples of a counter, scraped `each` so many seconds for five minutes up to NOW."""
    times = [NOW - 300 + n * each for n in range(int(300 / each) + 1)]
    return [(at, since + per_second * (at - NOW + 300)) for at in times]


@pytest.mark.parametrize(
    ("values", "scraped_seconds", "rate"),
    [
        ([], None, None),
        ([5], None, None),
        ([5, 5, 5, 5, 5], None, 0.0),
        ([0, 150, 300, 450, 600], None, 10.0),
        ([0, 150, 300, 450, 600], 48.0, 12.5),
        ([0, 0, 0, 0, 0], 0.0, None),
        ([0, 150], 48.0, 10.0),
        ([1000, 1150, 0, 150], None, (150 + 0 + 150) / 45),
        ([1000, 90], None, 6.0),
    ],
)
def test_counter_rate_handles_growth_and_resets(
    values: list[float], scraped_seconds: float | None, rate: float | None
) -> None:
    points = [(15.0 * n, value) for n, value in enumerate(values)]
    assert counter_rate(points, 60.0, scraped_seconds) == rate


@pytest.mark.parametrize("each", [7.0, 14.0, 29.0, 45.0, 59.0])
def test_rate_is_right_when_scrapes_do_not_fit_the_interval(
    prometheus: FakePrometheus, each: float
) -> None:
    for labels in ({"broker": "1", "topic": "t"}, {"broker": "1"}):
        prometheus.add(BYTES_IN, labels, counted(0, 4e6, each=each))
    (metrics,) = fetch(prometheus, state_of("h")).values()
    assert metrics.topic_in == {"t": pytest.approx(4e6)}


def test_broker_rates_sizes_and_growth_are_read_from_prometheus_series(
    prometheus: FakePrometheus,
) -> None:
    labels = {"instance": "kafka-1.example:7071", "job": "kafka"}
    prometheus.add(BYTES_IN, {**labels, "topic": "a.b"}, counted(1e12, 4e6))
    prometheus.add(BYTES_IN, {**labels, "topic": "a.b", "replica": "2"}, counted(1e12, 4e6))
    prometheus.add(BYTES_IN, {**labels, "topic": "gone"}, counted(0, 1.0))
    prometheus.add(BYTES_OUT, {**labels, "topic": "a_b"}, counted(0, 8e6))
    prometheus.add(SIZE, {**labels, "topic": "a.b", "partition": "0"}, counted(5e9, 100.0))
    prometheus.add(SIZE, {**labels, "topic": "t", "partition": "0"}, counted(5e9, -100.0))
    prometheus.add(SIZE, {**labels, "topic": "t", "partition": "x"}, counted(0, 1.0))
    prometheus.add(SIZE, {**labels, "topic": "t", "partition": "1"}, [(NOW, "NaN")])
    (metrics,) = fetch(prometheus, state_of("kafka-1.example", "kafka-2.example")).values()
    assert metrics.topic_in == {"a.b": pytest.approx(4e6)}
    assert metrics.topic_out == {"a.b": pytest.approx(8e6)}
    assert metrics.size == {"a.b": {0: 5e9 + 30_000}, "t": {0: 5e9 - 30_000}}
    assert metrics.growth == {"a.b": {0: pytest.approx(100.0)}}


def test_prometheus_queries_have_expected_selectors_and_time_ranges(
    prometheus: FakePrometheus,
) -> None:
    prometheus.add(BYTES_IN, {"broker": "1", "topic": "t"}, counted(0, 1.0))
    fetch(prometheus, state_of("h"), Query(match='cluster="prod"'))
    assert [words["query"] for words in prometheus.queries] == [
        f'{BYTES_IN}{{topic!="",cluster="prod"}}',
        f'{BYTES_OUT}{{topic!="",cluster="prod"}}',
        f'{SIZE}{{cluster="prod"}}',
        f'timestamp({BYTES_IN}{{topic="",cluster="prod"}})',
    ]
    assert [(words["start"], words["end"]) for words in prometheus.queries] == [
        (f"{NOW - 60:.3f}", f"{NOW:.3f}")
    ] * 4
    assert [words["step"] for words in prometheus.queries] == ["15", "15", "60", "60"]


@pytest.mark.parametrize(
    ("hosts", "labels", "broker_label", "broker"),
    [
        (("kafka-1.example", "kafka-2.example"), {"instance": "kafka-2.example:7071"}, None, 2),
        (("kafka-1.example", "kafka-2.example"), {"instance": "KAFKA-2:7071"}, None, 2),
        (("10.0.0.1", "10.0.0.2"), {"instance": "10.0.0.2:7071"}, None, 2),
        (("10.0.0.1", "11.0.0.2"), {"instance": "10.0.0.9:7071"}, None, None),
        (("::1", "::2"), {"instance": "[::2]:7071"}, None, 2),
        (
            ("c-kafka-0.c-kafka-brokers.ns.svc", "c-kafka-1.c-kafka-brokers.ns.svc"),
            {"instance": "10.1.2.3:9404", "pod": "c-kafka-1"},
            None,
            2,
        ),
        (("localhost", "localhost"), {"instance": "localhost:7071"}, None, None),
        (("localhost", "localhost"), {"instance": "localhost:7071", "broker_id": "2"}, None, 2),
        (("a", "b"), {"instance": "a:1", "node": "2"}, "node", 2),
        (("a", "b"), {"instance": "a:1"}, "node", None),
        (("a", "b"), {"instance": "a:1", "broker": "3"}, None, 1),
        (("a", "b"), {}, None, None),
    ],
)
def test_series_is_assigned_to_the_broker_named_by_its_labels(
    prometheus: FakePrometheus,
    hosts: tuple[str, ...],
    labels: dict[str, str],
    broker_label: str | None,
    broker: int | None,
) -> None:
    prometheus.add(BYTES_IN, {**labels, "topic": "t"}, counted(0, 1.0))
    query = Query(broker_label=broker_label)
    if broker is not None:
        assert list(fetch(prometheus, state_of(*hosts), query)) == [broker]
        return
    with pytest.raises(TrimtabError, match="cannot be told") as error:
        fetch(prometheus, state_of(*hosts), query)
    assert "--broker-label" in error.value.next


def test_prometheus_without_matching_series_is_reported(prometheus: FakePrometheus) -> None:
    with pytest.raises(TrimtabError, match=BYTES_IN) as error:
        fetch(prometheus, state_of("h"))
    assert "--match" in error.value.next


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (200, b"<html>hello</html>", UnreachableError, "does not answer as a Prometheus"),
        (200, b"[]", UnreachableError, "does not answer as a Prometheus"),
        (200, b'{"status": "success"}', UnreachableError, "does not answer as a Prometheus"),
        (
            200,
            b'{"status": "success", "data": {"result": [{"metric": {}, "value": [0, "1"]}]}}',
            UnreachableError,
            "does not answer as a Prometheus",
        ),
        (400, b'{"error": "parse error: unexpected }"}', TrimtabError, "parse error: unexpected }"),
        (401, b"", AccessDeniedError, "says no: 401"),
        (403, b"", AccessDeniedError, "says no: 403"),
        (404, b"", UnreachableError, "does not answer as a Prometheus"),
        (422, b'{"error": "too many\\nsamples"}', TrimtabError, "too many samples"),
        (503, b'{"error": "timeout"}', UnreachableError, "answers 503"),
    ],
)
def test_prometheus_errors_are_reported_in_one_sentence(
    prometheus: FakePrometheus, status: int, body: bytes, error: type[TrimtabError], message: str
) -> None:
    prometheus.answer = (status, body)
    with pytest.raises(error) as excinfo:
        fetch(prometheus, state_of("h"))
    assert message in str(excinfo.value)
    assert excinfo.value.next


def test_prometheus_that_is_not_listening_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="does not answer"):
        PrometheusApi(f"http://{nobody()}").query_range("up", 0, 60, 15)


def test_truncated_prometheus_answer_counts_as_unreachable() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
    with server(says(half)) as address, pytest.raises(UnreachableError, match="does not answer"):
        PrometheusApi(f"http://{address}").query_range("up", 0, 60, 15)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "ftp://p:9090",
        "https://user:secret@p",
        "http://p?x=1",
        "http://p:99999",
        "p:9090",
    ],
)
def test_invalid_prometheus_url_is_refused_without_revealing_its_password(url: str) -> None:
    with pytest.raises(UsageError) as error:
        PrometheusApi(url)
    assert "secret" not in str(error.value)


def test_token_is_read_for_each_request_and_not_sent_to_redirect_target(
    prometheus: FakePrometheus, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    api = PrometheusApi(prometheus.url + "/", token)
    for text in ("first\n", "second"):
        token.write_text(text)
        api.query_range("up", NOW - 60, NOW, 15)
    assert prometheus.tokens == ["Bearer first", "Bearer second"]
    with serving(FakePrometheus(redirect=prometheus.url)) as other:
        replace(api, url=other.url).query_range("up", NOW - 60, NOW, 15)
        assert other.tokens == ["Bearer second"]
    assert prometheus.tokens[-1] is None


@pytest.mark.parametrize(
    "text",
    [None, "", "secret\nlines", "é"],
    ids=["no file", "empty", "two lines", "not ASCII"],
)
def test_unusable_token_is_refused_without_revealing_it(tmp_path: Path, text: str | None) -> None:
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match="token cannot be used") as error:
        PrometheusApi(f"http://{nobody()}", token).query_range("up", 0, 60, 15)
    assert "secret" not in str(error.value)


def test_certificate_is_trusted_only_when_given_as_ca_file(tmp_path: Path) -> None:
    both, certificate = tmp_path / "both.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=p", "-addext", "subjectAltName=IP:127.0.0.1"]
    made += ["-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    both.write_text(certificate.read_text() + (tmp_path / "key.pem").read_text())
    with serving(FakePrometheus(), both) as fake:
        assert PrometheusApi(fake.url, ca_file=certificate).query_range("up", 0, 60, 15) == []
        with pytest.raises(UnreachableError) as error:
            PrometheusApi(fake.url).query_range("up", 0, 60, 15)
        assert "--ca-file" in error.value.next
        with pytest.raises(DocumentError, match=r"both\.txt"):
            PrometheusApi(fake.url, ca_file=tmp_path / "both.txt").query_range("up", 0, 60, 15)
        (tmp_path / "both.txt").write_text("no certificate")
        with pytest.raises(DocumentError, match=r"both\.txt"):
            PrometheusApi(fake.url, ca_file=tmp_path / "both.txt").query_range("up", 0, 60, 15)


def test_collector_builds_samples_from_prometheus(
    prometheus: FakePrometheus, tmp_path: Path
) -> None:
    cluster = SimulatedCluster(
        small_spec(
            {"t": [(1, 2), (1, 2), (2, 1)]},
            in_bytes_per_s={TopicPartition("t", p): 1e6 * rate for p, rate in enumerate((4, 1, 2))},
        )
    )
    api = PrometheusApi(prometheus.url)
    source = Prometheus(api, cluster.clock, 60.0, Query())
    collector = Collector(cluster, cluster.clock, tmp_path, metrics=source)
    began = cluster.now.timestamp()
    for broker, rate in ((1, 5e6), (2, 2e6)):
        samples = [(began + 15 * n, 1e9 + 15 * n * rate) for n in range(20)]
        prometheus.add(BYTES_IN, {"broker_id": str(broker), "topic": "t"}, samples)
    for _ in range(3):
        cluster.advance(60)
        polled = collector.poll()
    rows: list[dict[str, Any]] = pq.ParquetFile(polled.segment).read().to_pylist()
    led = {row["partition"]: row for row in rows if row["is_leader"]}
    assert {row["source"] for row in rows} == {"prometheus"}
    assert [led[p]["in_method"] for p in range(3)] == [Method.SPLIT, Method.SPLIT, Method.COUNTED]
    rates = [led[p]["in_bytes"] / 60 for p in range(3)]
    assert rates == pytest.approx([4e6, 1e6, 2e6], rel=0.02)
