"""The probe feels what producers feel on real brokers, and leaves nothing."""

from __future__ import annotations

import pytest
from waiting import eventually

from core.clock import SystemClock
from core.cluster.client import ClusterClient
from core.cluster.connect import Address, connect
from core.cluster.probe import produce_latency as probing
from core.cluster.probe.produce_latency import TOPIC_PREFIX, ProduceProbe, start_probe
from core.cluster.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "WINDOW_SECONDS", 0.5)


def unaudited(client: ClusterClient) -> ClusterClient:
    return client


def started(sandbox: Sandbox, name: str, brokers: tuple[int, ...]) -> ProduceProbe:
    probe = start_probe(Address(sandbox.bootstrap), name, brokers, SystemClock(), unaudited)
    assert probe is not None
    return probe


def probe_topics(sandbox: Sandbox) -> list[str]:
    connection = connect(Address(sandbox.bootstrap))
    try:
        state = connection.client.describe_cluster()
    finally:
        connection.client.close()
    return [topic.name for topic in state.topics if topic.name.startswith(TOPIC_PREFIX)]


def test_probe_measures_each_broker_and_leaves_no_topic_behind(sandbox: Sandbox) -> None:
    probe = started(sandbox, "a", (1, 2, 3))
    try:
        eventually(lambda: {b for b, w in probe.windows().items() if len(w) > 1} == {1, 2, 3})
        windows_by_broker = probe.windows()
        assert dict(probe.replicas_by_broker) == {1: (1, 2, 3), 2: (2, 3, 1), 3: (3, 1, 2)}
        assert probe_topics(sandbox) == [f"{TOPIC_PREFIX}a"]
    finally:
        probe.close()
    assert not probe.trouble
    for windows in windows_by_broker.values():
        for window in windows:
            assert window.messages > 0
            assert 0 < window.p50_ms <= window.p99_ms
    eventually(lambda: not probe_topics(sandbox))


def test_probe_continues_with_the_topic_left_by_a_dead_process(sandbox: Sandbox) -> None:
    dead = started(sandbox, "b", (1, 2))
    eventually(lambda: bool(dead.replicas_by_broker))
    probe = started(sandbox, "b", (1, 2))
    try:
        eventually(lambda: set(probe.windows()) == {1, 2})
        assert not probe.trouble
    finally:
        probe.close()
        dead.close()
    eventually(lambda: not probe_topics(sandbox))


def test_unreachable_cluster_is_reported_as_trouble_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "START_SECONDS", 1.0)
    monkeypatch.setattr(probing, "CLOSE_SECONDS", 1.0)
    monkeypatch.setattr(probing, "TIMEOUT_SECONDS", 1.0)
    probe = start_probe(Address("127.0.0.1:1"), "c", (1, 2), SystemClock(), unaudited)
    assert probe is not None
    eventually(lambda: bool(probe.trouble))
    probe.close()
    assert probe.trouble.startswith("produce latency is not measured: ")
    assert probe.windows() == {}


def test_no_probe_is_started_on_a_simulated_cluster() -> None:
    assert start_probe(Address("sim:/nowhere"), "d", (1, 2), SystemClock(), unaudited) is None
