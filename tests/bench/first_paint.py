"""First paint of the map on real brokers, beside Kafka's TopicCommand, in one run.

Process start to heat map on the terminal, and `TopicCommand --describe` to its end, in turn:
A B A B …; the median of each and their ratio go to a JSON document.
"""

from __future__ import annotations

import statistics
import time

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from tests.bench.harness import TRIMTAB, arguments, brokers, leave_and_print
from tests.terminal import Terminal

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


def measure(sandbox: Sandbox, topic: str) -> dict[str, object]:
    """Return both medians and the ratio, after one round that is not counted."""
    turns = [(first_paint(sandbox.bootstrap, topic), describe(sandbox)) for _ in range(ROUNDS + 1)]
    pairs = turns[1:]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {
        "rounds": ROUNDS,
        "first_paint_seconds": [round(pair[0], 3) for pair in pairs],
        "topic_command_seconds": [round(pair[1], 3) for pair in pairs],
        "first_paint_median_seconds": round(ours, 3),
        "topic_command_median_seconds": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
    }


def main() -> None:
    chosen = arguments(__doc__)
    with brokers("first-paint", racks=2) as sandbox:
        layout = [tuple(1 + (p + k) % 4 for k in range(3)) for p in range(12)]
        topics = [f"bench.topic-{number:02d}" for number in range(20)]
        create_topics(ConnectionSettings(sandbox.bootstrap), dict.fromkeys(topics, layout))
        leave_and_print(measure(sandbox, "bench.topic-"), chosen.output)


if __name__ == "__main__":
    main()
