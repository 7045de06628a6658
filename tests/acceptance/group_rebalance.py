"""Group rebalance: consumers join and leave, a broker dies, three read about a third each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from core.units import counted, format_duration
from core.watch.client_health.health_detector import error_text
from core.watch.timeline.events import Kind
from core.watch.timeline.publisher import Publisher
from tests.acceptance.group_clients import ClientError, Heard, How, Reader, produce
from tests.acceptance.scenario import Scenario, Step, same, wait_until
from tests.acceptance.stage import Running, Stage

TOPIC = "xyz"
PARTITIONS = 3
RECORDS = 600
SHARES = (
    "1 member, 3 partitions",
    "2 members, 2+1 partitions",
    "3 members, 1+1+1 partitions",
    "4 members, 1+1+1 partitions, 1 idle",
)
LAST = "lost its last member"
TOLD_SECONDS = 30.0
ABOUT_A_THIRD = (0.2, 0.47)
"""Of 600 records by chance: five standard deviations on either side of a third."""


def play(stage: Stage) -> Iterator[Step]:
    recorder = stage.begin("recorded", "timeline", "--record", "--json")
    try:
        wait_until(lambda: "Recording" in recorder.path.read_text(), "the recorder runs")
        stage.make({TOPIC: [(broker,) for broker in stage.brokers[:PARTITIONS]]})
        wait_until(
            lambda: bool(_event_texts(recorder, "topic_created", TOPIC)), "the topic is told"
        )
        for protocol in ("classic",) if stage.short else ("classic", "consumer"):
            yield from _joined_and_left(stage, recorder, protocol)
        yield from _read_by_three(stage, recorder)
    finally:
        recorder.stop()


SCENARIO = Scenario(
    "group-rebalance",
    "Consumers join and leave one by one, a broker dies and returns; three read a third each.",
    (1, 2, 3),
    0,
    play,
    # Else a member of a group of the new protocol hears of a change within five seconds.
    overrides={
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    },
)


def _readers(stage: Stage, group: str, count: int, heard: Heard, protocol: str) -> list[Reader]:
    return [
        Reader(stage.settings, f"c{n}", group, TOPIC, heard, protocol=protocol)
        for n in range(1, count + 1)
    ]


# -- members come and go ---------------------------------------------------------------------------


def _joined_and_left(stage: Stage, recorder: Running, protocol: str) -> Iterator[Step]:
    """Have four consumers join one after another, and leave again."""
    group = f"{TOPIC}-{protocol}"
    readers = _readers(stage, group, len(SHARES), Heard(), protocol)
    try:
        for n, shares in enumerate(SHARES):
            stage.report(f"{readers[n].name} joins {group}")
            seen = _after(recorder, group, shares, readers[n].start)
            yield same(f"{group}, on the timeline as c{n + 1} joins", shares, seen)
            if n in (1, len(SHARES) - 1):
                yield same(f"{group}, as groups shows it", shares, _shown(stage, group))
        leaving = (len(SHARES) - 1,) if stage.short else range(len(SHARES) - 1, -1, -1)
        for n in leaving:
            shares = SHARES[n - 1] if n else LAST
            stage.report(f"{readers[n].name} leaves {group}")
            seen = _after(recorder, group, shares, readers[n].stop)
            yield same(f"{group}, on the timeline as c{n + 1} leaves", shares, seen)
    finally:
        for reader in readers:
            reader.stop()


def _after(recorder: Running, group: str, shares: str, change: Any) -> str:
    """Make a change, and return what the timeline tells of it: the shares, once they are told."""
    before = len(_event_texts(recorder, "group", group))
    change()
    deadline = time.monotonic() + TOLD_SECONDS
    while True:
        share_texts = [_shares(text) for text in _event_texts(recorder, "group", group)[before:]]
        if shares in share_texts:
            return shares
        if time.monotonic() > deadline:
            return "; ".join(share_texts) or "nothing"
        time.sleep(0.1)


def _event_texts(recorder: Running, kind: str, about: str) -> list[str]:
    """Return what was told of one kind about a group or a topic."""
    return [
        event["text"]
        for event in recorder.events()
        if kind in event["kinds"] and f"{kind.split('_')[0]} {about}" in event["text"]
    ]


def _shares(text: str) -> str:
    """Return what a sentence says of shares: `group g: rebalanced: 1 member, …; c2 left`."""
    return text.split(": ", 2)[-1].split(";")[0]


def _shown(stage: Stage, group: str) -> str:
    """Return the shares of a group as the command shows them."""
    (description,) = stage.document("groups", group)
    counts = sorted((len(m["assignment"]) for m in description["members"]), reverse=True)
    reading = "+".join(str(count) for count in counts if count)
    idle = sum(member["idle"] for member in description["members"])
    many = counted(len(counts), "member")
    return f"{many}, {reading} partitions{f', {idle} idle' if idle else ''}"


# -- what three read -------------------------------------------------------------------------------


def _read_by_three(stage: Stage, recorder: Running) -> Iterator[Step]:
    """Have three consumers read what two producers send, through leaving and a dead broker."""
    group = f"{TOPIC}-read"
    heard = Heard()
    readers = _readers(stage, group, PARTITIONS, heard, "classic")
    try:
        for reader in readers:
            reader.start()
        wait_until(lambda: all(len(r.assigned) == 1 for r in readers), "each has a partition")
        sent = 0
        for how in How:
            sent += RECORDS
            yield from _spread(stage, how)
        wait_until(lambda: len(_read(readers)) >= sent, "all is read")
        yield from _a_third_each(readers, sent)
        yield from _goes_on(stage, group, readers, sent)
        if not stage.short:
            yield from _broker_dies(stage, recorder, readers, heard)
    finally:
        for reader in readers:
            reader.stop()


def _read(readers: Sequence[Reader]) -> list[tuple[int, int]]:
    return [record for reader in readers for record in reader.read]


def _spread(stage: Stage, how: How) -> Iterator[Step]:
    stage.report(f"two producers send {RECORDS} records with {how.value}")
    keys_by_partition = produce(stage.settings, TOPIC, RECORDS, how, partitions=PARTITIONS)
    counts = [len(keys_by_partition[p]) for p in range(PARTITIONS)]
    seen = "+".join(map(str, counts))
    what = f"records by partition, with {how.value}"
    if how is How.EXPLICIT:
        yield same(what, "+".join([str(RECORDS // PARTITIONS)] * PARTITIONS), seen)
        return
    low, high = (round(share * RECORDS) for share in ABOUT_A_THIRD)
    even = sum(counts) == RECORDS and low <= min(counts) and max(counts) <= high
    yield Step(what, f"{low} to {high} each, {RECORDS} in all", seen, even)
    if how is How.KEYS:
        places = [{key for key in keys if key is not None} for keys in keys_by_partition.values()]
        twice = sum(len(places[a] & places[b]) for a in range(PARTITIONS) for b in range(a))
        yield same("keys that were sent to two partitions", 0, twice)


def _a_third_each(readers: Sequence[Reader], sent: int) -> Iterator[Step]:
    counts = [len(reader.read) for reader in readers]
    low, high = (round(share * sent) for share in ABOUT_A_THIRD)
    about = low <= min(counts) and max(counts) <= high
    yield Step("records read by each", f"{low} to {high}", "+".join(map(str, counts)), about)
    yield same("records read once, of those sent", sent, len(set(_read(readers))))
    yield same("records read twice", 0, sum(counts) - len(set(_read(readers))))


def _goes_on(stage: Stage, group: str, readers: Sequence[Reader], sent: int) -> Iterator[Step]:
    """Have one leave and come back: it begins where the group has committed."""
    *others, last = readers
    stage.report(f"{last.name} leaves, and comes back")
    last.stop()
    wait_until(lambda: sum(len(r.assigned) for r in others) == PARTITIONS, "others took over")
    produce(stage.settings, TOPIC, RECORDS, How.EXPLICIT, partitions=PARTITIONS)
    wait_until(lambda: len(_read(readers)) >= sent + RECORDS, "all is read")
    wait_until(lambda: _committed(stage, group)[0] == 0, "all is committed")
    committed = _committed(stage, group)[1]
    before = len(last.read)
    last.start()
    wait_until(lambda: all(len(r.assigned) == 1 for r in readers), "each has a partition again")
    produce(stage.settings, TOPIC, RECORDS, How.EXPLICIT, partitions=PARTITIONS)
    wait_until(lambda: len(_read(readers)) >= sent + 2 * RECORDS, "all is read")
    partition, offset = last.read[before]
    yield same(
        f"first offset that {last.name} reads as it is back: what was committed",
        f"{TOPIC}-{partition} at {committed[partition]}",
        f"{TOPIC}-{partition} at {offset}",
    )
    every = _read(readers)
    yield same("records read twice, since it came back too", 0, len(every) - len(set(every)))
    yield same("records read in all", sent + 2 * RECORDS, len(set(every)))


def _committed(stage: Stage, group: str) -> tuple[int | None, dict[int, int]]:
    """Return a group's lag, and the offset it has committed of each partition."""
    (description,) = stage.document("groups", group)
    return description["lag"], {p["partition"]: p["committed"] for p in description["partitions"]}


