"""Leader return: leaders go as brokers stop, and come back by elections, as far as they can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from core.errors import ExitCode
from core.units import format_time
from tests.acceptance.scenario import Scenario, Step, same, wait_for
from tests.acceptance.stage import Replicas, Stage, count_leaders, format_counts

TOPIC = "topic1"
REPLICAS = 3
SIZE_BYTES = 200_000


def play(stage: Stage) -> Iterator[Step]:
    brokers = stage.brokers
    first, *later = (brokers[at] for at in ((0, 1) if stage.short else (0, 1, 3)))
    layout = [
        tuple(brokers[(p + step) % len(brokers)] for step in range(REPLICAS))
        for p in range(len(brokers))
    ]
    began = datetime.now(UTC)
    stage.make({TOPIC: layout}, SIZE_BYTES)
    yield same(
        "leaders of topic1, placed by hand", _each(brokers), count_leaders(stage.describe(TOPIC))
    )
    yield from _stopped(stage, layout, (first, *later))
    yield from _first_back(stage, layout, first, later)
    returned = datetime.now(UTC)
    yield from _all_back(stage, layout, later)
    ended = datetime.now(UTC)
    yield from _check_logs(stage, layout, (began, returned, ended), (first, *later))
    if not stage.short:
        yield from _moved(stage, brokers[3:7])
    yield from _verified(stage)


SCENARIO = Scenario(
    "leader-return",
    "Brokers stop and return; leaders come back by elections; a topic moves; replicas verified.",
    (1, 2, 3, 4, 5, 6, 7, 8),
    0,
    play,
)


# -- leaders go and come back ----------------------------------------------------------------------


def _stopped(stage: Stage, layout: Sequence[Replicas], stopped: Sequence[int]) -> Iterator[Step]:
    """Stop brokers: the first replica that is left leads, as it was in the ISR."""
    for broker in stopped:
        stage.report(f"stopping broker {broker}")
        stage.sandbox.stop(broker)
    expected = [next(b for b in row if b not in stopped) for row in layout]
    # A broker that hands its leaders over is out of the ISRs by then.
    rows = wait_for(
        lambda: _partitions(stage),
        lambda rows: not any(broker in row["isr"] for row in rows for broker in stopped),
        "they are out of the ISRs",
    )
    led = [row["leader"] for row in rows]
    down = ", ".join(map(str, stopped))
    yield same(f"leaders by partition while {down} are down", _listed(expected), _listed(led))


def _first_back(
    stage: Stage, layout: Sequence[Replicas], back: int, down: Sequence[int]
) -> Iterator[Step]:
    """Start one broker again, and elect: it leads again, those of the others are left."""
    rows = _start(stage, back)
    held = sum(back in row for row in layout)
    in_sync = sum(back in partition["isr"] for partition in rows)
    yield same(f"ISRs that {back} is in, as it is back", held, in_sync)
    led = sum(partition["leader"] == back for partition in rows)
    yield same(f"partitions that {back} leads, as it is back", 0, led)
    report = stage.document("elect", "--topics", TOPIC, "--yes")
    yield from _settings(report)
    yield same("elected", f"{TOPIC}-0 to {back}", _elected(report))
    left = "; ".join(
        f"{TOPIC}-{p}: preferred replica {row[0]} is down"
        for p, row in enumerate(layout)
        if row[0] in down
    )
    yield same("left as they are, and why", left, _left(report))
    # Who did not lead before is not made to by this election, except for its preferred ones.
    expected = [
        row[0] if row[0] not in down else next(b for b in row if b not in (back, *down))
        for row in layout
    ]
    now = [row.leader for row in stage.describe(TOPIC)]
    yield same("leaders then, as Kafka's tool describes them", _listed(expected), _listed(now))


def _settings(report: Any) -> Iterator[Step]:
    """Compare what stands beside the imbalance: what would act on it."""
    live = [row for row in report["rebalance"] if row["unknown"] is None]
    settings = {(row["enabled"], row["interval_seconds"], row["percentage"]) for row in live}
    yield same(
        "auto.leader.rebalance.enable, its interval and percentage, by live brokers",
        "off, 300 s, not reported",
        "; ".join(
            f"{'on' if enabled else 'off'}, {seconds} s, "
            f"{'not reported' if percentage is None else f'{percentage} %'}"
            for enabled, seconds, percentage in settings
        ),
    )


def _all_back(stage: Stage, layout: Sequence[Replicas], late: Sequence[int]) -> Iterator[Step]:
    """Start the others: nothing changes by itself; elect one partition, then the rest."""
    before = [partition["leader"] for partition in _partitions(stage)]
    for broker in late:
        now = [partition["leader"] for partition in _start(stage, broker)]
    back = f"{', '.join(map(str, late))} {'are' if len(late) > 1 else 'is'} back"
    yield same(f"leaders as {back}, before an election", _listed(before), _listed(now))
    away = [p for p, row in enumerate(layout) if row[0] in late]
    report = stage.document("elect", "--partitions", f"{TOPIC}-{away[0]}", "--yes")
    expected = f"{TOPIC}-{away[0]} to {layout[away[0]][0]}"
    yield same("elected, of one partition that was named", expected, _elected(report))
    report = stage.document("elect", "--topics", TOPIC, "--yes")
    expected = ", ".join(f"{TOPIC}-{p} to {layout[p][0]}" for p in away[1:]) or "nothing"
    yield same("elected, of all that are left", expected, _elected(report))
    rows = stage.describe(TOPIC)
    brokers = sorted({row[0] for row in layout})
    yield same("leaders then, as Kafka's tool describes them", _each(brokers), count_leaders(rows))


def _start(stage: Stage, broker: int) -> list[dict[str, Any]]:
    """Start a broker; return the partitions as it is in all of its ISRs."""
    stage.report(f"starting broker {broker}")
    stage.sandbox.start(broker)
    return wait_for(
        lambda: _partitions(stage),
        lambda rows: all(broker in row["isr"] for row in rows if broker in row["replicas"]),
        f"broker {broker} is in the ISRs",
    )


def _elected(report: Any) -> str:
    return ", ".join(_of(report, "elected", lambda row: f" to {row['to']}")) or "nothing"


def _left(report: Any) -> str:
    return "; ".join(_of(report, "left", lambda row: f": {row['why']}")) or "nothing"


def _of(report: Any, outcome: str, more: Callable[[Any], str]) -> list[str]:
    return [
        f"{row['topic']}-{row['partition']}{more(row)}"
        for row in report["elections"]
        if row["outcome"] == outcome
    ]


# -- what the logs tell ----------------------------------------------------------------------------


def _check_logs(
    stage: Stage,
    layout: Sequence[Replicas],
    moments: tuple[datetime, datetime, datetime],
    stopped: Sequence[int],
) -> Iterator[Step]:
    """Merge the brokers' state-change logs: who led, in the order in which it was."""
    began, returned, ended = moments
    events = _merged(stage, 0, began, ended)
    at = [event["at"] for event in events]
    yield same("state-change logs, merged: in the order of time", "yes", "yes" * (at == sorted(at)))
    # As its leader stops, the next replica in the ISR leads.
    story = [layout[0][0]]
    for broker in stopped:
        if broker == story[-1]:
            gone = stopped[: stopped.index(broker) + 1]
            story.append(next(b for b in layout[0] if b not in gone))
    story.append(layout[0][0])
    yield same(f"who led {TOPIC}-0, as they tell", _listed(story), _listed(_leaders(events)))
    late = next(p for p, row in enumerate(layout) if row[0] in stopped[1:])
    events = _merged(stage, late, returned, ended)
    what = f"who came to lead {TOPIC}-{late} since {stopped[0]} was elected"
    yield same(what, str(layout[late][0]), _listed(_leaders(events)))


