"""Verdicts: what is wrong with a cluster in short sentences, worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from core.cluster.access.hidden_topics import is_partial
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import Metric, out_of_sync_replicas
from core.load.view.totals import BrokerTotals, broker_totals, max_ratio
from core.units import counted, format_duration

SKEW = 1.3
"""A broker above this many times its fair share is worth a look."""
DISK_LOOK, DISK_ACT = 0.85, 0.95


class Weight(IntEnum):
    """How a verdict is to be read; the order in which they are shown."""

    ACT = 0
    LOOK = 1
    MOVING = 2
    FINE = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, a shorter one for narrow screens, and where to look."""

    id: str
    weight: Weight
    sentence: str
    short: str
    broker: int | None = None
    metric: Metric | None = None
    topic: str | None = None


def verdicts(
    state: ClusterState,
    load: Load,
    totals: BrokerTotals | None = None,
    left_seconds: float | None = None,
    halted: tuple[Weight, str] | None = None,
) -> tuple[Verdict, ...]:
    """Return what there is to say, worst first.

    `left_seconds` is of the run in progress; `halted` is how to tell that a run does not go on.
    """
    totals = totals or broker_totals(state, load)
    all_verdicts = [
        *_faults(state),
        *_disk_verdicts(state, totals),
        *_skews(totals),
        *_reassignment_verdicts(state, left_seconds, halted),
        *_hidden(state),
        *_racks(state),
    ]
    return tuple(sorted(all_verdicts, key=lambda verdict: verdict.weight))


def _faults(state: ClusterState) -> Iterator[Verdict]:
    if down := [broker.id for broker in state.brokers if not broker.alive]:
        words = f"{_named(down)} down"
        yield Verdict("brokers-down", Weight.ACT, words, words, broker=down[0])
    offline = np.flatnonzero(state.leader < 0)
    if len(offline):
        topic, count = state.tp(int(offline[0])).topic, f"{len(offline):,}"
        words, short = f"{count} without leader", f"{count} offline"
        yield Verdict("offline", Weight.ACT, words, short, topic=topic)
    mask = out_of_sync_replicas(state)
    if mask.any():  # np.unique loads numpy.ma, for which a first paint would wait
        behind = np.unique(state.partition_of_replica[mask])
        words = f"{len(behind):,} out of sync"
        # Not counted by id: brokers may have ids near 2^31.
        brokers, counts = np.unique(state.replica_broker[mask], return_counts=True)
        topic = state.topics[int(np.bincount(state.topic_of[behind]).argmax())].name
        broker = int(brokers[counts.argmax()])
        yield Verdict("out-of-sync", Weight.ACT, words, words, broker=broker, topic=topic)


def _named(brokers: list[int]) -> str:
    return " ".join(f"b{id}" for id in brokers[:3]) + (" …" if len(brokers) > 3 else "")


def _disk_verdicts(state: ClusterState, totals: BrokerTotals) -> Iterator[Verdict]:
    failed = [b.id for b in state.brokers if b.alive and any(d.error for d in b.log_dirs)]
    if failed:
        words = f"{_named(failed)} log dir failed"
        yield Verdict("disks", Weight.ACT, words, words, broker=failed[0], metric=Metric.SIZE)
    used = totals.disk_used
    if np.isnan(used).all():
        return
    column = int(np.nanargmax(used))
    if used[column] >= DISK_LOOK:
        weight = Weight.ACT if used[column] >= DISK_ACT else Weight.LOOK
        broker = int(totals.brokers[column])
        words = f"b{broker} disk {used[column]:.0%}"
        yield Verdict("disks", weight, words, words, broker=broker, metric=Metric.SIZE)
    elif not failed and not (np.isnan(used) & np.isin(totals.brokers, state.alive_ids)).any():
        yield Verdict("disks", Weight.FINE, "disks", "disks")