# -- a broker dies ---------------------------------------------------------------------------------


def _broker_dies(
    stage: Stage, recorder: Running, readers: Sequence[Reader], heard: Heard
) -> Iterator[Step]:
    """Kill the first broker, and start it again: what clients say, and that they recover."""
    broker = stage.brokers[0]
    sent = len(set(_read(readers)))
    with Publisher(stage.sandbox.cluster_id) as teller:
        client_errors: set[tuple[str, str]] = set()

        def publish_errors() -> bool:
            """Tell the timeline what clients were told, each kind of error once a client."""
            for error in list(heard.errors):
                if (key := (error.client, error.name)) not in client_errors:
                    client_errors.add(key)
                    teller.report(
                        Kind.CLIENT, by=f"consumer {error.client}", text=_error_note(error)
                    )
            return any(client == hit.name for client, _ in client_errors)

        # Who reads from others has no connection to it, and may hear nothing.
        hit = next(reader for reader in readers if reader.assigned == {0})
        heard.errors.clear()
        stage.report(f"killing broker {broker}")
        stage.sandbox.kill(broker)
        wait_until(publish_errors, f"{hit.name} has heard of it")
        wait_until(
            lambda: bool(_broker(recorder, f"broker {broker} went down")), "its death is told"
        )
        publish_errors()
        names = sorted({error_text(name) for _, name in client_errors})
        yield Step(
            f"clients' errors while broker {broker} is dead",
            "transport failure among them",
            ", ".join(names),
            "transport failure" in names,
        )
        stage.report(f"starting broker {broker}")
        stage.sandbox.start(broker)
        back = time.monotonic()
        produce(stage.settings, TOPIC, RECORDS, How.EXPLICIT, partitions=PARTITIONS)
        wait_until(lambda: len(set(_read(readers))) >= sent + RECORDS, "all is read again")
        took = hit.read_at - back
        text = f"read again {format_duration(took)} after broker {broker} was back"
        teller.report(Kind.CLIENT, by=f"consumer {hit.name}", text=text, brokers=(broker,))
    yield same("records read since, of those sent", RECORDS, len(set(_read(readers))) - sent)
    wait_until(lambda: bool(_broker(recorder, f"broker {broker} is back")), "its return is told")
    events = stage.document("timeline", "--kind", "client")
    seen = [event["text"] for event in events if f"consumer {hit.name}" in event["text"]]
    order = ["was told" in text for text in seen]
    yield Step(
        f"what the timeline has of {hit.name}, which read from broker {broker}",
        "errors, then its recovery",
        "; ".join(seen),
        len(order) > 1 and order[0] and "read again" in seen[-1],
    )


def _broker(recorder: Running, text: str) -> list[str]:
    return [e["text"] for e in recorder.events() if e["text"].startswith(text)]


def _error_note(error: ClientError) -> str:
    return f"was told: {error_text(error.name)}"
