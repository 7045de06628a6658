"""Topics, producers and consumers of a workload; as a process it is `trimtab sandbox load`."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from core.cluster.client import NewTopic
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.workload_spec import (
    GroupLoad,
    LoadOverrides,
    TopicLoad,
    Workload,
    overrides_lease,
    overrides_path,
    read_overrides,
    skewed_workload,
)
from core.cluster.topics import has_leaders
from core.daemons.lease import hold_lease
from core.daemons.process import set_on_signals
from core.errors import TrimtabError

_TICK_SECONDS = 0.1
_STALL_SECONDS = 5.0
_LEADERS_SECONDS = 30.0
_RETRY_SECONDS = 0.05


def create_topics(
    settings: ConnectionSettings,
    layouts: Mapping[str, Sequence[Sequence[int]]],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create topics that are not there, and wait until they have leaders; raises TrimtabError."""
    topics = [
        NewTopic(name, tuple(tuple(replicas) for replicas in layout), configs or {})
        for name, layout in layouts.items()
    ]
    with closing(KafkaClient(settings)) as client:
        for name, fault in client.create_topics(topics).items():
            if fault is not None and fault.name != "TOPIC_ALREADY_EXISTS":
                raise TrimtabError(f"Topic {name} cannot be created: {fault}")
        deadline = time.monotonic() + _LEADERS_SECONDS
        while True:
            state = client.describe_cluster()
            if all(has_leaders(state, name, len(layout)) for name, layout in layouts.items()):
                return
            if time.monotonic() > deadline:
                raise unreachable(
                    None, f"{settings.bootstrap}: the new topics have no leaders yet."
                )
            time.sleep(_RETRY_SECONDS)


def _create_producer(settings: ConnectionSettings) -> Any:
    from confluent_kafka import Producer

    config = settings.librdkafka_config()
    return Producer({**config, "queue.buffering.max.kbytes": 65_536, "linger.ms": 50, "acks": "1"})


def _produce(
    producer: Any,
    tp: TopicPartition,
    payload: bytes,
    stop: threading.Event,
) -> None:
    """Produce one message once there is room; raises KafkaException for no such partition."""
    while not stop.is_set():
        try:
            producer.produce(tp.topic, payload, partition=tp.partition)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def run_workload(
    settings: ConnectionSettings,
    workload: Workload,
    stop: threading.Event,
    overrides: Path | None = None,
) -> None:
    """Create the topics, produce and consume until `stop`; one workload follows `overrides`."""
    create_topics(settings, {topic.name: topic.replicas for topic in workload.topics})
    with ExitStack() as held:
        ours = overrides is not None and held.enter_context(hold_lease(overrides_lease(overrides)))
        consumers = ConsumerPool(settings, workload.groups)
        try:
            followed = overrides if ours else None
            _produce_until_stopped(settings, workload.topics, stop, followed, consumers)
        finally:
            consumers.stop()


class ConsumerPool:
    """The consumers: each a thread that leaves its group in order when it is told to."""

    def __init__(self, settings: ConnectionSettings, groups: Sequence[GroupLoad]) -> None:
        self._settings, self._groups = settings, groups
        self._members: dict[str, list[tuple[threading.Thread, threading.Event]]] = {}

    def resize(self, overrides: LoadOverrides) -> None:
        """Have as many members in each group as it has by itself, and as are wanted beside."""
        for group in self._groups:
            members = self._members.setdefault(group.id, [])
            while len(members) > group.members + overrides.more.get(group.id, 0):
                members.pop()[1].set()
            while len(members) < group.members + overrides.more.get(group.id, 0):
                stop = threading.Event()
                name = f"{group.id}-{len(members) + 1}"
                given = (self._settings, group.id, group.topics, stop, name)
                thread = threading.Thread(target=consume, args=given, daemon=True)
                thread.start()
                members.append((thread, stop))

    def stop(self) -> None:
        """Have all of them leave, and wait for it."""
        members = [member for group in self._members.values() for member in group]
        for _, stop in members:
            stop.set()
        for thread, _ in members:
            thread.join(10)


def _produce_until_stopped(
    settings: ConnectionSettings,
    topics: Sequence[TopicLoad],
    stop: threading.Event,
    followed: Path | None,
    consumers: ConsumerPool,
) -> None:
    from confluent_kafka import KafkaException

    producer = _create_producer(settings)
    payloads = {t.name: random.Random(t.name).randbytes(t.message_bytes) for t in topics}
    streams = [
        (TopicPartition(topic.name, p), payloads[topic.name], rate / topic.message_bytes)
        for topic in topics
        for p, rate in enumerate(topic.bytes_per_s)
    ]
    owed = [0.0] * len(streams)
    current = LoadOverrides()
    consumers.resize(current)
    times = [1.0] * len(streams)
    gone: set[TopicPartition] = set()
    last = time.monotonic()
    while not stop.wait(_TICK_SECONDS):
        if followed is not None and (overrides := read_overrides(followed)) != current:
            current = overrides
            consumers.resize(current)
            times = [current.times(tp) for tp, _, _ in streams]
        now = time.monotonic()
        # After a stall (a broker was away, the machine slept) what was missed stays missed.
        passed = now - last if now - last < _STALL_SECONDS else 0.0
        last = now
        for i, (tp, payload, messages_per_s) in enumerate(streams):
            if tp in gone:
                continue
            owed[i] += passed * messages_per_s * times[i]
            try:
                for _ in range(int(owed[i])):
                    _produce(producer, tp, payload, stop)
            except KafkaException as error:  # somebody has deleted it
                if tp.topic not in {partition.topic for partition in gone}:
                    why = error.args[0].str()
                    print(f"What is gone of topic {tp.topic} is left out: {why}.", file=sys.stderr)
                gone.add(tp)
            owed[i] %= 1
        producer.poll(0)
    producer.flush(5)


def consume(
    settings: ConnectionSettings,
    group: str,
    topics: Sequence[str],
    stop: threading.Event,
    client_id: str = "rdkafka",
) -> None:
    """Read topics as one member of a group until `stop` is set, committing what was read."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            **settings.librdkafka_config(),
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "fetch.wait.max.ms": 200,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe(list(topics))
    try:
        while not stop.is_set():
            consumer.consume(num_messages=1000, timeout=0.5)
    finally:
        consumer.close()


def main(arguments: Sequence[str]) -> int:
    """`python -P -m core.cluster.sandbox.workload BOOTSTRAP BROKERS RATE [MARK [CONFIG]]`."""
    bootstrap, brokers, bytes_per_s = arguments[:3]
    overrides = overrides_path(Path(arguments[3])) if len(arguments) > 3 else None
    command_config = Path(arguments[4]) if len(arguments) > 4 else None
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGTERM, signal.SIGINT))
    workload = skewed_workload(
        [int(id) for id in brokers.split(",")], bytes_per_s=float(bytes_per_s)
    )
    try:
        settings = ConnectionSettings.load(bootstrap, command_config)
        run_workload(settings, workload, stop, overrides)
    except TrimtabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
