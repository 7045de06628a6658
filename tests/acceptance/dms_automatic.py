"""Automatic balancing: topics, target brokers, a replica count and a limit are chosen, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.errors import ExitCode
from core.units import format_rate
from tests.acceptance.scenario import Step, same
from tests.acceptance.stage import ALLOWED, Stage, format_counts

PARTITIONS = 6
SIZE_BYTES = 200_000
LIMIT_BYTES_PER_S = 20_000_000


def balanced(stage: Stage) -> Iterator[Step]:
    """Spread topics that one broker holds over the other three, without a limit and with one."""
    yield from _spread(stage, "without", None)
    if not stage.short:
        yield from _spread(stage, "with", LIMIT_BYTES_PER_S)


def _spread(stage: Stage, name: str, limit: int | None) -> Iterator[Step]:
    """Carry out what is suggested for two topics; `limit` is in bytes/s, None is -1."""
    source, *targets = stage.brokers[:4]
    topics = [f"automatic-{name}-limit.{letter}" for letter in "ab"]
    stage.make({topic: [(source,)] * PARTITIONS for topic in topics}, SIZE_BYTES)
    suggestion = stage.document(
        *("plan", "suggest", "--topics", f"automatic-{name}-limit\\..", "--rf", "2"),
        *("--brokers", ",".join(map(str, targets))),
    )
    planned = Counter(row["replicas"][0] for row in suggestion["plan"]["partitions"])
    yield _even(f"{name} a limit: leaders that are planned", planned, targets, stage)
    plan = stage.write(f"automatic-{name}", suggestion["plan"])
    throttle = "-1" if limit is None else f"{limit}B/s"
    code, events, _ = stage.follow(*("apply", plan, "--throttle", throttle, *ALLOWED, "--yes"))
    yield same(f"apply --throttle {throttle}, its exit code", ExitCode.DONE.value, code)
    shown = stage.document("runs", "show", events[-1]["run"])
    expected = "none" if limit is None else format_rate(limit)
    yield same("limits that its run has set", expected, _limits(shown))
    rows = stage.describe(*topics)
    led = Counter(row.leader for row in rows if row.leader is not None)
    yield _even("leaders, as Kafka's tool describes them", led, targets, stage)
    replicas = {len(row.replicas) for row in rows}
    yield same("replicas of each partition", "2", ", ".join(map(str, sorted(replicas))))
    if not stage.short:
        done = stage.verified(plan)
        yield same("partitions that Kafka's tool finds completed", len(rows), done)
        yield same("throttles that Kafka's tool shows", "none", stage.throttles())


def _even(
    what: str, leader_counts: Mapping[int, int], targets: Sequence[int], stage: Stage
) -> Step:
    """Compare how many partitions brokers lead, nobody but the targets any.

    In the short form brokers hold others' topics too, which count in their shares.
    """
    each, off = sum(leader_counts.values()) // len(targets), int(stage.short)
    even = format_counts(dict.fromkeys(targets, each))
    agrees = leader_counts.keys() == set(targets) and all(
        abs(n - each) <= off for n in leader_counts.values()
    )
    return Step(what, even + ", or one off" * off, format_counts(leader_counts), agrees)


def _limits(shown: Any) -> str:
    """Return the rates that a run has set on brokers, from its report."""
    rates = {
        int(value)
        for change in shown["configs"]
        if change["config"].endswith(".throttled.rate")
        for value in change["during"]
    }
    return ", ".join(map(format_rate, sorted(rates))) or "none"
