"""Continuous self-balancing: one broker holds all the load; the autopilot gives half of it back.

Its rules are hastened, so that minutes show what otherwise takes hours; none is left out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from core.cluster.client import OffsetAt
from core.cluster.connect import Address, connect
from core.cluster.metadata import TopicPartition
from core.units import format_duration, format_time, parse_time
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.publisher import Publisher
from tests.acceptance.scenario import Scenario, Step, same, wait_until
from tests.acceptance.stage import Running, Stage, count_leaders, format_counts
from tests.acceptance.steady_clients import Producer, Reader

TOPIC = "continuous-self-balancing-topic"
PARTITIONS = 8
PER_S, RECORD_BYTES = 5_120, 1_024
MOST_SECONDS = 180.0
READ_SECONDS = 60.0
RATES_SECONDS = 10.0
GIVE_UP_SECONDS = 400.0
EVEN = 0.10
RECOVERS_SECONDS = 10.0
COLLECT = ("collect", "--interval", "5s")
AUTOPILOT = ("--no-load", "autopilot", "--mode", "act", "--yes", "--json", "--cool-down", "20s")
LASTING = ("--lasting", "10s")
SHORT_PER_S = 200
SHORT_COLLECT = ("collect", "--interval", "1s")
SHORT_LASTING = ("--lasting", "5s", "--topics", TOPIC, "--start-band", "80", "--band", "40")


def play(stage: Stage) -> Iterator[Step]:
    yield from (_short if stage.short else _whole)(stage)


def _whole(stage: Stage) -> Iterator[Step]:
    first, second = stage.brokers[:2]
    stage.make({TOPIC: [((first, second)[n % 2],) for n in range(PARTITIONS)]})
    even = format_counts({first: PARTITIONS // 2, second: PARTITIONS // 2})
    yield same(
        "leaders, as Kafka's tool describes them", even, count_leaders(stage.describe(TOPIC))
    )
    yield from _unbalanced(stage)
    with ExitStack() as stack:

        def report(text: str, partition: int | None) -> None:
            # From the library's threads, too: each has a publisher of its own.
            note = Note("producer", text)
            event = Event(datetime.now(UTC), Kind.CLIENT, None, note, TOPIC, partition)
            with Publisher(stage.sandbox.cluster_id) as publisher:
                publisher.publish_all([event])

        reader = Reader(stage.settings, TOPIC, PARTITIONS)
        stack.callback(reader.stop)
        began = datetime.now(UTC)
        producer = Producer(
            stage.settings, TOPIC, PARTITIONS, per_s=PER_S, record_bytes=RECORD_BYTES, report=report
        )
        stack.callback(producer.stop)
        stack.callback(stage.begin("collecting", *COLLECT).stop)
        flying = stage.begin("decisions", *AUTOPILOT, *LASTING)
        stack.callback(flying.stop)
        yield from _balanced(stage, flying, began)
        yield _rates(stage)
        yield from _off(stage, flying)
        wait_until(
            lambda: producer.is_whole, "the producer's rate is whole", seconds=GIVE_UP_SECONDS
        )
        producer.stop()
        yield from _check_timeline(stage, began)
        yield from _nothing_lost(producer, reader)


SCENARIO = Scenario(
    "self-balancing",
    "One broker holds all the load; the autopilot gives half of it back while producers go on.",
    (1, 2),
    0,
    play,
)


def _short(stage: Stage) -> Iterator[Step]:
    """Show that it decides and runs, that leaders end even, and that nothing is lost.

    Half of the brokers lead everything, so that no data need move: to copy takes its time, as does
    what the producer feels. The bands leave room for what others hold on these brokers.
    """
    half = len(stage.brokers) // 2
    pairs = list(zip(stage.brokers[half:], stage.brokers[:half], strict=True))
    stage.make({TOPIC: [pairs[n % half] for n in range(PARTITIONS)]})
    with ExitStack() as stack:
        stack.callback(stage.begin("collecting", *SHORT_COLLECT).stop)
        reader = Reader(stage.settings, TOPIC, PARTITIONS)
        stack.callback(reader.stop)
        producer = Producer(
            stage.settings,
            TOPIC,
            PARTITIONS,
            per_s=SHORT_PER_S,
            record_bytes=RECORD_BYTES,
            report=lambda text, partition: None,
        )
        stack.callback(producer.stop)
        flying = stage.begin("decisions", *AUTOPILOT, *SHORT_LASTING)
        stack.callback(flying.stop)
        wait_until(
            lambda: bool(_decided(flying, "started")),
            "the autopilot's run starts",
            seconds=GIVE_UP_SECONDS,
        )
        why = [act["text"] for act in _decided(flying, "act")]
        yield Step("decisions of the autopilot to act", "one", _first(why), len(why) == 1)
        (started,) = _decided(flying, "started")
        code, _, _ = stage.follow("runs", "attach", started["run"])
        yield same("its run, followed to its end, with", 0, code)
        yield _spread(stage)
        yield from _off(stage, flying)
        producer.stop()
        yield from _nothing_lost(producer, reader)


def _spread(stage: Stage) -> Step:
    """Compare what brokers lead; they hold others' topics too, which count in their shares."""
    rows = stage.describe(TOPIC)
    led = Counter(row.leader for row in rows if row.leader is not None)
    each = PARTITIONS // len(stage.brokers)
    even = format_counts(dict.fromkeys(stage.brokers, each))
    good = led.total() == PARTITIONS and all(abs(led[b] - each) <= 1 for b in stage.brokers)
    return Step(
        "leaders, as Kafka's tool describes them", f"{even}, or one off", count_leaders(rows), good
    )


