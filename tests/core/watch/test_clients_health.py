"""What is told of brokers from what a probe hears: once as it begins, once as it ends."""

from __future__ import annotations

import random

import pytest

from core.cluster.probe.produce_latency import quantile
from core.cluster.probe.round_trip import ClientSide, ProbeResult
from core.watch.client_health.health_detector import (
    ErrorSubject,
    Health,
    HealthDetector,
    error_subject,
    error_text,
    format_milliseconds,
)
from core.watch.client_health.latency import Latency, LatencyWindow, SlowDetector


@pytest.mark.parametrize(
    ("delays", "p50", "p99"),
    [
        ([5.0], 5.0, 5.0),
        ([1.0, 9.0], 1.0, 9.0),
        ([3.0, 1.0, 2.0], 2.0, 3.0),
        ([float(n) for n in range(1, 101)], 50.0, 99.0),
        ([1.0] * 99 + [700.0], 1.0, 1.0),
        ([1.0] * 98 + [700.0] * 2, 1.0, 700.0),
    ],
)
def test_quantiles_are_of_the_nearest_rank(delays: list[float], p50: float, p99: float) -> None:
    window = LatencyWindow(30)
    for waited in delays:
        window.add(100.0, waited)
    assert window.wait(101.0) == Latency(len(delays), p50, p99)


def test_a_window_holds_exactly_its_last_seconds() -> None:
    chance = random.Random(7)
    window, every = LatencyWindow(30), list[tuple[float, float]]()
    now = 0.0
    for _ in range(2000):
        now += chance.expovariate(4)
        every.append((now, chance.choice([1.0, 2.0, 2.0, 80.0])))
        window.add(*every[-1])
        held = sorted(waited for at, waited in every if at > now - 30)
        assert window.wait(now) == Latency(len(held), quantile(held, 0.5), quantile(held, 0.99))


def test_latency_window_without_recent_messages_is_empty() -> None:
    window = LatencyWindow(30)
    window.add(0.0, 5.0)
    assert window.wait(29.9).messages == 1
    assert window.wait(30.0) == Latency(0, None, None)


def band_after(p99s: list[float], messages: int = 120) -> SlowDetector:
    band = SlowDetector()
    for second, p99 in enumerate(p99s):
        band.look(float(second), Latency(messages, 1.0, p99))
    return band


USUAL = [4.0] * 60


@pytest.mark.parametrize(
    ("p99s", "slow"),
    [
        (USUAL, False),
        ([*USUAL, 99.0], False),  # 25 times as long, and still quick
        ([*USUAL, 100.0], True),
        ([*[30.0] * 60, 299.0], False),  # less than ten times as long
        ([*[30.0] * 60, 300.0], True),
        ([*[4.0] * 29, 900.0], False),  # nothing is usual yet
        ([*[4.0] * 30, 900.0], True),
        ([*USUAL, 900.0, 60.0], True),  # on its way back
        ([*USUAL, 900.0, 50.0], False),
        ([*USUAL, *[900.0] * 700], True),  # long, and still not usual
    ],
)
def test_slow_is_ten_times_the_usual_and_at_least_100_ms(p99s: list[float], slow: bool) -> None:
    assert (band_after(p99s).slow_since is not None) is slow


def test_fewer_than_20_messages_do_not_make_a_broker_slow() -> None:
    assert band_after([*USUAL]).usual_ms == 4.0
    band = band_after(USUAL)
    band.look(60.0, Latency(19, 1.0, 900.0))
    assert band.slow_since is None
    band.look(61.0, Latency(20, 1.0, 900.0))
    assert band.slow_since == 61.0


def test_usual_latency_is_of_the_last_ten_minutes_without_slow_periods() -> None:
    band = band_after([*[4.0] * 600, *[900.0] * 50, *[8.0] * 302])
    assert band.usual_ms == 8.0


PRODUCE, FETCH = ClientSide.PRODUCE, ClientSide.FETCH