def _skews(totals: BrokerTotals) -> list[Verdict]:
    """Return the fullest broker of each metric, where it is worth a look; the wildest first."""
    skews: list[tuple[float, Verdict]] = []
    for metric in (Metric.IN, Metric.OUT, Metric.LEADERS, Metric.SIZE):
        column, ratio = max_ratio(totals.values[metric], totals.fair[metric])
        if column < 0 or ratio < SKEW:
            continue
        broker = int(totals.brokers[column])
        if metric is Metric.LEADERS:
            sentence = f"b{broker} leads {ratio - 1:.0%} more"
            short = f"b{broker} leads +{ratio - 1:.0%}"
        else:
            word = "holds" if metric is Metric.SIZE else metric.value
            sentence = f"b{broker} {word} {ratio:.1f}× fair share"
            short = f"b{broker} {word} {ratio:.1f}×"
        verdict = Verdict(
            f"skew-{metric.value}", Weight.LOOK, sentence, short, broker=broker, metric=metric
        )
        skews.append((ratio, verdict))
    ins = [ratio for ratio, verdict in skews if verdict.metric is Metric.IN]
    if ins:
        # What flows in flows out: the same broker, about as far out, is the same trouble.
        hot = next(v.broker for _, v in skews if v.metric is Metric.IN)
        skews = [
            (ratio, verdict)
            for ratio, verdict in skews
            if (verdict.metric, verdict.broker) != (Metric.OUT, hot) or ratio > 1.2 * ins[0]
        ]
    return [verdict for _, verdict in sorted(skews, key=lambda item: -item[0])]


def _reassignment_verdicts(
    state: ClusterState, left_seconds: float | None, halted: tuple[Weight, str] | None
) -> list[Verdict]:
    count = int(state.reassigning.sum())
    if halted is not None:
        weight, short = halted
        words = f"{short}, {count:,} in flight" if count else short
        return [Verdict("moving", weight, words, short)]
    if not count:
        return []
    left = f", {format_duration(left_seconds)}" if left_seconds is not None else ""
    words = f"{count:,} moving{left}"
    return [Verdict("moving", Weight.MOVING, words, words)]


def _hidden(state: ClusterState) -> list[Verdict]:
    """Say that there is more than what is shown; details are where help is looked for."""
    if state.hidden is None or state.hidden.is_complete:
        return []
    count = state.hidden.count
    words = "topics may be hidden" if count is None else f"{counted(count, 'topic')} hidden"
    short = "hidden?" if count is None else f"{count:,} hidden"
    return [Verdict("hidden", Weight.LOOK, words, short)]


def _racks(state: ClusterState) -> list[Verdict]:
    racks = {broker.id: broker.rack for broker in state.brokers}
    names = sorted({rack for rack in racks.values() if rack is not None})
    if len(names) < 2:
        return []
    number = {rack: i for i, rack in enumerate(names)}
    ids = np.array(sorted(racks))
    rack_of = np.array([number.get(racks[broker] or "", -1) for broker in ids.tolist()])
    held = state.replica_broker >= 0
    partitions = state.partition_of_replica[held]
    holders = state.replica_broker[held]
    at = np.minimum(np.searchsorted(ids, holders), len(ids) - 1)
    in_rack = np.where(ids[at] == holders, rack_of[at], -1)
    # Sorted rather than np.unique: of millions of numbers in order already, that is far quicker.
    pairs = np.sort(partitions * (len(names) + 1) + in_rack + 1)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    spread = np.bincount(pairs // (len(names) + 1), minlength=state.partition_count)
    possible = np.minimum(np.diff(state.replica_start), len(names))
    narrow = np.flatnonzero(spread < possible)
    if not len(narrow):
        if is_partial(state.hidden):
            return []
        return [Verdict("racks", Weight.FINE, "racks", "racks")]
    words = f"{len(narrow):,} share a rack"
    return [Verdict("racks", Weight.LOOK, words, words, topic=state.tp(int(narrow[0])).topic)]