def _nothing_lost(producer: Producer, reader: Reader) -> Iterator[Step]:
    yield same("records that were given up", 0, producer.refused)
    missing = reader.wait_for(producer.acknowledged, READ_SECONDS)
    acknowledged = f"of {len(producer.acknowledged):,} records that were acknowledged, lost"
    yield same(acknowledged, 0, len(missing))


def _unbalanced(stage: Stage) -> Iterator[Step]:
    """Have Kafka's own tool move all partitions to the second broker."""
    second = stage.brokers[1]
    plan = stage.plan("all-on-one", {(TOPIC, p): (second,) for p in range(PARTITIONS)})
    stage.kafka(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--execute", "--reassignment-json-file", str(plan)),
    )
    wait_until(
        lambda: stage.verified(plan) == PARTITIONS,
        "the reassignment ends",
        seconds=GIVE_UP_SECONDS,
    )
    yield same(
        "leaders, all having been moved to one broker",
        format_counts({second: PARTITIONS}),
        count_leaders(stage.describe(TOPIC)),
    )


def _balanced(stage: Stage, daemon: Running, began: datetime) -> Iterator[Step]:
    """Wait until the autopilot has nothing left to do, and look at what it came to."""
    wait_until(
        lambda: bool(_decided(daemon, "ended")),
        "the autopilot's run ends",
        seconds=GIVE_UP_SECONDS,
    )
    acts, ends = _decided(daemon, "act"), _decided(daemon, "ended")
    why = [act["text"] for act in acts]
    yield Step("decisions of the autopilot to act", "some", _first(why), bool(why))
    seconds = (parse_time(ends[-1]["ended_at"]) - began).total_seconds()
    yield Step(
        "from all load on one broker to balanced",
        f"{format_duration(MOST_SECONDS)} at most",
        format_duration(seconds),
        seconds <= MOST_SECONDS,
    )
    moved = [f"{m['topic']}-{m['partition']}" for act in acts for m in act["moved"]]
    seen = f"{len(moved)}: {', '.join(moved)}"
    yield Step("partitions that it moved", "3 to 5", seen, 3 <= len(moved) <= 5)
    rows = stage.describe(TOPIC)
    led = Counter(row.leader for row in rows if row.leader is not None)
    each = [led[broker] for broker in stage.brokers]
    good = each == [PARTITIONS // 2] * 2
    yield Step("leaders, as Kafka's tool describes them", "4/4", count_leaders(rows), good)


def _rates(stage: Stage) -> Step:
    """Count what is produced to each broker for a while."""
    rows = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    connection = connect(Address(stage.sandbox.bootstrap))
    try:
        before = connection.client.fetch_offsets(rows, OffsetAt.LATEST)
        stage.report("counting what is produced to each broker")
        time.sleep(RATES_SECONDS)
        after = connection.client.fetch_offsets(rows, OffsetAt.LATEST)
        leader = {row.tp: row.leader for row in connection.client.describe_cluster().rows()}
    finally:
        connection.client.close()
    count = Counter[int]()
    for tp in rows:
        count[leader[tp]] += after[tp] - before[tp]
    mean = sum(count.values()) / len(stage.brokers)
    off = max(abs(count[broker] / mean - 1) for broker in stage.brokers) if mean else 1.0
    seen = ", ".join(f"{b}: {count[b] / mean if mean else 0:.0%}" for b in stage.brokers)
    return Step("produced to each broker, of its half", "within 10%", seen, off <= EVEN)


def _check_timeline(stage: Stage, began: datetime) -> Iterator[Step]:
    """Look for what the producer felt on the timeline."""
    since = ("--since", format_time(began))
    events = stage.document("timeline", *since, "--kind", "client,autopilot")
    texts = [event["text"] for event in events]
    errors = [text for text in texts if "NOT_LEADER_OR_FOLLOWER" in text]
    yield Step("NOT_LEADER errors on the timeline", "some", f"{len(errors)}", bool(errors))
    dips = [text for text in texts if "rate fell" in text]
    yield Step("the rate's dip on the timeline", "some", _first(dips), bool(dips))
    rate = [text for text in texts if "rate fell" in text or "rate recovered" in text]
    recovered = [text for text in rate if "rate recovered" in text]
    over = bool(dips) and "rate recovered" in rate[-1]
    yield Step("and its recovery, last of all", "told", _first(recovered), over)
    seconds = [float(s) for text in texts for s in re.findall(r"again after ([\d.]+) s", text)]
    yield Step(
        "each partition acknowledged again",
        f"within {RECOVERS_SECONDS:.0f} s",
        f"{len(seconds)}, after {max(seconds, default=0):.1f} s at most",
        0 < len(seconds) == len(errors) and max(seconds) <= RECOVERS_SECONDS,
    )
    decided = [text for text in texts if "decided to act" in text]
    yield Step("the decision on the timeline", "one at least", _first(decided), bool(decided))


def _off(stage: Stage, daemon: Running) -> Iterator[Step]:
    """Turn it off from elsewhere: its process ends."""
    answer = stage.document("autopilot", "--mode", "off")
    yield same("autopilot --mode off", "off", answer[0]["mode"])
    code = daemon.process.wait(60)
    yield same("its process, which ends by itself, with", 0, code)


def _decided(daemon: Running, what: str) -> list[dict[str, Any]]:
    return [event for event in daemon.events() if event["what"] == what]


def _first(texts: list[str]) -> str:
    return f"{len(texts)}: {texts[0]}" if texts else "none"