def _merged(stage: Stage, partition: int, since: datetime, to: datetime) -> list[dict[str, Any]]:
    lines = stage.lines(
        *("statelog", "merge", stage.sandbox.folder, "--topic", TOPIC),
        *("--partitions", str(partition), "--zone", _zone()),
        *("--from", format_time(since), "--to", format_time(to)),
    )
    return lines[:-1]  # the last one is the summary


def _zone() -> str:
    """Return this machine's offset from UTC: brokers log in its time."""
    text = datetime.now().astimezone().strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def _leaders(events: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the brokers that told that they lead, without repetitions."""
    leaders: list[int] = []
    for event in events:
        if event["kind"] == "leader" and event["broker"] not in leaders[-1:]:
            leaders.append(event["broker"])
    return leaders


# -- moved and verified ----------------------------------------------------------------------------


def _moved(stage: Stage, targets: Sequence[int]) -> Iterator[Step]:
    """Move the topic by generate, execute and verify, then have a plan lower its replicas."""
    wanted = stage.write("topics", {"topics": [{"topic": TOPIC}], "version": 1})
    to = ",".join(map(str, targets))
    for replicas, more in ((REPLICAS, ()), (2, ("--rf", "2"))):
        suggestion = stage.document(
            "plan", "suggest", "--topics-to-move", wanted, "--brokers", to, *more
        )
        plan = stage.write(f"to-{replicas}", suggestion["plan"])
        code, _, _ = stage.follow("apply", plan, "--allow", "rf-change", "--elect", "--yes")
        yield same(f"apply of {TOPIC} to {to}, its exit code", ExitCode.DONE.value, code)
        yield same("verify", True, stage.document("verify", plan)["verified"])
        yield same(
            "partitions that Kafka's tool finds completed", _count(suggestion), stage.verified(plan)
        )
        rows = stage.describe(TOPIC)
        held = {broker for row in rows for broker in row.replicas}
        yield same("brokers that hold it, as Kafka's tool describes it", to, _listed(sorted(held)))
        factors = _listed(sorted({len(row.replicas) for row in rows}))
        yield same("replicas of each partition", str(replicas), factors)
        each = format_counts(dict.fromkeys(targets, len(rows) // len(targets)))
        yield same("leaders, as Kafka's tool describes them", each, count_leaders(rows))


def _count(suggestion: Any) -> int:
    return len(suggestion["plan"]["partitions"])


def _verified(stage: Stage) -> Iterator[Step]:
    """Compare all replicas: the largest lag of each partition, and whether they are the same."""
    report = stage.document("replicas", "verify", "--topics", "topic.*")
    rows = report["partitions"]
    lags = ", ".join(str(row["largest_lag"]) for row in rows)
    yield same("replicas verify: largest lags", ", ".join("0" for _ in rows), lags)
    whole = sum(row["until"] == row["end"] and row["compared_bytes"] > 0 for row in rows)
    yield same("partitions compared to their high watermark", len(rows), whole)
    yield same("replicas that hold the same records", "all", "all" if report["same"] else "not all")


def _partitions(stage: Stage) -> list[dict[str, Any]]:
    (description,) = stage.document("topics", "describe", TOPIC)
    rows: list[dict[str, Any]] = description["partitions"]
    return rows


def _each(brokers: Sequence[int]) -> str:
    return format_counts(dict.fromkeys(brokers, 1))


def _listed(ids: Sequence[int | None]) -> str:
    return ",".join("-" if broker is None else str(broker) for broker in ids)
