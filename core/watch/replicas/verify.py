"""Reads every replica of some partitions and compares them, in rounds, within bounds.

Only what was read again and is the same now is taken back.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.clock import Clock
from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.configs import Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UnreachableError
from core.units import name_list
from core.watch.replicas.compare import (
    MAX_DIFFERENCES,
    Comparison,
    Difference,
    DifferenceKind,
    Verification,
    compare,
)
from core.watch.replicas.record_batches import OldFormatError

CORRUPT = "CORRUPT_MESSAGE"
_PIECE_BYTES = 16 << 10
"""Brokers give the first batch whole whatever its size, and that is the one that differed."""


def recheck_differences(
    client: ClusterClient, state: ClusterState, works: Iterable[Comparison]
) -> list[str]:
    """Take back what differs no more; return notes on what was not read a second time, and why."""
    suspects = [work for work in works if work.differences]
    if not suspects:
        return []
    try:
        now = client.describe_cluster()
    except (AccessDeniedError, UnreachableError) as error:
        return [_recheck_note([work.tp for work in suspects], error.title.rstrip("."))]
    denied: dict[str, list[TopicPartition]] = {}
    for work in suspects:
        before, after = state.topic(work.tp.topic), now.topic(work.tp.topic)
        if after is None or (before is not None and before.id != after.id):
            work.differences, work.different = [], 0
            work.leave(None, "the topic was deleted meanwhile")
        elif why := _drop_resolved(client, work):
            denied.setdefault(why, []).append(work.tp)
    return [_recheck_note(tps, why) for why, tps in denied.items()]


def _recheck_note(tps: list[TopicPartition], why: str) -> str:
    return (
        f"What differs in {name_list(tps)} was not read a second time ({why}): verify "
        "again to see whether it still does."
    )


def _drop_resolved(client: ClusterClient, work: Comparison) -> str:
    """Drop a partition's differences that are no more; returns why some were not read, or ""."""
    for suspect in tuple(work.differences):
        try:
            if not _still_differs(client, work, suspect):
                work.differences.remove(suspect)
                work.different -= 1
        except _RecheckError as error:
            return str(error)
    if not work.different:
        work.leave(None, "what differed is the same now: try again")
    elif not work.differences:
        return f"the first {MAX_DIFFERENCES} are the same now"
    return ""


class _RecheckError(Exception):
    """A broker that did not give its replica again, and its reason."""


def _still_differs(client: ClusterClient, work: Comparison, suspect: Difference) -> bool:
    """Return whether it is still so; raises _RecheckError when not all of its brokers tell."""
    brokers = sorted({*suspect.brokers, *suspect.intact})
    answers = client.fetch_records({b: {work.tp: suspect.first} for b in brokers}, _PIECE_BYTES)
    faults = {b: answer for (_, b), answer in answers.items() if isinstance(answer, Fault)}
    if any(fault.name == CORRUPT for fault in faults.values()):
        return True
    if faults:
        broker, fault = min(faults.items(), key=lambda entry: entry[0])
        raise _RecheckError(f"broker {broker}: {fault}")
    read = {b: answer for (_, b), answer in answers.items() if not isinstance(answer, Fault)}
    bodies = {broker: answer.records for broker, answer in read.items()}
    ended = {broker: answer.high_watermark for broker, answer in read.items() if not answer.records}
    try:
        recheck = compare(suspect.first, bodies, ended, compacted=work.compacted)
    except OldFormatError:
        return True
    there = (d for d in recheck.differences if d.first <= suspect.last and suspect.first <= d.last)
    return bool(recheck.unreadable or recheck.short or next(there, None))


PIECE_BYTES = 1 << 20
MAX_PARTITIONS = 16
"""Partitions in a round; with three replicas of each it holds 48 MiB."""
_MIN_BYTES = 16 << 10
_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"

OnProgress = Callable[[float, int], None]


@dataclass(frozen=True, slots=True)
class VerifyLimits:
    """How long it may take, and how many bytes it may read from all replicas together."""

    seconds: float
    max_bytes: int


