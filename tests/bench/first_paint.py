"""First paint of the map on real brokers, beside Kafka's TopicCommand, in one run.

Process start to heat map on the terminal, and `TopicCommand --describe` to its end, in turn:
A B A B …; the median of each and their ratio go to a JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from core.cluster.sandbox.sandbox import Sandbox
from tests.bench.report import leave
from tests.terminal import Terminal

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
ROUNDS = 5


def first_paint(bootstrap: str, topic: str) -> float:
    """Return seconds from process start until a row of the heat map is on the terminal."""
    with Terminal([TRIMTAB, "-b", bootstrap, "--no-load"]) as terminal:
        terminal.wait_for(topic)
        seconds = time.monotonic() - terminal.started
        terminal.send("q")
        terminal.wait_for_exit()
    return seconds


def describe(sandbox: Sandbox) -> float:
    """Return seconds of `TopicCommand --describe`, process start to end."""
    started = time.monotonic()
    done = sandbox.tool(TOPIC_COMMAND, "--bootstrap-server", sandbox.bootstrap, "--describe")
    assert done.returncode == 0, done.stderr
    return time.monotonic() - started


def measure(sandbox: Sandbox, topic: str, rounds: int = ROUNDS) -> dict[str, object]:
    """Return both medians and the ratio, after one round that is not counted."""
    pairs = [(first_paint(sandbox.bootstrap, topic), describe(sandbox)) for _ in range(rounds + 1)][
        1:
    ]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {
        "rounds": rounds,
        "first_paint_seconds": [round(pair[0], 3) for pair in pairs],
        "topic_command_seconds": [round(pair[1], 3) for pair in pairs],
        "first_paint_median_seconds": round(ours, 3),
        "topic_command_median_seconds": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--name", default="bench-first-paint", help="Name of the sandbox.")
    arguments = parser.parse_args()
    sandbox = Sandbox.up(
        arguments.name, racks=2, replace=True, say=lambda text: print(text, file=sys.stderr)
    )
    try:
        for number in range(20):
            topic = f"bench.topic-{number:02d}"
            done = sandbox.tool(
                TOPIC_COMMAND,
                "--bootstrap-server",
                sandbox.bootstrap,
                "--create",
                "--topic",
                topic,
                "--partitions",
                "12",
                "--replication-factor",
                "3",
            )
            assert done.returncode == 0, done.stderr
        result = measure(sandbox, "bench.topic-")
    finally:
        sandbox.down()
    leave(result, arguments.output)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
