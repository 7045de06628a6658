"""Detects client health per broker from a probe's results, and publishes its changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from core.cluster.probe.round_trip import TIMEOUT_SECONDS, ClientSide, ProbeResult
from core.units import format_duration
from core.watch.client_health.latency import Latency, LatencyWindow, SlowDetector


class ErrorSubject(Enum):
    """What an error is about."""

    BROKER = "broker"
    CLUSTER = "cluster"
    RIGHTS = "rights"
    """No waiting mends it."""
    TOPIC = "topic"
    """The probe's topic is not there, or not yet known everywhere."""
    NOTHING = "nothing"
    """What the probe itself does, as it begins and ends."""


TIMED_OUT: Final = "_MSG_TIMED_OUT"
_WORDS: Final = {
    "_TRANSPORT": "transport failure",
    "_RESOLVE": "its host name is not found",
    "_AUTHENTICATION": "login refused",
    "SASL_AUTHENTICATION_FAILED": "login refused",
    "_SSL": "TLS failure",
    TIMED_OUT: "timed out",
    "_TIMED_OUT": "timed out",
    "_TIMED_OUT_QUEUE": "timed out",
    "REQUEST_TIMED_OUT": "timed out",
    "NOT_LEADER_FOR_PARTITION": "not leader or follower",
    "NOT_LEADER_OR_FOLLOWER": "not leader or follower",
    "LEADER_NOT_AVAILABLE": "no leader",
    "FENCED_LEADER_EPOCH": "leader epoch fenced",
    "UNKNOWN_LEADER_EPOCH": "leader epoch unknown",
    "NOT_ENOUGH_REPLICAS": "not enough replicas in sync",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "not enough replicas in sync",
    "KAFKA_STORAGE_ERROR": "its disk fails",
    "BROKER_NOT_AVAILABLE": "broker not available",
    "OFFSET_OUT_OF_RANGE": "messages were lost",
}
_RIGHTS: Final = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
_TOPIC: Final = {
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
}
_NOTHING: Final = {
    "_PARTITION_EOF",
    "_PURGE_QUEUE",
    "_PURGE_INFLIGHT",
    "_DESTROY",
    "_QUEUE_FULL",
    "_NO_OFFSET",
    "GROUP_AUTHORIZATION_FAILED",  # no group is made; librdkafka asks for its coordinator anyway
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
}


def error_subject(error: str) -> ErrorSubject:
    """Return what an error of this name is about."""
    if error == "_ALL_BROKERS_DOWN":
        return ErrorSubject.CLUSTER
    if error in _RIGHTS:
        return ErrorSubject.RIGHTS
    if error in _TOPIC:
        return ErrorSubject.TOPIC
    return ErrorSubject.NOTHING if error in _NOTHING else ErrorSubject.BROKER


def error_text(error: str) -> str:
    """Return an error in words; one that is not known here by its own name."""
    return _WORDS.get(error) or error.strip("_").replace("_", " ").lower()


CALM_SECONDS = 1.0
"""A broker answers again once it has, for so long without another error."""


class Health(Enum):
    """How a broker treats its clients; worse comes later."""

    WAITING = "waiting"
    """Nothing is known yet."""
    FINE = "fine"
    SLOW = "slow"
    FAILING = "failing"
    DOWN = "down"
    """It is not among the cluster's brokers, and does not answer."""


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """What the timeline should know: a clause in the past tense, and when it happened."""

    at: float
    text: str
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """One broker as its clients see it; `lasts_seconds` is of its trouble, None when it is well."""

    broker: int
    health: Health
    lasts_seconds: float | None
    errors: tuple[str, ...]
    """In words, of the trouble that lasts."""
    failed: int
    """Messages that failed since the probe began."""
    produce: Latency
    fetch: Latency


@dataclass(slots=True)
class _Outage:
    """Errors of one broker that no calm has ended."""

    since: float
    errors: list[str] = field(default_factory=list)
    sides: set[ClientSide] = field(default_factory=set)
    answered: dict[ClientSide, float] = field(default_factory=dict)
    """When each side first had an answer after the last error of that side."""

    @property
    def answered_at(self) -> float | None:
        """Return when all sides that failed had answers again."""
        if self.sides - self.answered.keys():
            return None
        return max(self.answered[side] for side in self.sides)


