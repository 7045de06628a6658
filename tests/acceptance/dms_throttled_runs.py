"""The throttle scenarios carried out: at the rate told on time, below what is produced refused."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.metadata import TopicPartition
from core.cluster.quota import SLOT_SECONDS, SLOTS
from core.cluster.sandbox.workload_spec import TopicLoad, Workload
from core.errors import ExitCode, TrimtabError
from core.plan.estimate.uncertainty import START_SECONDS
from core.units import format_rate
from tests.acceptance.dms_throttle_estimates import MB, TABLE, Layout, Throttled, required, targets
from tests.acceptance.scenario import Step, same, wait_until
from tests.acceptance.stage import ALLOWED, Stage
from tests.sandbox_data import fill, produced

MEASURED_FOR, REQUIRED_WITHIN, PRODUCED_WITHIN = "10s", 0.05, 0.05
SHORT_MEASURED_FOR, SHORT_REQUIRED_WITHIN, SHORT_PRODUCED_WITHIN = "5s", 0.1, 0.2
SHORT_TIMES = 3.0
"""The short form is played beside anything else: it shows that a run ends, the whole one when."""

REMEMBERED_SECONDS = SLOTS * SLOT_SECONDS
"""For so long brokers remember what a run copied, and let the next one through sooner by as much as
that left unused of its rate: no estimate knows of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the table with replicas of this size, and the time that it has."""

    row: str
    size_bytes: int
    seconds: float


WHOLE = (
    # Half a megabyte a second for each copy, as in the table: its rates hold.
    Part("1", 35 * MB, 70.0),
    Part("2", 35 * MB, 70.0),
    Part("3", 35 * MB, 70.0),
    # Other deadlines: within a leader's first window, and shortly after it.
    Part("3", 16 * MB, 12.0),
    Part("3", 35 * MB, 30.0),
)
SHORT = (
    # More than 11.5 s of the rate that never ends: the leader's first window does not cover it.
    # It covers all at the rate that is told, so that the destination's side sets the pace.
    Part("3", 16 * MB, 9.5),
)


def carried_out(stage: Stage) -> Iterator[Step]:
    """Play rows of the table on the stage's first brokers, scaled to what can be waited for."""
    for part in SHORT if stage.short else WHOLE:
        (row,) = (row for row in TABLE if row.name == part.row)
        yield from _throttled_run(stage, part, _on(row, stage.brokers))


def _on(row: Throttled, brokers: Sequence[int]) -> Throttled:
    """Return a row with these brokers for the table's 0, 1 and 2."""

    def layout(given: Layout) -> Layout:
        return {
            name: tuple(tuple(brokers[broker] for broker in replicas) for replicas in rows)
            for name, rows in given.items()
        }

    needs = {(brokers[broker], side): n for (broker, side), n in row.needs.items()}
    return replace(row, before=layout(row.before), after=layout(row.after), needs=needs)


def _throttled_run(stage: Stage, part: Part, row: Throttled) -> Iterator[Step]:
    """Set a row up with replicas of this size, estimate for the deadline, and apply."""
    named = f"throttle-{row.name}.{{}}"
    title = f"throttle {row.name}, {part.size_bytes / MB:.0f} MB in {part.seconds:g} s"
    topics = {named.format(name): rows for name, rows in row.before.items()}
    produced = row.produced_bytes_per_s
    if not stage.short:
        stage.report(f"{title}: letting brokers forget what was copied before")
        time.sleep(REMEMBERED_SECONDS)
    stage.make(topics)
    with _produced(stage, topics, produced):
        # Also where nothing is produced: what nobody has measured is unknown, and not 0.
        stage.report(f"{title}: measuring what is produced")
        if produced:
            for _ in range(2):  # the first messages may have waited for their connections
                _await_growth(stage, topics)
        interval = SHORT_MEASURED_FOR if stage.short else MEASURED_FOR
        _must(stage.trimtab("collect", "--once", "--interval", interval))
        _fill(stage, topics, part.size_bytes)
        plan = stage.plan(f"throttled-{row.name}", targets(row, named))
        if produced:
            # The in-sync follower and the new replica take 2 x what is produced.
            yield _refused(stage, title, plan, 1.6 * produced, row.before["T1"][0][0])
        answer = stage.document("estimate", plan, "--within", f"{part.seconds}s")
        within = SHORT_REQUIRED_WITHIN if stage.short else REQUIRED_WITHIN
        yield from _needed(title, part, row, answer, within)
        at = f"{answer['recommended_bytes_per_s']}B/s"
        grown, began = -_leaders_bytes(stage, topics), time.monotonic()
        code, events, stderr = stage.follow("apply", plan, "--throttle", at, *ALLOWED, "--yes")
        grown += _leaders_bytes(stage, topics)
        rate = grown / (time.monotonic() - began)
    if code != ExitCode.DONE:
        raise TrimtabError(f"{title}: its run ended with {code}.", detail=stderr)
    if produced:
        yield Step(
            f"{title}: produced meanwhile",
            format_rate(produced),
            format_rate(rate),
            abs(rate / produced - 1) <= (SHORT_PRODUCED_WITHIN if stage.short else PRODUCED_WITHIN),
        )
    yield from (_ended if stage.short else _on_time)(title, part, answer, events)
    partitions = sum(map(len, row.after.values()))
    yield same(f"{title}: completed, as Kafka's tool verifies", partitions, stage.verified(plan))
    stage.drop(*topics)