class Verifier:
    """One verification of a cluster's partitions; `run` does it once."""

    def __init__(
        self,
        client: ClusterClient,
        state: ClusterState,
        rows: Iterable[int],
        bounds: VerifyLimits,
        clock: Clock,
        report: OnProgress = lambda share, read: None,
    ) -> None:
        self._client, self._state, self._clock, self._report = client, state, clock, report
        self._bounds = bounds
        self._began = clock.monotonic()
        self._read_bytes = 0
        self._notes: list[str] = []
        self._work = {(row := state.row(i)).tp: Comparison(row, False) for i in rows}

    def run(self) -> Verification:
        """Verify all; raises AccessDeniedError and UnreachableError only when nothing is known."""
        self._fetch_compaction()
        self._begin()
        ended = self._rounds()
        self._notes += recheck_differences(self._client, self._state, self._work.values())
        return Verification(
            tuple(work.verdict() for work in self._work.values()),
            self._read_bytes,
            self._clock.monotonic() - self._began,
            ended,
            tuple(self._notes),
        )

    def _fetch_compaction(self) -> None:
        """Find out which topics are compacted; where that is not told, they may be."""
        names = sorted({tp.topic for tp in self._work})
        resources = [Resource.topic(name) for name in names]
        try:
            answers = self._client.describe_configs(resources, ["cleanup.policy"])
        except (AccessDeniedError, UnreachableError) as error:
            answers = dict.fromkeys(resources, Fault("UNKNOWN", error.title))
        unknown = []
        for work in self._work.values():
            answer = answers[Resource.topic(work.tp.topic)]
            value = None if isinstance(answer, Fault) else answer.get("cleanup.policy")
            if value is None or value.value is None:
                unknown.append(work.tp.topic)
                work.compacted = True
            else:
                work.compacted = "compact" in value.value
        if unknown:
            topics = ", ".join(sorted(set(unknown))[:3]) + (", …" if len(set(unknown)) > 3 else "")
            self._notes.append(
                f"Whether {topics} is compacted is not known: offsets that a replica lacks are "
                "no difference there."
            )

    def _begin(self) -> None:
        """Learn where replicas begin and end, and from where on they can be compared."""
        for work in self._work.values():
            work.part = set(work.row.replicas)
            for broker in work.row.replicas:
                if broker not in self._state.alive_ids:
                    work.leave(broker, "it is down")
        self._fetch_lags()
        parts = self._parts(self._work.values())
        starts = self._client.fetch_replica_offsets(parts, OffsetAt.EARLIEST)
        for work in self._work.values():
            for broker in sorted(work.part):
                answer = starts[work.tp, broker]
                if isinstance(answer, Fault):
                    work.leave(broker, str(answer))
                else:
                    work.at = max(work.at, answer)
            if len(work.part) > 1:
                work.start = work.at
            elif len(work.row.replicas) > 1:
                work.leave(None, "fewer than two replicas can be read")

    def _fetch_lags(self) -> None:
        """Ask leaders first: what a follower then lacks, it lacks."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for work in self._work.values():
            if work.row.leader in work.part:
                by_leader.setdefault(work.row.leader, []).append(work.tp)
        ends = self._client.fetch_replica_offsets(by_leader, OffsetAt.LATEST) if by_leader else {}
        parts = self._parts(work for work in self._work.values() if work.row.leader in work.part)
        held = self._client.fetch_replica_offsets(parts, OffsetAt.LATEST) if parts else {}
        for (tp, broker), end in held.items():
            leads = ends.get((tp, self._work[tp].row.leader))
            if isinstance(end, int) and isinstance(leads, int):
                self._work[tp].lags[broker] = max(0, leads - end)

    def _parts(self, works: Iterable[Comparison]) -> dict[int, list[TopicPartition]]:
        parts: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for work in works:
            for broker in work.part:
                parts[broker].append(work.tp)
        return parts

    def _rounds(self) -> str:
        """Compare until all is done or a bound is met; returns which."""
        waiting = deque(work for work in self._work.values() if work.open)
        ended = ""
        while waiting:
            if self._clock.monotonic() - self._began >= self._bounds.seconds:
                ended = "the time was up"
            elif self._left() <= 0:
                ended = "so many bytes were read"
            if ended:
                break
            taken = [waiting.popleft() for _ in range(min(MAX_PARTITIONS, len(waiting)))]
            hurried = self._round(taken)
            waiting.extend(work for work in taken if work.open and work not in hurried)
            waiting.extendleft(reversed([work for work in hurried if work.open]))
            # How much of all offsets is behind us, 0 to 1.
            done = sum(work.at - (work.start or 0) for work in self._work.values())
            left = sum((work.end or 0) - work.at for work in self._work.values() if work.open)
            self._report(done / (done + left) if done + left else 1.0, self._read_bytes)
        for work in waiting:
            work.leave(None, ended)
        return ended if waiting else ""

    def _left(self) -> int:
        return self._bounds.max_bytes - self._read_bytes

    def _round(self, taken: Sequence[Comparison]) -> list[Comparison]:
        """Compare a piece of each; returns those that need to be asked first the next time."""
        fetches: dict[int, dict[TopicPartition, int]] = {}
        for work in taken:
            for broker in work.part:
                fetches.setdefault(broker, {})[work.tp] = work.at
        replicas = sum(map(len, fetches.values()))
        piece = max(_MIN_BYTES, min(PIECE_BYTES, self._left() // replicas))
        answers = self._client.fetch_records(fetches, piece)
        hurried = []
        for work in taken:
            start_offset = work.at
            read: dict[int, bytes] = {}
            corrupt: list[int] = []
            for broker in sorted(work.part):
                answer = answers[work.tp, broker]
                if isinstance(answer, Fault) and answer.name == CORRUPT:
                    corrupt.append(broker)
                elif isinstance(answer, Fault):
                    self._handle_fault(work, broker, answer, start_offset)
                else:
                    work.high[broker] = answer.high_watermark
                    read[broker] = answer.records
                    self._read_bytes += len(answer.records)
            _mark_unreadable(work, corrupt, start_offset)
            if work.at > start_offset:
                continue  # what was read begins before what is left to compare
            first = {broker for broker in read if next(iter(fetches[broker])) == work.tp}
            if self._compared(work, read, first):
                hurried.append(work)
        return hurried

    def _handle_fault(self, work: Comparison, broker: int, fault: Fault, start_offset: int) -> None:
        if fault.name != _OUT_OF_RANGE:
            work.leave(broker, str(fault))
        else:
            answer = self._client.fetch_replica_offsets({broker: [work.tp]}, OffsetAt.EARLIEST)
            start = answer[work.tp, broker]
            if isinstance(start, Fault):
                work.leave(broker, str(start))
            elif start > start_offset:
                work.at = max(work.at, start)  # retention has taken what was to be compared
            else:
                work.leave(broker, f"it ends before offset {start_offset}")

    def _compared(
        self, work: Comparison, read: Mapping[int, bytes], first: Collection[int]
    ) -> bool:
        """Take in a piece of one partition; returns whether it must be asked first to go on."""
        if work.end is None and read:
            high = [work.high[b] for b in read if b in work.row.isr] or list(work.high.values())
            work.end = min(high)
        for broker in sorted(read):
            if work.high[broker] <= work.at < (work.end or 0):
                work.leave(broker, f"its high watermark is {work.high[broker]}")
        bodies = {broker: body for broker, body in read.items() if broker in work.part}
        if not work.open or len(bodies) < 2:
            return False
        ended = {b: work.high[b] for b, body in bodies.items() if b in first and not body}
        try:
            result = compare(work.at, bodies, ended, compacted=work.compacted)
        except OldFormatError:
            work.leave(None, "its messages are older than Kafka 0.11")
            return False
        work.at, work.size = result.until, work.size + result.size_bytes
        work.differ(result.differences)
        _mark_unreadable(
            work, [*result.unreadable, *(b for b in result.short if b in first)], work.at
        )
        return bool(result.short)


def _mark_unreadable(work: Comparison, brokers: Collection[int], at: int) -> None:
    """Tell that some replicas cannot be read from an offset on, if any, and go on without them."""
    if not brokers:
        return
    others = tuple(sorted(work.part - {*brokers}))
    work.differ([Difference(DifferenceKind.UNREADABLE, at, at, tuple(sorted(brokers)), others, at)])
    for broker in brokers:
        work.leave(broker, f"it cannot be read from offset {at} on")