@dataclass(slots=True)
class _Broker:
    windows: dict[ClientSide, LatencyWindow] = field(
        default_factory=lambda: {s: LatencyWindow() for s in ClientSide}
    )
    bands: dict[ClientSide, SlowDetector] = field(
        default_factory=lambda: {s: SlowDetector() for s in ClientSide}
    )
    latencies: dict[ClientSide, Latency] = field(
        default_factory=lambda: {s: Latency(0, None, None) for s in ClientSide}
    )
    read: int = -1
    """The newest message that was read."""
    pending: dict[int, float] = field(default_factory=dict)
    """Newer messages that the broker has taken, by number: when."""
    trouble: _Outage | None = None
    slow_since: float | None = None
    failed: int = 0
    heard: set[ClientSide] = field(default_factory=set)
    since: float = float("-inf")
    """What was sent before this belongs to a trouble that is over: it is told by that."""


class HealthDetector:
    """Follows the brokers of one cluster; `denied` says which right is missing."""

    def __init__(self) -> None:
        self._brokers: dict[int, _Broker] = {}
        self._alive: frozenset[int] = frozenset()
        self._events: list[HealthEvent] = []
        self._all_down: float | None = None
        self._is_all_down_reported = False
        self._looked_at = 0.0
        self.denied = ""

    def follow(self, brokers: Collection[int], alive: Collection[int]) -> None:
        """Follow these brokers, of which `alive` are in the cluster; those not named no more."""
        self._alive = frozenset(alive)
        self._brokers = {b: self._brokers.get(b) or _Broker() for b in sorted(brokers)}

    def hear(self, heard: ProbeResult) -> None:
        """Take what came of one message, or an error."""
        if heard.error:
            self._error(heard)
            return
        broker = self._brokers.get(heard.broker) if heard.broker is not None else None
        if broker is None:
            return
        first = heard.side not in broker.heard
        broker.heard.add(heard.side)
        if heard.side is ClientSide.FETCH:
            broker.read = max(broker.read, heard.number)
            broker.pending = {n: at for n, at in broker.pending.items() if n > broker.read}
        elif heard.number > broker.read:
            broker.pending[heard.number] = heard.at
        if broker.trouble is not None:
            broker.trouble.answered.setdefault(heard.side, heard.at)
        elif heard.sent_at >= broker.since and not first:  # the first waited for its connection
            broker.windows[heard.side].add(heard.at, heard.latency_ms)

    def forget_pending(self) -> None:
        """Wait no more for what was taken: it went with its topic, and no broker is to blame."""
        for broker in self._brokers.values():
            broker.pending.clear()

    def look(self, now: float) -> list[HealthEvent]:
        """Look at all brokers, once a second; return what is to be told, oldest first."""
        self._looked_at = now
        for id, broker in self._brokers.items():
            self._check_pending(id, broker, now)
            self._check_recovery(id, broker, now)
            for side in ClientSide:
                broker.latencies[side] = broker.windows[side].wait(now)
                if broker.trouble is None:
                    broker.bands[side].look(now, broker.latencies[side])
            self._check_slow(id, broker, now)
        self._check_all_down(now)
        events, self._events = sorted(self._events, key=lambda event: event.at), []
        return events

    def health(self) -> tuple[BrokerHealth, ...]:
        """Return each broker as it was at the last look."""
        return tuple(self._broker_health(id, broker) for id, broker in self._brokers.items())

    def _error(self, heard: ProbeResult) -> None:
        match error_subject(heard.error):
            case ErrorSubject.RIGHTS:
                self.denied = self.denied or heard.side.value
            case ErrorSubject.CLUSTER:
                self._all_down = self._all_down or heard.at
            case ErrorSubject.BROKER if heard.broker in self._brokers:
                assert heard.broker is not None
                self._fail(heard.broker, heard.at, heard.side, error_text(heard.error))
                self._brokers[heard.broker].failed += heard.number >= 0

    def _fail(self, id: int, at: float, side: ClientSide, error: str) -> None:
        broker = self._brokers[id]
        if broker.trouble is None:
            broker.trouble = _Outage(at)
            for window in broker.windows.values():
                window.clear()
            for band in broker.bands.values():
                band.forget()
        trouble = broker.trouble
        trouble.sides.add(side)
        trouble.answered.pop(side, None)
        if error not in trouble.errors:
            trouble.errors.append(error)
            self._add_event(at, f"broker {id}: {error}", id)

    def _check_pending(self, id: int, broker: _Broker, now: float) -> None:
        """Take what nobody could read in time for a fetch that timed out."""
        late = [n for n, at in broker.pending.items() if at <= now - TIMEOUT_SECONDS]
        for number in late:
            del broker.pending[number]
        if late:
            broker.failed += len(late)
            self._fail(id, now, ClientSide.FETCH, f"fetch {error_text(TIMED_OUT)}")

    def _check_recovery(self, id: int, broker: _Broker, now: float) -> None:
        trouble = broker.trouble
        answered = trouble.answered_at if trouble is not None else None
        if trouble is None or answered is None or now - answered < CALM_SECONDS:
            return
        took = format_duration(answered - trouble.since)
        broker.trouble, broker.since = None, answered
        self._add_event(answered, f"broker {id}: answers again after {took}", id)

    def _check_slow(self, id: int, broker: _Broker, now: float) -> None:
        """Tell once that either side's p99 is far above what is usual, and once that it is not."""
        slow = [side for side in ClientSide if broker.bands[side].slow_since is not None]
        if broker.slow_since is None and slow:
            broker.slow_since = now
            latencies = ", ".join(
                f"{side.value} p99 {format_milliseconds(broker.latencies[side].p99_ms)} "
                f"(usually {format_milliseconds(broker.bands[side].usual_ms)})"
                for side in slow
            )
            self._add_event(now, f"broker {id}: slow, {latencies}", id)
        elif broker.slow_since is not None and not slow:
            took = format_duration(now - broker.slow_since)
            broker.slow_since = None
            if broker.trouble is None:
                self._add_event(now, f"broker {id}: as fast as usual after {took}", id)

    def _check_all_down(self, now: float) -> None:
        """Tell that no broker answers, once each of them is known to fail."""
        if self._all_down is None:
            return
        answered = [b for b in self._brokers.values() if b.trouble is None]
        if self._is_all_down_reported:
            if answered:
                took = format_duration(now - self._all_down)
                self._add_event(now, f"brokers answer again after {took}")
                self._all_down, self._is_all_down_reported = None, False
        elif not answered and self._brokers:
            self._is_all_down_reported = True
            self._add_event(self._all_down, "all brokers down", *self._brokers)
        elif now - self._all_down > TIMEOUT_SECONDS:
            self._all_down = None  # librdkafka says so as well while it knows only one of them

    def _add_event(self, at: float, text: str, *brokers: int) -> None:
        self._events.append(HealthEvent(at, text, brokers))

    def _broker_health(self, id: int, broker: _Broker) -> BrokerHealth:
        trouble = broker.trouble
        if trouble is not None:
            health = Health.FAILING if id in self._alive else Health.DOWN
            since: float | None = trouble.since
        elif broker.slow_since is not None:
            health, since = Health.SLOW, broker.slow_since
        else:
            health, since = Health.FINE if broker.heard else Health.WAITING, None
        return BrokerHealth(
            id,
            health,
            None if since is None else max(0.0, self._looked_at - since),
            tuple(trouble.errors) if trouble is not None else (),
            broker.failed,
            broker.latencies[ClientSide.PRODUCE],
            broker.latencies[ClientSide.FETCH],
        )


def format_milliseconds(value: float | None) -> str:
    """Return a wait in words: `0.8 ms`, `12 ms`, `1.2 s`; `-` for none."""
    if value is None:
        return "-"
    if value >= 999.5:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 9.95 else f"{value:.1f} ms"
