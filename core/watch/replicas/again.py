"""Reads what differs once more: a topic made anew meanwhile, or a log cut, is no news.

Only what was read again and is the same now is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.cluster.client import ClusterClient
from core.cluster.faults import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UnreachableError
from core.plan.checks.catalogue import named
from core.watch.replicas.batches import OldFormatError
from core.watch.replicas.compare import Difference, compare
from core.watch.replicas.underway import KEPT, Work

CORRUPT = "CORRUPT_MESSAGE"
_PIECE_BYTES = 16 << 10
"""Brokers give the first batch whole whatever its size, and that is the one that differed."""


def look_again(client: ClusterClient, state: ClusterState, works: Iterable[Work]) -> list[str]:
    """Take back what differs no more; return notes on what was not read a second time, and why."""
    suspects = [work for work in works if work.differences]
    if not suspects:
        return []
    try:
        now = client.describe()
    except (AccessDeniedError, UnreachableError) as error:
        return [_unread([work.tp for work in suspects], error.title.rstrip("."))]
    unread: dict[str, list[TopicPartition]] = {}
    for work in suspects:
        before, after = state.topic(work.tp.topic), now.topic(work.tp.topic)
        if after is None or (before is not None and before.id != after.id):
            work.differences, work.different = [], 0
            work.leave(None, "the topic was deleted meanwhile")
        elif why := _take_back(client, work):
            unread.setdefault(why, []).append(work.tp)
    return [_unread(tps, why) for why, tps in unread.items()]


def _unread(tps: list[TopicPartition], why: str) -> str:
    return (
        f"What differs in {named(tps)} was not read a second time ({why}): verify again to see "
        "whether it still does."
    )


def _take_back(client: ClusterClient, work: Work) -> str:
    """Drop a partition's differences that are no more; returns why some were not read, or ""."""
    for suspect in tuple(work.differences):
        try:
            if not _still(client, work, suspect):
                work.differences.remove(suspect)
                work.different -= 1
        except _UnreadError as error:
            return str(error)
    if not work.different:
        work.leave(None, "what differed is the same now: try again")
    elif not work.differences:
        return f"the first {KEPT} are the same now"
    return ""


class _UnreadError(Exception):
    """A broker that did not give its replica again, and its reason."""


def _still(client: ClusterClient, work: Work, suspect: Difference) -> bool:
    """Return whether it is still so; raises _UnreadError when not all of its brokers tell."""
    brokers = sorted({*suspect.brokers, *suspect.others})
    answers = client.read_replicas({b: {work.tp: suspect.first} for b in brokers}, _PIECE_BYTES)
    faults = {b: answer for (_, b), answer in answers.items() if isinstance(answer, Fault)}
    if any(fault.name == CORRUPT for fault in faults.values()):
        return True
    if faults:
        broker, fault = min(faults.items(), key=lambda one: one[0])
        raise _UnreadError(f"broker {broker}: {fault}")
    read = {b: answer for (_, b), answer in answers.items() if not isinstance(answer, Fault)}
    bodies = {broker: answer.records for broker, answer in read.items()}
    ended = {broker: answer.high_watermark for broker, answer in read.items() if not answer.records}
    try:
        found = compare(suspect.first, bodies, ended, compacted=work.compacted)
    except OldFormatError:
        return True
    there = (d for d in found.differences if d.first <= suspect.last and suspect.first <= d.last)
    return bool(found.unreadable or found.short or next(there, None))