class Probed:
    """A detector for brokers 1 and 2 that hears of four messages a second by a clock of its own."""

    def __init__(self, brokers: tuple[int, ...] = (1, 2)) -> None:
        self.detector = HealthDetector()
        self.detector.follow(brokers, brokers)
        self.brokers = brokers
        self.now = 0.0
        self.number = 0
        self.told: list[tuple[float, str]] = []

    def fine(self, seconds: float, *, without: int | None = None, ms: float = 2.0) -> None:
        """Let `seconds` pass in which all brokers, or all but one, answer after `ms`."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = round(self.now + 0.25, 6)
            for broker in self.brokers:
                if broker != without:
                    self.number += 1
                    self.answers(broker, PRODUCE, ms)
                    self.answers(broker, FETCH, ms + 1)
            if self.now % 1 == 0:
                self.look()

    def answers(self, broker: int, side: ClientSide, ms: float = 2.0) -> None:
        self.detector.hear(ProbeResult(self.now, side, broker, self.number, ms))

    def fails(self, broker: int | None, error: str, side: ClientSide = PRODUCE) -> None:
        self.detector.hear(ProbeResult(self.now, side, broker, error=error))

    def look(self) -> None:
        self.told += [(event.at, event.text) for event in self.detector.look(self.now)]

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.told]

    def health(self, broker: int) -> Health:
        return next(status.health for status in self.detector.health() if status.broker == broker)


@pytest.fixture
def probed() -> Probed:
    """What has been well for ten seconds."""
    probe = Probed()
    probe.fine(10)
    assert probe.told == []
    return probe


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("_TRANSPORT", (ErrorSubject.BROKER, "transport failure")),
        ("_MSG_TIMED_OUT", (ErrorSubject.BROKER, "timed out")),
        ("REQUEST_TIMED_OUT", (ErrorSubject.BROKER, "timed out")),
        ("NOT_LEADER_FOR_PARTITION", (ErrorSubject.BROKER, "not leader or follower")),
        ("_RESOLVE", (ErrorSubject.BROKER, "its host name is not found")),
        ("KAFKA_STORAGE_ERROR", (ErrorSubject.BROKER, "its disk fails")),
        ("INVALID_RECORD", (ErrorSubject.BROKER, "invalid record")),
        ("_ALL_BROKERS_DOWN", (ErrorSubject.CLUSTER, "all brokers down")),
        ("TOPIC_AUTHORIZATION_FAILED", (ErrorSubject.RIGHTS, "topic authorization failed")),
        ("UNKNOWN_TOPIC_OR_PART", (ErrorSubject.TOPIC, "unknown topic or part")),
        ("_PURGE_QUEUE", (ErrorSubject.NOTHING, "purge queue")),
        ("GROUP_AUTHORIZATION_FAILED", (ErrorSubject.NOTHING, "group authorization failed")),
    ],
)
def test_each_error_code_has_its_subject_and_text(
    error: str, expected: tuple[ErrorSubject, str]
) -> None:
    assert (error_subject(error), error_text(error)) == expected


def test_classified_error_codes_exist_in_librdkafka() -> None:
    from confluent_kafka import KafkaError

    from core.watch.client_health import health_detector as meanings

    known = {name for name in dir(KafkaError) if name.lstrip("_").isupper()}
    named = meanings._WORDS.keys() | meanings._RIGHTS | meanings._TOPIC | meanings._NOTHING
    ours = {KafkaError(getattr(KafkaError, name)).name() for name in known}
    newer = {"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID"}  # Kafka's own words for them
    assert named - ours - known <= newer


def test_error_is_reported_once_and_so_is_its_end(probed: Probed) -> None:
    probed.fails(2, "_TRANSPORT")
    probed.fails(2, "_TRANSPORT", FETCH)
    probed.fine(4.1, without=2)
    probed.fails(2, "_TRANSPORT")
    assert probed.health(2) is Health.FAILING
    probed.fine(10)
    assert probed.told == [
        (10.0, "broker 2: transport failure"),
        (14.5, "broker 2: answers again after 4.5 s"),
    ]
    assert probed.health(1) is probed.health(2) is Health.FINE


def test_each_kind_of_error_is_reported(probed: Probed) -> None:
    errors = ("NOT_LEADER_FOR_PARTITION", "_TRANSPORT", "_MSG_TIMED_OUT", "_MSG_TIMED_OUT")
    for error in errors:
        probed.fails(2, error)
        probed.fine(2, without=2)
    assert probed.texts == [
        "broker 2: not leader or follower",
        "broker 2: transport failure",
        "broker 2: timed out",
    ]


def test_broker_that_answers_and_then_fails_anew_has_not_recovered(probed: Probed) -> None:
    for _ in range(5):
        probed.fails(2, "NOT_LEADER_FOR_PARTITION")
        probed.fine(0.75)
    assert probed.told == [(10.0, "broker 2: not leader or follower")]
    probed.fine(2)
    assert probed.told[1:] == [(13.25, "broker 2: answers again after 3.2 s")]


def test_broker_recovers_only_once_the_side_that_failed_answers(probed: Probed) -> None:
    probed.fails(2, "_TRANSPORT", FETCH)
    for _ in range(20):
        probed.now += 0.25
        probed.number += 1
        probed.answers(2, PRODUCE)
    probed.look()
    assert probed.health(2) is Health.FAILING
    probed.fine(3)
    assert probed.told[-1] == (15.25, "broker 2: answers again after 5.2 s")


def test_produced_messages_that_are_never_fetched_are_a_fetch_timeout(probed: Probed) -> None:
    for _ in range(24):
        probed.fine(0.25, without=2)
        probed.number += 1
        probed.answers(2, PRODUCE)
        probed.look()
    assert probed.texts == ["broker 2: fetch timed out"]
    probed.fine(2)
    assert probed.texts[-1].startswith("broker 2: answers again")


def test_message_fetched_before_its_produce_ack_is_no_fetch_timeout(probed: Probed) -> None:
    probed.number = 1000
    probed.answers(1, FETCH)
    probed.answers(1, PRODUCE)
    probed.now = 60.0
    probed.look()
    assert probed.told == []


def test_all_brokers_down_is_reported_only_when_all_are_down(probed: Probed) -> None:
    probed.fails(None, "_ALL_BROKERS_DOWN")
    probed.fails(2, "_TRANSPORT")
    probed.fine(2, without=2)
    assert probed.texts == ["broker 2: transport failure"]
    probed.fails(1, "_TRANSPORT")
    probed.look()
    assert probed.texts[1:] == ["all brokers down", "broker 1: transport failure"]
    probed.fine(3)
    assert "brokers answer again after 4.0 s" in probed.texts


def test_all_brokers_down_is_not_reported_while_one_answers(probed: Probed) -> None:
    probed.fails(None, "_ALL_BROKERS_DOWN")
    probed.fine(20)
    probed.fails(1, "_TRANSPORT")
    probed.fails(2, "_TRANSPORT")
    probed.look()
    assert "all brokers down" not in probed.texts


def test_slow_broker_is_reported_once_and_so_is_its_end(probed: Probed) -> None:
    probed.fine(50)
    probed.brokers = (2,)
    probed.fine(20, ms=250.0)
    assert probed.texts == [
        "broker 2: slow, produce p99 250 ms (usually 2.0 ms), fetch p99 251 ms (usually 3.0 ms)"
    ]
    assert probed.health(2) is Health.SLOW
    probed.fine(60)
    assert probed.told[1:] == [(110.0, "broker 2: as fast as usual after 49 s")]


def test_messages_queued_for_a_dead_broker_are_not_reported_as_slow(probed: Probed) -> None:
    probed.fine(50)
    probed.fails(2, "_TRANSPORT")
    probed.fine(4, without=2)
    for _ in range(30):  # what was queued meanwhile comes through at once
        probed.number += 1
        probed.answers(2, PRODUCE, 3900.0)
        probed.answers(2, FETCH, 3900.0)
    probed.fine(60)
    assert probed.texts == ["broker 2: transport failure", "broker 2: answers again after 4.0 s"]


def test_detector_follows_added_dead_and_removed_brokers(probed: Probed) -> None:
    probed.detector.follow((1, 2, 3), (1, 3))
    assert probed.health(3) is Health.WAITING
    probed.fails(2, "_TRANSPORT")
    assert probed.health(2) is Health.DOWN
    probed.detector.follow((1, 3), (1, 3))
    assert [status.broker for status in probed.detector.health()] == [1, 3]
    probed.fails(2, "_TRANSPORT")
    probed.look()
    assert probed.texts == ["broker 2: transport failure"]


def test_authorization_failure_is_not_reported_as_a_broker_failure(probed: Probed) -> None:
    probed.fails(1, "TOPIC_AUTHORIZATION_FAILED")
    probed.look()
    assert probed.detector.denied == "produce"
    assert probed.told == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0.84, "0.8 ms"),
        (9.94, "9.9 ms"),
        (9.96, "10 ms"),
        (250.4, "250 ms"),
        (999.6, "1.0 s"),
        (1240, "1.2 s"),
    ],
)
def test_latencies_are_written_with_two_digits(value: float | None, expected: str) -> None:
    assert format_milliseconds(value) == expected
