"""The three throttle estimates of partition balancing: what each broker and side needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import ExitCode
from core.units import format_rate
from tests.acceptance.scenario import Step
from tests.acceptance.stage import Stage

MB = 1_000_000
SIZE_BYTES = 100 * MB
SECONDS = 200
"""What the table's numbers are for."""

Layout = Mapping[str, tuple[tuple[int, ...], ...]]
BrokerSide = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Needs:
    """What one broker and side must carry: copies, and how often what is produced."""

    copies: int
    inflows: int = 0

    def bytes_per_s(self, size_bytes: float, seconds: float, produced: float) -> float:
        return self.copies * size_bytes / seconds + self.inflows * produced


@dataclass(frozen=True, slots=True)
class Throttled:
    """One row of the table: replicas of each topic's partitions, before and after.

    `required` is what the table says, in bytes/s; `limit` the largest of it.
    """

    name: str
    before: Layout
    after: Layout
    needs: Mapping[BrokerSide, Needs]
    required: Mapping[BrokerSide, int]
    limit: int
    produced_bytes_per_s: float = 0.0
    """To the first partition of T1."""


TABLE = (
    Throttled(
        "1",
        {"T1": ((0, 1), (0, 2)), "T2": ((0,),)},
        {"T1": ((0, 1, 2), (0, 1, 2)), "T2": ((0, 2),)},
        {(0, "leader"): Needs(3), (1, "follower"): Needs(1), (2, "follower"): Needs(2)},
        {(0, "leader"): 1_500_000, (1, "follower"): 500_000, (2, "follower"): 1_000_000},
        1_500_000,
    ),
    Throttled(
        "2",
        {"T1": ((0,), (1,)), "T2": ((1,), (2,))},
        {"T1": ((0, 2), (1, 2)), "T2": ((1, 2), (2, 0))},
        {
            (0, "leader"): Needs(1),
            (0, "follower"): Needs(1),
            (1, "leader"): Needs(2),
            (2, "leader"): Needs(1),
            (2, "follower"): Needs(3),
        },
        {
            (0, "leader"): 500_000,
            (0, "follower"): 500_000,
            (1, "leader"): 1_000_000,
            (2, "leader"): 500_000,
            (2, "follower"): 1_500_000,
        },
        1_500_000,
    ),
    Throttled(
        "3",
        {"T1": ((0, 1),), "T2": ((0, 1),)},
        {"T1": ((0, 1, 2),)},
        # The new replica must fetch what is produced meanwhile, too: 1.2 MB/s, not 0.5.
        {(0, "leader"): Needs(1, 2), (2, "follower"): Needs(1, 1)},
        {(0, "leader"): 1_900_000, (2, "follower"): 1_200_000},
        1_900_000,
        700_000.0,
    ),
)


def estimated(stage: Stage) -> Iterator[Step]:
    """Ask for the estimates on saved clusters, and hold them against the table exactly."""
    for row in TABLE:
        what = f"throttle {row.name}, 100 MB each in 200 s"
        saved = stage.write("saved", _document(row))
        plan = stage.plan(f"throttle-{row.name}", targets(row))
        from_saved = ("--from", saved, "estimate", plan)
        answer = stage.document(*from_saved, "--within", f"{SECONDS}s", offline=True)
        seen = required(answer)
        expected = dict(row.required)
        agrees = {key: round(rate) for key, rate in seen.items()} == expected
        yield Step(f"{what}: needed", format_rates(expected), format_rates(seen), agrees)
        limit = answer["rate_bytes_per_s"]
        yield Step(f"{what}: limit", format_rate(row.limit), format_rate(limit), limit == row.limit)
        if row.produced_bytes_per_s:
            # One in-sync follower and the new replica fetch what is produced.
            ordinary = round(2 * row.produced_bytes_per_s)
            answer = stage.trimtab(
                *from_saved, "--throttle", f"{ordinary}B/s", "--json", offline=True
            )
            never = answer.returncode == ExitCode.NO and answer.stdout.count('"never": "Broker 0 ')
            yield Step(
                f"throttle {row.name} at {format_rate(ordinary)}, what is ordinarily replicated",
                "never, for broker 0",
                "never, for broker 0" if never else f"exit {answer.returncode}",
                bool(never),
            )


def targets(row: Throttled, topic: str = "{}") -> dict[tuple[str, int], tuple[int, ...]]:
    """Return what a row's partitions are to become; `topic` says what its topics are called."""
    return {
        (topic.format(name), partition): replicas
        for name, rows in row.after.items()
        for partition, replicas in enumerate(rows)
    }


def required(answer: Any) -> dict[BrokerSide, float]:
    """Return what an estimate says that brokers need, in bytes/s."""
    return {(row["broker"], row["side"]): row["required_bytes_per_s"] for row in answer["rows"]}


def format_rates(rates: Mapping[BrokerSide, float]) -> str:
    return ", ".join(
        f"{broker} {side} {format_rate(rate)}" for (broker, side), rate in sorted(rates.items())
    )


def _document(row: Throttled) -> dict[str, Any]:
    """Return the row's cluster as `show --json` would."""
    return {
        "format": "trimtab.cluster/1",
        "cluster_id": "throttles",
        "brokers": [{"id": broker} for broker in range(3)],
        "topics": [{"name": name} for name in row.before],
        "partitions": [
            {
                "topic": name,
                "partition": partition,
                "leader": replicas[0],
                "replicas": replicas,
                "isr": replicas,
                "size_bytes": SIZE_BYTES,
                "in_bytes_per_s": row.produced_bytes_per_s
                if (name, partition) == ("T1", 0)
                else 0.0,
            }
            for name, rows in row.before.items()
            for partition, replicas in enumerate(rows)
        ],
    }
