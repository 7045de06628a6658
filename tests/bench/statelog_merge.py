"""A million lines of eight brokers' state-change logs, merged: the time, and the memory at most.

Each broker writes what Kafka 4 brokers write about elections, ISR changes and restarts, at a clock
of its own; one log is gz, one is rotated. The command runs in a process of its own, and once more
on a tenth of the lines: its memory must not grow with them.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast

from tests.bench.harness import arguments, home_folder, leave_and_print, run_measured

BROKERS = 8
LINES = 1_000_000
TOPICS = 200
PARTITIONS = 24
TURNS = 3
TOPIC_ID = "zZBg-1TQR2aAmKgVpr87eg"
START = datetime(2026, 1, 31, 2, tzinfo=UTC)


def story(lines: int) -> Iterator[tuple[int, int, str]]:
    """Yield (milliseconds, broker, message) of elections and ISR changes; `lines` of them."""
    chance = random.Random(7)
    epochs: dict[tuple[int, int], tuple[int, int]] = {}
    at, count = 0, 0
    while count < lines:
        at += 500 + chance.randrange(2000)
        applied = [at + chance.randrange(200) for _ in range(BROKERS + 1)]
        for _ in range(chance.randrange(1, 40)):
            topic, partition = chance.randrange(TOPICS), chance.randrange(PARTITIONS)
            replicas = [1 + (topic + partition + step) % BROKERS for step in (0, 1, 3)]
            leader = chance.choice(replicas)
            epoch, version = epochs.get((topic, partition), (0, 0))
            elected = chance.random() < 0.6
            epochs[topic, partition] = epoch, version = epoch + elected, version + 1
            name = f"orders.topic-{topic:03}-{partition}"
            for broker in replicas:
                text = _message(name, replicas, leader, broker, epoch, version, elected)
                applied[broker] += chance.randrange(2)
                yield applied[broker], broker, text
                count += 1
                if count == lines:
                    return


def _message(
    name: str,
    replicas: list[int],
    leader: int,
    broker: int,
    epoch: int,
    version: int,
    elected: bool,
) -> str:
    role = "leader" if broker == leader else "follower"
    isr = ",".join(map(str, replicas))
    if not elected:
        spaced = isr.replace(",", ", ")
        return (
            f"Skipped the become-{role} state change for {name} with topic id Some({TOPIC_ID}), "
            f"partition registration PartitionRegistration(replicas=[{spaced}], directories="
            f"[gfW1LFOCKAFU8an8ks-JWA, HMZAEx4BUe_RPdSTUxOO3g, cn0XeVLLyvn7WBH6XZMPAA], isr="
            f"[{spaced}], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader="
            f"{leader}, leaderRecoveryState=RECOVERED, leaderEpoch={epoch}, partitionEpoch="
            f"{version}) and isNew=false since it is already the {role} with leader epoch {epoch}."
        )
    if broker == leader:
        return (
            f"Leader {name} with topic id Some({TOPIC_ID}) starts at leader epoch {epoch} from "
            f"offset {epoch * 17} with partition epoch {version}, high watermark 9, ISR [{isr}], "
            f"adding replicas [] and removing replicas [] . Previous leader Some({replicas[0]}) "
            f"and previous leader epoch was {epoch - 1}."
        )
    return (
        f"Follower {name} starts at leader epoch {epoch} from offset {epoch * 17} with partition "
        f"epoch {version} and high watermark 9. Current leader is {leader}. Previous leader "
        f"Some({replicas[0]}) and previous leader epoch was {epoch - 1}."
    )


def write(folder: Path, lines: int) -> int:
    """Write the brokers' logs; return their bytes, unpacked."""
    size = 0
    with ExitStack() as opened:
        logs: dict[int, IO[str]] = {}
        for broker in range(1, BROKERS + 1):
            place = folder / f"broker-{broker}"
            place.mkdir(parents=True)
            name = {1: "state-change.log.gz", 2: "state-change.log.2026-01-31-02"}.get(broker)
            path = place / (name or "state-change.log")
            log = open_packed(path) if broker == 1 else path.open("w")
            logs[broker] = opened.enter_context(log)
        for number, (at, broker, text) in enumerate(story(lines)):
            if number == lines // 2:
                rotated = folder / "broker-2" / "state-change.log"
                logs[2] = opened.enter_context(rotated.open("w"))
            moment = START + timedelta(milliseconds=at + 40 * broker)
            stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"
            size += logs[broker].write(
                f"[{stamp}] INFO [Broker id={broker}] {text} (state.change.logger)\n"
            )
    return size


def open_packed(path: Path) -> IO[str]:
    return cast(IO[str], gzip.open(path, "wt", compresslevel=1))


def merge(folder: Path, into: Path, *more: str) -> dict[str, Any]:
    """Return what one merge took, in processes of its own."""
    done = run_measured("statelog", "merge", str(folder), "-o", str(into), *more)
    assert done.code == 0
    return done.spent


def main() -> None:
    chosen = arguments(__doc__)
    with home_folder() as home:
        whole, tenth, into = home / "whole", home / "tenth", home / "merged"
        size = write(whole, LINES)
        write(tenth, LINES // 10)
        turns = [merge(whole, into) for _ in range(TURNS)]
        merged = sum(not line.startswith(("#", "\n")) for line in into.open())
        assert merged == LINES, merged
        measured = {
            "brokers": BROKERS,
            "lines": LINES,
            "bytes": size,
            "turns": turns,
            "json": merge(whole, into, "--json"),
            "one_topic": merge(whole, into, "--topic", "orders.topic-007"),
            "tenth": merge(tenth, into),
        }
    leave_and_print(measured, chosen.output)


if __name__ == "__main__":
    main()
