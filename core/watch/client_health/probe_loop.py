"""The probe: its topic, and the loop that sends at a steady rate and reports each second."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from core import files
from core.clock import Clock
from core.cluster.client import ClusterClient, NewPartitions, NewTopic
from core.cluster.connect import Connection
from core.cluster.kafka_errors import Fault
from core.cluster.probe.produce_latency import TOPIC_CONFIGS
from core.cluster.probe.round_trip import ProbeLayout, RoundTripProbe
from core.cluster.state import ClusterState
from core.cluster.topics import PROBE_TOPIC
from core.errors import AccessDeniedError, IncompleteError, TrimtabError, rights_advice
from core.load import load_paths
from core.run.audited_client import audited
from core.units import counted, format_rate
from core.watch.client_health.health_detector import HealthDetector
from core.watch.client_health.report import ClientEvent, ProbeReport, report_to_json
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.publisher import Publisher

TOPIC: Final = PROBE_TOPIC
RATE: Final = 4
"""Messages a second to each broker: some 120 in a window, so that its p99 is one of them."""
WIRE_BYTES: Final = 350
"""What a message costs on the wire to be produced, and again to be fetched, headers included."""


def partitions_by_broker(partitions: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """Return each broker's partition: the lowest that lies on it alone, moved there by whomever."""
    own_partitions: dict[int, int] = {}
    for number, replicas in sorted(partitions.items()):
        if len(replicas) == 1:
            own_partitions.setdefault(replicas[0], number)
    return own_partitions


