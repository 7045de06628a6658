"""The collector: polls a cluster, measures each interval, writes samples and the live interval."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from core.clock import Clock, sleep_until
from core.cluster.client import ClusterClient, OffsetAt, UnconfirmedError
from core.cluster.groups import GROUPS_HIDDEN, Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import UNKNOWN, TopicPartition
from core.cluster.state import ClusterState, Int64
from core.errors import TrimtabError
from core.load.collector.counted import with_metrics
from core.load.collector.interval import Interval, measure_interval
from core.load.collector.reading import CollectorMemory, Reading
from core.load.collector.sinks import Sink, SpoolSink
from core.load.load import Float64, Source
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.snapshot.manifest import state_broker_loads
from core.load.sources.metrics import BadRecords, MetricsSource
from core.paths import safe_name

SOURCE = "admin"
GROUPS_TOPIC = "__consumer_offsets"
"""The leader of a group's partition of it is its coordinator."""
PROMPT_SECONDS = 1.0
"""What takes longer to ask waits for a broker that is away: the others have answered at once."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one poll gave, for logs and for the command line."""

    poll_id: int
    at: datetime
    rows: int
    with_rates: int
    """Partitions whose incoming bytes are known."""
    segment: Path | None
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """By reason, how many records of a source could not be used."""
    records: int = 0
    """How many records of a topic hold it, where it is not in a segment."""


class Collector:
    """Polls one cluster into a sink, the spool of its load root unless told otherwise.

    Not safe to share among threads. With `metrics`, bytes are those that brokers have counted.
    """

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        root: Path,
        *,
        metrics: MetricsSource | None = None,
        sink: Sink | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._root = root
        self._metrics = metrics
        self._sink: Sink = SpoolSink(root) if sink is None else sink
        self._collector_id = safe_name(socket.gethostname())
        # Epoch (ms) in the upper bits: poll ids of one that starts again are never used twice.
        self._epoch = round(clock.now().timestamp() * 1000)
        self._seq = 0
        self._memory: CollectorMemory | None = None

    def poll(self) -> PollResult:
        """Ask the cluster once and write what was learned.

        Raises UnreachableError or AccessDeniedError when nothing could be learned, TrimtabError
        when it could not be written: the next interval then begins where this one did. After an
        UnconfirmedError it does not: what may have been written must not count twice.
        """
        reading = self.read()
        interval = measure_interval(reading, self._memory)
        if self._metrics is not None:
            interval = with_metrics(interval, self._metrics.fetch(reading.state))
        try:
            polled = self._write(interval)
        except UnconfirmedError:
            self._memory = interval.memory
            raise
        except OSError as error:
            raise TrimtabError(
                f"Samples cannot be written: {error.strerror}.",
                detail=str(error.filename or self._root),
                next="Make room there, or give this user the right to write.",
            ) from error
        self._memory = interval.memory
        return polled

    def _write(self, interval: Interval) -> PollResult:
        from core.load.snapshot.writer import write_live
        from core.load.spool import quarantine_records

        reading = interval.reading
        self._seq += 1
        poll_id = (self._epoch << 20) | self._seq
        state = reading.state
        name = f"{self._collector_id}-{self._epoch}-{self._seq:08d}"
        source = SOURCE if self._metrics is None else self._metrics.name
        written = self._sink.write(
            state.cluster_id,
            name,
            sample_columns(interval, self._collector_id, poll_id, source),
            reading.at,
        )
        bad = BadRecords() if self._metrics is None else self._metrics.take_bad_records()
        if bad.first:
            quarantine_records(self._root, state.cluster_id, name, bad)
        if not np.isnan(interval.dt_seconds).all():
            write_live(self._root, live_snapshot(interval, poll_id, self._clock.now()))
        known = int((~np.isnan(interval.in_bytes)).sum())
        return PollResult(
            *(poll_id, reading.at, state.replica_count, known, written.segment),
            bad.counts,
            written.records,
        )

    def read(self) -> Reading:
        """Return one reading of the cluster."""
        client = self._client
        state = client.describe_cluster()
        keys = [state.tp(i) for i in range(state.partition_count)]
        wall, began = self._clock.now(), self._clock.monotonic()
        end = client.fetch_offsets(keys, OffsetAt.LATEST)
        answered = self._estimate_answer_time(began)
        began_sizes = self._clock.monotonic()
        answers = client.describe_log_dirs([broker.id for broker in state.brokers if broker.alive])
        sized = self._estimate_answer_time(began_sizes)
        start = client.fetch_offsets(keys, OffsetAt.EARLIEST)
        silent = {answer.broker for answer in answers if answer.error is not None}
        silent |= {broker.id for broker in state.brokers if not broker.alive}
        lost: list[Fault] = []
        try:
            groups = client.describe_groups(lost=lost.append)
        except TrimtabError as error:  # without the right to ask, all groups are missing
            lost.append(Fault("UNKNOWN", error.title))
            groups = ()
        # A group that has no coordinator is listed by nobody.
        coordinated = state.partitions_of(GROUPS_TOPIC)
        described = [g for g in groups if not g.has_unknown_reads]
        return Reading(
            state=with_log_dirs(state, answers),
            at=wall + timedelta(seconds=answered - began),
            monotonic=answered,
            sized=sized,
            # A listing that waits for a broker does so before any commit is asked for.
            committed_at=self._clock.monotonic(),
            end=_offsets(keys, end),
            start=_offsets(keys, start),
            committed={g.id: _committed_offsets(state, g) for g in described},
            silent=frozenset(silent),
            unattended=frozenset(g.id for g in described if not g.members),
            untold=frozenset(g.id for g in groups) - {g.id for g in described},
            hidden=GROUPS_HIDDEN in lost,
            listed=all(fault == GROUPS_HIDDEN for fault in lost)
            and bool((state.leader[coordinated.start : coordinated.stop] >= 0).all()),
        )

    def _estimate_answer_time(self, began: float) -> float:
        """Return when brokers that are well have answered what was asked from `began` to now."""
        seconds = self._clock.monotonic() - began
        return began + (seconds / 2 if seconds <= PROMPT_SECONDS else 0.0)


