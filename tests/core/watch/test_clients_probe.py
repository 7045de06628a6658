"""A probe on a simulated cluster: its pace, what it follows, what it reports, and when it ends."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from clients_help import Pings
from full_disk import files_of_at_most
from run_help import Faulty, cluster

from core.cluster.kafka_errors import Fault
from core.cluster.probe.round_trip import ClientSide, ProbeLayout, ProbeResult
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError, IncompleteError, TrimtabError, UnreachableError
from core.watch.client_health.health_detector import BrokerHealth, Health
from core.watch.client_health.latency import Latency
from core.watch.client_health.probe_loop import (
    MAX_RETRY_POLLS,
    RATE,
    TOPIC,
    PartitionAdder,
    ProbeLoop,
    ReportWriter,
    create_probe_topic,
    delete_probe_topic,
    describe_probe,
    missing_partitions,
    partitions_by_broker,
    probe_cost,
)
from core.watch.client_health.report import (
    ClientEvent,
    ProbeReport,
    report_from_json,
    report_to_json,
)
from core.watch.timeline.publisher import Publisher

NOWHERE = ProbeLayout(frozenset({1, 2}), None)


@pytest.fixture
def living() -> SimulatedCluster:
    return cluster({"orders": [(1, 2), (2, 3)]})


@pytest.fixture
def pings(living: SimulatedCluster) -> Pings:
    create_probe_topic(living, living.describe_cluster(), living.clock)
    return Pings(living, living.clock)


def probed(living: SimulatedCluster, pings: Pings, seconds: float) -> list[ProbeReport]:
    """Probe for so long, and return the reports."""
    reports: list[ProbeReport] = []
    end = living.clock.monotonic() + seconds
    probing = ProbeLoop(pings, pings.fetch_layout, "c", living.clock)
    probing.run(lambda: living.clock.monotonic() < end, reports.append)
    return reports


def alive(living: SimulatedCluster) -> list[int]:
    return [broker.id for broker in living.describe_cluster().brokers if broker.alive]


def test_probe_messages_are_sent_evenly_to_all_live_brokers(
    living: SimulatedCluster, pings: Pings
) -> None:
    reports = probed(living, pings, 60)
    sent = Counter(broker for _, broker in pings.sent)
    assert sent.keys() == set(alive(living))
    assert all(abs(count - 60 * RATE) <= 2 for count in sent.values())
    assert len(reports) == pytest.approx(60, abs=1)
    for seen in reports[-1].brokers:
        assert seen.health is Health.FINE
        assert seen.produce == Latency(pytest.approx(30 * RATE, abs=2), 2.0, 2.0)


def test_probe_topic_has_one_partition_on_each_live_broker(living: SimulatedCluster) -> None:
    create_probe_topic(living, living.describe_cluster(), living.clock)
    state = living.describe_cluster()
    assert [state.replicas(row) for row in state.partitions_of(TOPIC)] == [
        (broker,) for broker in alive(living)
    ]
    create_probe_topic(living, state, living.clock)  # it is there: nothing is done
    assert delete_probe_topic(living, state)
    assert not delete_probe_topic(living, living.describe_cluster())


def test_probe_description_states_its_cost_and_whether_a_topic_is_created(
    living: SimulatedCluster,
) -> None:
    state = living.describe_cluster()
    brokers = len(alive(living))
    messages, _ = probe_cost(brokers)
    assert f"{messages} messages/s" in describe_probe(state)
    assert "is made for it" in describe_probe(state)
    create_probe_topic(living, state, living.clock)
    assert "is made for it" not in describe_probe(living.describe_cluster())


def test_dead_broker_and_its_return_are_reported(living: SimulatedCluster, pings: Pings) -> None:
    began = living.clock.monotonic()
    pings.then = [
        (began + 10, lambda: living.stop_broker(2)),
        (began + 20, lambda: living.start_broker(2)),
    ]
    reports = probed(living, pings, 40)
    healths = [seen.health for report in reports if (seen := report.of(2)) is not None]
    assert Health.DOWN in healths
    assert healths[-1] is Health.FINE
    events = [event for report in reports for event in report.events]
    assert events[0].text == "broker 2: transport failure"
    assert events[-1].text.startswith("broker 2: answers again after 10")
    assert (events[-1].at - events[0].at).total_seconds() == pytest.approx(10, abs=0.5)
    assert {event.brokers for event in events} == {(2,)}


def test_deletion_of_the_probe_topic_ends_the_probe(living: SimulatedCluster, pings: Pings) -> None:
    began = living.clock.monotonic()
    pings.then = [
        (began + 10, lambda: delete_probe_topic(living, living.describe_cluster()) and None)
    ]
    with pytest.raises(IncompleteError, match="gone"):
        probed(living, pings, 60)
    assert living.clock.monotonic() - began == pytest.approx(20, abs=1.5)


def test_messages_lost_with_the_deleted_probe_topic_are_no_failures(
    living: SimulatedCluster, pings: Pings
) -> None:
    heard_of_all = pings.poll_results

    def deleted() -> None:
        delete_probe_topic(living, living.describe_cluster())
        pings.poll_results = lambda seconds: [  # type: ignore[method-assign]
            heard for heard in heard_of_all(seconds) if heard.side is ClientSide.PRODUCE
        ]

    pings.then = [(living.clock.monotonic() + 10, deleted)]
    reports: list[ProbeReport] = []
    with pytest.raises(IncompleteError, match="gone"):
        ProbeLoop(pings, pings.fetch_layout, "c", living.clock).run(lambda: True, reports.append)
    assert [event for report in reports for event in report.events] == []
    assert {seen.failed for seen in reports[-1].brokers} == {0}


def test_probe_continues_while_a_broker_does_not_know_its_topic_yet(
    living: SimulatedCluster, pings: Pings
) -> None:
    answers = [NOWHERE] * 5
    probing = ProbeLoop(
        pings, lambda: answers.pop() if answers else pings.fetch_layout(), "c", living.clock
    )
    end = living.clock.monotonic() + 9
    probing.run(lambda: living.clock.monotonic() < end, lambda report: None)
    assert pings.sent


def test_probe_ends_without_the_right_to_read_its_topic(
    living: SimulatedCluster, pings: Pings
) -> None:

    def denied() -> None:
        heard = ProbeResult(
            living.clock.monotonic(), ClientSide.FETCH, 1, error="TOPIC_AUTHORIZATION_FAILED"
        )
        pings.poll_results = lambda seconds: living.clock.sleep(seconds) or [heard]  # type: ignore

    pings.then = [(living.clock.monotonic() + 3, denied)]
    with pytest.raises(AccessDeniedError, match="may not read its topic"):
        probed(living, pings, 60)


@pytest.mark.parametrize(
    ("partitions", "brokers", "expected", "lacking"),
    [
        ({}, (1, 2), {}, ((1,), (2,))),
        ({0: (1,), 1: (2,)}, (1, 2), {1: 0, 2: 1}, ()),
        ({0: (1,), 1: (2,)}, (1, 2, 5), {1: 0, 2: 1}, ((5,),)),
        ({0: (1,), 1: (2,)}, (1,), {1: 0, 2: 1}, ()),  # 2 is dead, and may come back
        ({0: (1,), 1: (1,)}, (1, 2), {1: 0}, ((2,),)),  # somebody has moved one
        ({0: (1, 2), 1: (2,)}, (1, 2), {2: 1}, ((1,),)),  # and given one a replica
    ],
)
def test_partitions_are_mapped_to_brokers_and_missing_partitions_are_listed(
    partitions: dict[int, tuple[int, ...]],
    brokers: tuple[int, ...],
    expected: dict[int, int],
    lacking: tuple[tuple[int, ...], ...],
) -> None:
    assert partitions_by_broker(partitions) == expected
    assert missing_partitions(brokers, partitions) == lacking


def restart_broker(living: SimulatedCluster) -> int:
    """Make the topic while a broker is down, have it come back, and return which."""
    last = alive(living)[-1]
    living.stop_broker(last)
    create_probe_topic(living, living.describe_cluster(), living.clock)
    living.start_broker(last)
    return last


class Refusing:
    """An extender on a cluster that answers so when asked for partitions, until told otherwise."""

    def __init__(self, living: SimulatedCluster, answer: Fault | TrimtabError | None) -> None:
        self.living, self.answer = living, answer
        self.requests: list[int] = []
        self.messages: list[str] = []
        self.looks = 0
        cluster = Faulty(living)
        cluster.replaced["add_partitions"] = self.add_partitions
        self.extender = PartitionAdder(cluster, self.messages.append)

    def add_partitions(self, real: Any, additions: Any) -> Any:
        self.requests.append(self.looks)
        if isinstance(self.answer, TrimtabError):
            raise self.answer
        return real(additions) if self.answer is None else {TOPIC: self.answer}

    def look(self, times: int) -> None:
        for _ in range(times):
            self.extender.extend(Pings(self.living, self.living.clock).fetch_layout())
            self.looks += 1

    def lacking(self) -> int:
        return len(alive(self.living)) - len(self.living.describe_cluster().partitions_of(TOPIC))


def test_a_new_broker_gets_a_partition(living: SimulatedCluster) -> None:
    restart_broker(living)
    taking = Refusing(living, None)
    assert taking.lacking() == 1
    taking.look(4)
    state = living.describe_cluster()
    assert sorted(state.replicas(row) for row in state.partitions_of(TOPIC)) == [
        (broker,) for broker in alive(living)
    ]
    assert (taking.requests, taking.messages) == ([0], [])


EVER_MORE_SELDOM = [0, 2, 6, 14, 30, 60, 90, 120]
YET = "No partition for new brokers yet:"


@pytest.mark.parametrize(
    ("answer", "requests", "messages"),
    [
        (Fault("TOPIC_AUTHORIZATION_FAILED"), [0], "New brokers are not probed: {}."),
        (Fault("POLICY_VIOLATION"), [0], "New brokers are not probed: {}."),
        (Fault("REQUEST_TIMED_OUT"), EVER_MORE_SELDOM, f"{YET} {{}}."),
        (UnreachableError("Nobody answers."), EVER_MORE_SELDOM, f"{YET} {{}}"),
        # Whoever told the layout had not heard of the last.
        (Fault("INVALID_PARTITIONS"), EVER_MORE_SELDOM, None),
    ],
)
def test_failed_partition_for_a_new_broker_is_reported_once_and_retried_unless_permanent(
    living: SimulatedCluster,
    answer: Fault | TrimtabError,
    requests: list[int],
    messages: str | None,
) -> None:
    restart_broker(living)
    refusing = Refusing(living, answer)
    refusing.look(121)
    assert refusing.requests == requests
    assert refusing.messages == ([] if messages is None else [messages.format(answer)])
    if len(requests) > 1:
        refusing.answer = None
        refusing.look(MAX_RETRY_POLLS)
        assert refusing.lacking() == 0


def test_failed_partition_is_reported_anew_after_the_new_broker_came_back(
    living: SimulatedCluster,
) -> None:
    last = restart_broker(living)
    refusing = Refusing(living, Fault("REQUEST_TIMED_OUT"))
    refusing.look(9)
    living.stop_broker(last)
    refusing.look(1)
    living.start_broker(last)
    refusing.look(1)
    assert refusing.requests == [0, 2, 6, 10]
    assert refusing.messages == ["No partition for new brokers yet: REQUEST_TIMED_OUT."] * 2


def report_at(now: datetime) -> ProbeReport:
    return ProbeReport(
        now,
        "c",
        (
            BrokerHealth(
                1, Health.FINE, None, (), 0, Latency(9, 1.5, 2.25), Latency(0, None, None)
            ),
            BrokerHealth(
                2, Health.DOWN, 4.5, ("timed out",), 7, Latency(0, None, None), Latency(1, 3, 3)
            ),
        ),
        (ClientEvent(now, "broker 2: timed out", (2,)),),
    )


def test_probe_report_survives_a_json_round_trip(living: SimulatedCluster) -> None:
    report = report_at(living.clock.now())
    assert report_from_json(report_to_json(report)) == report


def test_full_disk_is_reported_once_and_ends_nothing(
    living: SimulatedCluster, tmp_path: Path
) -> None:
    errors: list[str] = []
    place = tmp_path / "clients.json"
    report = report_at(living.clock.now())
    with Publisher("c", tmp_path / "a.timeline") as publisher:
        kept = ReportWriter(publisher, place, errors.append)
        with files_of_at_most(0):
            kept.take(report)
            kept.take(report)
        assert publisher.trouble is not None
        assert errors == [f"No dashboard can show this: {place} cannot be written: File too large."]
        kept.take(report)
        assert publisher.trouble is None
    assert report_from_json(json.loads(place.read_text(encoding="utf-8"))) == report