def missing_partitions(
    brokers: Collection[int], partitions: Mapping[int, tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of the partitions that these brokers lack."""
    return tuple(
        (broker,) for broker in sorted(set(brokers) - partitions_by_broker(partitions).keys())
    )


def probe_cost(brokers: int) -> tuple[int, int]:
    """Return messages and bytes a second that probing so many brokers costs in all."""
    return RATE * brokers, 2 * WIRE_BYTES * RATE * brokers


SETTLE_SECONDS = 10.0
_TAKES = {"made": "CREATE", "deleted": "DELETE"}
_DENIED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


def describe_probe(state: ClusterState) -> str:
    """Say in words what probing this cluster does, and what it costs."""
    brokers = len(state.alive_ids)
    messages, rate = probe_cost(brokers)
    creation = (
        f", which is made for it: {counted(brokers, 'partition')}, one on each broker, one "
        "replica, at most some MB each, kept a minute; a new broker gets one, too"
    )
    creation = creation if state.topic(TOPIC) is None else ""
    return (
        f"The probe writes {RATE} small messages a second to each of {brokers} brokers and reads "
        f"them back: {messages} messages/s, about {format_rate(rate)} of network in all.\n"
        f"They go to a topic of its own, {TOPIC}{creation}.\n"
        "Nothing else is touched. `trimtab probe --remove` deletes the topic."
    )


def create_probe_topic(client: ClusterClient, state: ClusterState, clock: Clock) -> None:
    """Make the topic if it is not there, audited, and return once it is known.

    Raises AccessDeniedError, TrimtabError when the cluster refuses.
    """
    if state.topic(TOPIC) is not None:
        return
    layout = tuple((broker,) for broker in state.alive_ids)
    answers = audited(client, state.cluster_id, None).create_topics(
        [NewTopic(TOPIC, layout, dict(TOPIC_CONFIGS))]
    )
    fault = answers.get(TOPIC)
    if fault is not None and fault.name != "TOPIC_ALREADY_EXISTS":
        raise _refusal(fault, "made")
    deadline = clock.monotonic() + SETTLE_SECONDS
    while client.describe_cluster().topic(TOPIC) is None and clock.monotonic() < deadline:
        clock.sleep(0.1)


def delete_probe_topic(client: ClusterClient, state: ClusterState) -> bool:
    """Delete the topic, audited; False when it is not there.

    Raises AccessDeniedError, TrimtabError when the cluster refuses.
    """
    if state.topic(TOPIC) is None:
        return False
    fault = audited(client, state.cluster_id, None).delete_topics([TOPIC]).get(TOPIC)
    if fault is not None and fault.name != "UNKNOWN_TOPIC_OR_PARTITION":
        raise _refusal(fault, "deleted")
    return True


def _refusal(fault: Fault, what: str) -> TrimtabError:
    if fault.name in _DENIED:
        return AccessDeniedError(
            f"The probe's topic {TOPIC} was not {what}: this user may not.",
            next=rights_advice(f"{_TAKES[what]} on it"),
        )
    return TrimtabError(f"The probe's topic {TOPIC} was not {what}: {fault}.")


POLL_SECONDS = 2.0
MIN_RETRY_POLLS, MAX_RETRY_POLLS = 2, 30
"""After so many looks what was not done is tried again: twice as many each time, up to a minute."""


class LayoutFollower:
    """Looks until `close`; `changer` is used by this thread alone."""

    def __init__(
        self, layout_source: RoundTripProbe, changer: ClusterClient, say: Callable[[str], None]
    ) -> None:
        self._layout_source, self._extender = layout_source, PartitionAdder(changer, say)
        self._layouts: SimpleQueue[ProbeLayout] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="clients-follow", daemon=True)
        self._thread.start()

    def layout(self) -> ProbeLayout | None:
        """Return the layout that was seen last, once; None until there is another."""
        layout = None
        while not self._layouts.empty():
            layout = self._layouts.get()
        return layout

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * POLL_SECONDS)

    def _follow(self) -> None:
        from confluent_kafka import KafkaException

        while not self._stop.is_set():
            try:
                layout = self._layout_source.fetch_layout()
            except KafkaException:
                pass  # clients hear of it, too, and tell it
            else:
                self._layouts.put(layout)
                self._extender.extend(layout)
            self._stop.wait(POLL_SECONDS)


class PartitionAdder:
    """Gives each broker that lacks one a partition, and says once what is in the way."""

    def __init__(self, changer: ClusterClient, say: Callable[[str], None]) -> None:
        self._changer, self._say = changer, say
        self._refused: set[int] = set()
        self._last_message = ""
        self._pause, self._left = 0, 0
        """In looks: between the last try and the next, and what is left of it."""

    def extend(self, layout: ProbeLayout) -> None:
        """Try it unless the last try was a moment ago; each is an entry in the audit."""
        if layout.partitions is None:
            return
        lacking = missing_partitions(layout.brokers - self._refused, layout.partitions)
        if not lacking:
            self._last_message, self._pause, self._left = "", 0, 0
            return
        if self._left > 0:
            self._left -= 1
            return
        self._pause = min(2 * self._pause or MIN_RETRY_POLLS, MAX_RETRY_POLLS)
        self._left = self._pause - 1
        text = self._tried(NewPartitions(len(layout.partitions) + len(lacking), lacking))
        if text and text != self._last_message:
            self._say(text)
            self._last_message = text

    def _tried(self, more: NewPartitions) -> str:
        """Return what was in the way; "" for nothing."""
        try:
            fault = self._changer.add_partitions({TOPIC: more}).get(TOPIC)
        except TrimtabError as error:
            return f"No partition for new brokers yet: {error.title}"
        if fault is None or fault.name == "INVALID_PARTITIONS":  # it had not heard of the last
            return ""
        if fault.is_denial or fault.name == "POLICY_VIOLATION":
            self._refused |= {replicas[0] for replicas in more.replicas}
            return f"New brokers are not probed: {fault}."
        return f"No partition for new brokers yet: {fault}."


REPORT_SECONDS = 1.0
ABSENT_SECONDS = 10.0
"""For how long a topic may seem to be gone: a broker that has just begun knows of none."""
_MIN_WAIT_SECONDS = 0.001
_MAX_BEHIND_SECONDS = 1.0
"""What was not sent for longer than this (the machine slept) stays unsent."""


class ProbeLoop:
    """One probe of one cluster, for one thread; `layout` tells how its topic lies, if it is new."""

    def __init__(
        self,
        pings: RoundTripProbe,
        layout: Callable[[], ProbeLayout | None],
        cluster_id: str,
        clock: Clock,
    ) -> None:
        self._pings, self._layout = pings, layout
        self._cluster_id, self._clock = cluster_id, clock
        self._detector = HealthDetector()
        self._order: list[int] = []
        self._absent_since: float | None = None
        self._sent = 0
        self._next_send = self._next_report = clock.monotonic()

    def run(self, keep_on: Callable[[], bool], report: Callable[[ProbeReport], None]) -> None:
        """Probe until `keep_on` says no, reporting once a second.

        Raises IncompleteError when the topic is deleted, AccessDeniedError when rights are missing.
        """
        while keep_on():
            self._follow()
            now = self._clock.monotonic()
            if now - self._next_send > _MAX_BEHIND_SECONDS:
                self._next_send = now
            while self._order and self._next_send <= now:
                self._pings.send(self._order[self._sent % len(self._order)])
                self._sent += 1
                self._next_send += 1 / (RATE * len(self._order))
            due = min(self._next_send if self._order else now + REPORT_SECONDS, self._next_report)
            for heard in self._pings.poll_results(max(_MIN_WAIT_SECONDS, due - now)):
                self._detector.hear(heard)
            now = self._clock.monotonic()
            if now >= self._next_report:
                self._next_report = max(self._next_report + REPORT_SECONDS, now)
                at = self._clock.now()
                events = tuple(
                    ClientEvent(at - timedelta(seconds=now - event.at), event.text, event.brokers)
                    for event in self._detector.look(now)
                )
                report(ProbeReport(at, self._cluster_id, self._detector.health(), events))
                if self._detector.denied:
                    verb = "read" if self._detector.denied == "fetch" else "write to"
                    raise AccessDeniedError(
                        f"The probe may not {verb} its topic.",
                        next="It needs the rights to describe, write to and read that topic.",
                    )

    def _follow(self) -> None:
        layout = self._layout()
        if layout is None:
            return
        now = self._clock.monotonic()
        if layout.partitions is None:
            self._detector.forget_pending()
            if self._absent_since is None:
                self._absent_since = now
            if now - self._absent_since < ABSENT_SECONDS:
                return
            raise IncompleteError(
                "The topic of the probe is gone: somebody has deleted it.",
                next="Begin again: trimtab probe makes it anew.",
            )
        self._absent_since = None
        partitions = partitions_by_broker(layout.partitions)
        self._detector.follow(partitions.keys() | layout.brokers, layout.brokers)
        self._order = sorted(partitions)
        self._pings.set_partitions(partitions)


PUBLISHER = "probe"
"""Who the timeline names."""


class ReportWriter:
    """Keeps reports: what happened on the timeline, the last one in the file `place`.

    What cannot be kept ends no probe: it is said once, and tried again with the next report.
    """

    def __init__(self, publisher: Publisher, place: Path, say: Callable[[str], None]) -> None:
        self._publisher, self._place, self._say = publisher, place, say
        self._failed = False

    def take(self, report: ProbeReport) -> None:
        notes = ((event.at, Note(PUBLISHER, event.text, event.brokers)) for event in report.events)
        self._publisher.publish_all([Event(at, Kind.CLIENT, None, note) for at, note in notes])
        try:
            files.write_text(self._place, json.dumps(report_to_json(report)), durable=False)
        except OSError as error:
            if not self._failed:
                why = error.strerror or str(error)
                self._say(f"No dashboard can show this: {self._place} cannot be written: {why}.")
            self._failed = True
        else:
            self._failed = False


def run_probe(
    connection: Connection,
    root: Path,
    *,
    keep_on: Callable[[], bool],
    on_report: Callable[[ProbeReport], None],
    say: Callable[[str], None],
) -> None:
    """Probe until `keep_on` says no; for whoever holds the cluster's lease in this role.

    What happens goes on the timeline; the last report is a file below `root`, which `on_report`
    beside it gets each second. Raises UnreachableError, AccessDeniedError, IncompleteError.
    """
    state = connection.client.describe_cluster()
    create_probe_topic(connection.client, state, connection.clock)
    place = load_paths.clients(root, state.cluster_id)
    pinger = RoundTripProbe(connection.address, TOPIC)
    follower = LayoutFollower(pinger, audited(connection.client, state.cluster_id, None), say)
    with Publisher(state.cluster_id) as publisher:
        kept = ReportWriter(publisher, place, say)

        def report(probe_report: ProbeReport) -> None:
            kept.take(probe_report)
            on_report(probe_report)

        try:
            ProbeLoop(pinger, follower.layout, state.cluster_id, connection.clock).run(
                keep_on, report
            )
        finally:
            follower.close()
            pinger.close()
            place.unlink(missing_ok=True)