def _needed(title: str, part: Part, row: Throttled, answer: Any, within: float) -> Iterator[Step]:
    """Compare what each broker and side needs; what was produced since is copied, too."""
    copies = sum(needs.copies for (_, side), needs in row.needs.items() if side == "follower")
    size, seen = answer["total_bytes"] / copies, required(answer)
    for (broker, side), needs in row.needs.items():
        expected = needs.bytes_per_s(size, part.seconds, row.produced_bytes_per_s)
        got = seen.get((broker, side), 0.0)
        yield Step(
            f"{title}: broker {broker} needs as {side}",
            format_rate(expected),
            format_rate(got),
            abs(got / expected - 1) <= within,
        )


def _refused(stage: Stage, title: str, plan: Any, bytes_per_s: float, leader: int) -> Step:
    """Try to apply at a rate below ordinary replication."""
    at = ("--throttle", f"{bytes_per_s:.0f}B/s", *ALLOWED)
    answer = stage.trimtab("apply", plan, *at, "--yes")
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    why = next((line for line in lines if line.startswith("never:")), f"exit {answer.returncode}")
    return Step(
        f"{title}: apply at {format_rate(bytes_per_s)}, below what is produced and replicated",
        f"refused (exit {ExitCode.REFUSED:d}): never, for broker {leader}",
        why,
        answer.returncode == ExitCode.REFUSED and why.startswith(f"never: Broker {leader} "),
    )


def _on_time(
    title: str, part: Part, answer: Any, events: Sequence[Mapping[str, Any]]
) -> Iterator[Step]:
    took, at = _took_seconds(events), format_rate(answer["recommended_bytes_per_s"])
    low, high = answer["range_seconds"]
    expected_range = f"{low:.0f} to {high:.0f} s"
    yield Step(f"{title}: time at {at}, told", expected_range, f"{took:.1f} s", low <= took <= high)
    deadline = f"{part.seconds:g} s at most"
    in_time = took <= part.seconds
    yield Step(f"{title}: time at {at}, wanted", deadline, f"{took:.1f} s", in_time)


def _ended(
    title: str, part: Part, answer: Any, events: Sequence[Mapping[str, Any]]
) -> Iterator[Step]:
    took, at = _took_seconds(events), format_rate(answer["recommended_bytes_per_s"])
    low, most = answer["range_seconds"][0], SHORT_TIMES * part.seconds
    expected_range = f"not sooner than {low:.0f} s, {most:.0f} s at most"
    yield Step(f"{title}: ends at {at}", expected_range, f"{took:.1f} s", low <= took <= most)


def _took_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the time of an apply, taking what comes before its first submission as usual.

    How long a busy machine takes to start a process is not what is judged here.
    """
    first, last = (
        [datetime.fromisoformat(e["at"]) for e in events if e["event"] == kind]
        for kind in ("submitted", "ended")
    )
    return START_SECONDS + (max(last) - min(first)).total_seconds()


# -- data and load -------------------------------------------------------------------------------


@contextmanager
def _produced(stage: Stage, topics: Layout, bytes_per_s: float) -> Iterator[None]:
    """Produce to the first partition of the first topic meanwhile."""
    if not bytes_per_s:
        yield
        return
    name, replicas = next(iter(topics.items()))
    with produced(stage.settings, Workload((TopicLoad(name, replicas, (bytes_per_s,)),), ())):
        yield


def _fill(stage: Stage, topics: Layout, size_bytes: int) -> None:
    """Bring every partition to this size; some was produced already."""
    there = _sizes(stage)
    partitions = [
        TopicPartition(name, p) for name, rows in topics.items() for p in range(len(rows))
    ]
    fill(stage.settings, {tp: size_bytes - there.get(tp, 0) for tp in partitions})


def _leaders_bytes(stage: Stage, topics: Layout) -> int:
    """Return the bytes of all logs of these topics together, one replica each."""
    return sum(size for tp, size in _sizes(stage).items() if tp.topic in topics)


def _await_growth(stage: Stage, topics: Layout) -> None:
    before = _leaders_bytes(stage, topics)
    wait_until(lambda: _leaders_bytes(stage, topics) > before, "messages arrive")


def _sizes(stage: Stage) -> dict[TopicPartition, int]:
    """Return each partition's largest replica, which is its leader's."""
    client = KafkaClient(stage.settings)
    sizes: dict[TopicPartition, int] = {}
    for answer in client.describe_log_dirs(stage.brokers):
        for replica in answer.replicas:
            tp = TopicPartition(replica.topic, replica.partition)
            sizes[tp] = max(sizes.get(tp, 0), replica.size_bytes)
    client.close()
    return sizes


def _must(answer: Any) -> None:
    if answer.returncode != ExitCode.DONE:
        raise TrimtabError("Loads could not be measured.", detail=answer.stderr.strip())
