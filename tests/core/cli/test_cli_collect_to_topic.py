"""`trimtab collect --to kafka`: which topic of which cluster, made where it is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from in_process import Hand, audited
from run_help import Faulty, cluster

from core import paths
from core.cluster.client import NewRecord
from core.cluster.connect import Address, Connection
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode, TrimtabError
from core.load.collector.collector import Collector
from core.load.samples_topic import PARTITIONS, TOPIC

RACKS = {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}
WORDS = ("collect", "--once", "--interval", "0.01s", "--to", "kafka")


class Written:
    """What was written, by address and topic."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[NewRecord]] = {}

    def open(self, address: Address, topic: str) -> _Writer:
        return _Writer(self.records.setdefault((address.bootstrap, topic), []))


class _Writer:
    def __init__(self, records: list[NewRecord]) -> None:
        self._records = records

    def write(self, records: Iterable[NewRecord]) -> int:
        new = list(records)
        self._records += new
        return len(new)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    written = Written()
    monkeypatch.setattr("core.cli.load.sink_options.open_topic_writer", written.open)
    return written


@pytest.fixture
def hand(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Type at a cluster of six brokers in two racks, on which time passes between polls."""
    polled = Collector.poll
    monkeypatch.setattr(Collector, "poll", lambda self: (hand.cluster.advance(10), polled(self))[1])
    return hand.on(cluster({"orders": [(1, 2), (3, 4)]}, racks=RACKS))


def layout_of(client: SimulatedCluster) -> list[tuple[int, ...]]:
    state = client.describe_cluster()
    return [state.replicas(row) for row in state.partitions_of(TOPIC)]


def test_topic_is_created_once_and_polls_are_written_to_it(hand: Hand, written: Written) -> None:
    first, second = hand.json(*WORDS)
    assert (first["segment"], first["records"], second["records"]) == (None, 1, 1)
    assert list(written.records) == [("somewhere:9092", TOPIC)]
    layout = layout_of(hand.cluster)
    assert len(layout) == PARTITIONS
    assert {len(replicas) for replicas in layout} == {3}
    assert {len({RACKS[broker] for broker in replicas}) for replicas in layout} == {2}
    assert audited().count("create topics") == 1
    assert hand(*WORDS)[0] == ExitCode.DONE
    assert audited().count("create topics") == 1


def test_samples_can_be_written_to_a_topic_of_another_cluster(
    hand: Hand, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = cluster({"other": [(1,), (2,)]}, cluster_id="simulated-small-elsewhere")

    def connect(address: Address) -> Connection:
        client: Any = elsewhere if address.bootstrap == "elsewhere:9092" else hand.cluster
        return Connection(client, hand.cluster.clock, address)

    monkeypatch.setattr("core.cli.common.context.connect", connect)
    there = ("--to-bootstrap-server", "elsewhere:9092", "--topic", "samples")
    assert hand(*WORDS, *there)[0] == ExitCode.DONE
    ((place, records),) = written.records.items()
    assert place == ("elsewhere:9092", "samples")
    assert {record.key for record in records} == {hand.cluster.spec.cluster_id.encode()}
    assert elsewhere.describe_cluster().topic("samples") is not None
    assert hand.cluster.describe_cluster().topic("samples") is None


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (Fault("TOPIC_AUTHORIZATION_FAILED"), ExitCode.UNREACHABLE, "trimtab topics create"),
        (Fault("CLUSTER_AUTHORIZATION_FAILED"), ExitCode.UNREACHABLE, "retention.ms=172800000"),
        (Fault("POLICY_VIOLATION", "no"), ExitCode.FAILED, "POLICY_VIOLATION: no"),
        # Another collector was quicker, or the topic is hidden.
        (Fault("TOPIC_ALREADY_EXISTS"), ExitCode.DONE, ""),
    ],
)
def test_failed_topic_creation_reports_how_to_have_it_created(
    hand: Hand, written: Written, fault: Fault, code: ExitCode, words: str
) -> None:
    through = Faulty(hand.cluster)
    through.replaced["create_topics"] = lambda _, topics: {topic.name: fault for topic in topics}
    hand.on(hand.cluster, through)
    ended, _, err = hand(*WORDS)
    assert ended == code
    assert words in err


@pytest.mark.parametrize("marked", ["here:9092", "there:9092"])
def test_nothing_is_written_to_a_cluster_that_is_read_only(
    hand: Hand, written: Written, marked: str
) -> None:
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text(
        f'[clusters.kept]\nbootstrap = "{marked}"\nread_only = true\n', encoding="utf-8"
    )
    words = ("-b", "here:9092", *WORDS)
    if marked == "there:9092":
        words = (*words, "--to-bootstrap-server", "there:9092")
    assert _run(*words) == ExitCode.REFUSED
    assert not written.records


def _run(*words: str) -> int:
    from core.cli.main import run

    return run(lambda _: None, list(words))


@pytest.mark.parametrize(
    "words",
    [
        ("collect", "--topic", "t"),
        ("collect", "--to-bootstrap-server", "b:1"),
        ("collect", "--to", "spool", "--to-command-config", "f"),
        ("collect", "--to", "kafka", "--to-command-config", "f"),
        ("collect", "--to", "kafka", "--topic", "no/name"),
        ("collect", "--to", "kafka", "--to-bootstrap-server", "nowhere"),
    ],
)
def test_incompatible_or_invalid_collect_options_are_refused(
    hand: Hand, words: tuple[str, ...]
) -> None:
    assert hand(*words)[0] == ExitCode.USAGE


def test_topic_writer_is_refused_for_a_simulated_cluster() -> None:
    from core.cluster.connect import open_topic_writer

    with pytest.raises(TrimtabError, match="simulated"):
        open_topic_writer(Address("sim:somewhere"), TOPIC)


def test_poll_that_is_not_written_is_retried(
    hand: Hand, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [Fault("TOPIC_AUTHORIZATION_FAILED")]
    through = Faulty(hand.cluster)
    through.replaced["create_topics"] = lambda real, topics: (
        {topic.name: faults.pop() for topic in topics} if faults else real(topics)
    )
    hand.on(hand.cluster, through)

    class Stop:
        def is_set(self) -> bool:
            return bool(written.records["somewhere:9092", TOPIC])

    monkeypatch.setattr("core.cli.load.collect.stop_signals", Stop)
    code, _, err = hand("collect", "--interval", "0.01s", "--to", "kafka")
    assert (code, "Trying again." in err) == (ExitCode.DONE, True)