def _committed_offsets(state: ClusterState, group: Group) -> Int64:
    offsets = np.full(state.partition_count, UNKNOWN, np.int64)
    for tp, offset in group.committed.items():
        if (row := state.find(tp)) is not None:
            offsets[row] = offset
    return offsets


def _offsets(keys: Sequence[TopicPartition], offsets: Mapping[TopicPartition, int]) -> Int64:
    return np.fromiter((offsets.get(key, UNKNOWN) for key in keys), np.int64, len(keys))


def sample_columns(
    interval: Interval, collector_id: str, poll_id: int, source: str = SOURCE
) -> dict[str, Any]:
    """Return one poll's rows as Arrow arrays by column of `core.load.samples.COLUMNS`."""
    import pyarrow as pa

    from core.load import arrow as columns

    reading = interval.reading
    state = reading.state
    rows = state.replica_count
    of = state.partition_of_replica
    leads = state.is_leader
    topics = [topic.name for topic in state.topics]
    # A cluster that tells no topic ids is one where topics are their names.
    ids = [topic.id or topic.name for topic in state.topics]
    topic_of = state.topic_of[of]

    def constant(value: str) -> Any:
        return columns.dictionary_array(np.zeros(rows, np.int32), [value])

    def of_leader(column: Any, kind: Any, known: Any) -> Any:
        return columns.number_array(column[of], kind, leads & known[of])

    def whole(column: Int64) -> Any:
        return of_leader(column, pa.int64(), column >= 0)

    def real(column: Float64) -> Any:
        return of_leader(column, pa.float64(), ~np.isnan(column))

    dt = interval.dt_seconds
    dt_ms = np.where(np.isnan(dt), 0, np.round(dt * 1000))
    epoch = state.leader_epoch
    at = np.full(rows, round(reading.at.timestamp() * 1e6), np.int64)
    # A follower's row has the interval of its size, which is the poll's own.
    return {
        "cluster_id": constant(state.cluster_id),
        "topic": columns.dictionary_array(topic_of, topics),
        "topic_id": columns.dictionary_array(topic_of, ids),
        "partition": columns.number_array(state.partition[of], pa.int32()),
        "broker_id": columns.number_array(state.replica_broker, pa.int32()),
        "is_leader": columns.boolean_array(leads),
        "leader_epoch": columns.number_array(epoch[of], pa.int32(), epoch[of] >= 0),
        "ts": columns.number_array(at, pa.timestamp("us", "UTC")),
        "dt_ms": of_leader(dt_ms, pa.int32(), ~np.isnan(dt)),
        "end_offset": whole(reading.end),
        "start_offset": whole(reading.start),
        "offset_delta": whole(interval.messages),
        "size_delta": columns.number_array(
            interval.size_delta, pa.int64(), interval.size_delta_known
        ),
        "size_bytes": columns.number_array(state.size_bytes, pa.int64(), state.size_bytes >= 0),
        "in_bytes": real(interval.in_bytes),
        "out_bytes": real(interval.out_bytes),
        "in_method": columns.number_array(np.where(leads, interval.in_method[of], 0), pa.int8()),
        "out_method": columns.number_array(np.where(leads, interval.out_method[of], 0), pa.int8()),
        "replica_lag": columns.number_array(state.lag, pa.int64(), state.lag >= 0),
        "group_lag": whole(interval.group_lag),
        "log_dir": columns.dictionary_array(
            state.log_dir, state.log_dir_paths or [""], state.log_dir >= 0
        ),
        "source": constant(source),
        "collector_id": constant(collector_id),
        "poll_id": columns.number_array(np.full(rows, poll_id), pa.int64()),
        "flags": columns.number_array(interval.replica_flags, pa.int32()),
    }


def live_snapshot(interval: Interval, poll_id: int, now: datetime) -> LoadSnapshot:
    """Return the last interval as a snapshot of source `live`, with 5-minute averages only."""
    reading = interval.reading
    state, dt = reading.state, interval.dt_seconds
    messages = np.where(interval.messages >= 0, interval.messages, np.nan)
    rates = {
        ("5m", "in_bytes_per_s", "avg"): interval.in_bytes / dt,
        ("5m", "out_bytes_per_s", "avg"): interval.out_bytes / dt,
        ("5m", "messages_per_s", "avg"): messages / dt,
    }
    known = ~np.isnan(dt)
    return LoadSnapshot(
        cluster_id=state.cluster_id,
        snapshot_id=f"live-{poll_id}",
        source=Source.LIVE,
        published_at=now,
        window_end=reading.at,
        topics=tuple(topic.name for topic in state.topics),
        topic_of=state.topic_of,
        partition=state.partition,
        rates=rates,
        size_bytes=state.partition_size_bytes,
        growth_bytes_per_s=np.full(state.partition_count, np.nan),
        quality=np.where(known, int(Quality.SINGLE), int(Quality.NONE)).astype(np.int8),
        method=interval.in_method,
        brokers=state_broker_loads(
            state, rates["5m", "in_bytes_per_s", "avg"], rates["5m", "out_bytes_per_s", "avg"]
        ),
        metadata_hash=state.metadata_hash,
        leader=state.leader,
    )


def collect(
    collector: Collector,
    clock: Clock,
    *,
    interval_seconds: float,
    first_seconds: float | None = None,
    keep_on: Callable[[], bool],
    report: Callable[[PollResult | TrimtabError], None],
) -> None:
    """Poll each `interval_seconds` until `keep_on` says no; an unreachable cluster is retried.

    The first interval is `first_seconds`, so that first rates come sooner. Poll times keep to a
    grid, so that a slow poll does not shift all later ones.
    """
    due = clock.monotonic()
    interval = first_seconds or interval_seconds
    while keep_on():
        try:
            report(collector.poll())
        except TrimtabError as error:
            report(error)
        due = max(due + interval, clock.monotonic())
        interval = interval_seconds
        sleep_until(clock, due, keep_on)
