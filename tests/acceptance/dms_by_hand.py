"""Partition balancing by hand: replicas added, chosen and removed; what is refused; the task list.

One run has a later start, another is cancelled; Kafka's tools say what became of each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import ExitCode
from tests.acceptance.scenario import Step, same, wait_until
from tests.acceptance.stage import ALLOWED, Stage, format_replicas

TOPIC = "by-hand"
SIZE_BYTES = 1_000_000
LEAST_SECONDS = 6
COMMANDS = 8
"""A later start is so many commands away: the list is read before it on a busy machine, too."""
CANCELLED = "cancelled"
CANCELLED_BYTES, CANCELLED_RATE = 12_000_000, "100kB/s"
"""Much more than the 11.5 s of its rate that a leader lets pass at once: it would take two minutes,
and a busy machine is in time, too."""


def refused(stage: Stage) -> Iterator[Step]:
    """Ask for what cannot be; nothing of it starts a run."""
    a, b = stage.brokers[:2]
    stage.make({TOPIC: [(a, b)] * 3}, SIZE_BYTES)
    runs = stage.document("runs", "ls")
    many, none = len(stage.brokers) + 1, max(stage.brokers) + 1
    twice = stage.plan("twice", {(TOPIC, 0): (a, b, b)})
    unknown = stage.plan("unknown", {(TOPIC, 0): (*stage.brokers, none)})
    for what, words, why in (
        ("two replicas on one broker", ("apply", twice, "--yes"), f"on broker {b} twice"),
        (
            f"{many} replicas on {many - 1} brokers, suggested",
            ("plan", "suggest", "--topics", TOPIC, "--rf", str(many)),
            f"{many} replicas on {many - 1} brokers",
        ),
        (
            "a replica on a broker that is not there",
            ("apply", unknown, "--yes"),
            f"on broker {none}, which the cluster does not have",
        ),
    ):
        answer = stage.trimtab(*words)
        message = " ".join(answer.stderr.removeprefix("trimtab: ").split())
        is_refused = why in message and answer.returncode in (ExitCode.USAGE, ExitCode.REFUSED)
        yield Step(what, f"refused: … {why} …", message or f"exit {answer.returncode}", is_refused)
    started = len(stage.document("runs", "ls")) - len(runs)
    yield same("runs that were started by that", 0, started)


def added_and_removed(stage: Stage) -> Iterator[Step]:
    """Add a replica, remove one, and choose where both of a third partition go; later.

    `refused` has made the topic.
    """
    a, b, c, d = stage.brokers[:4]
    wanted = [(a, b, c), (b,), (d, c)]
    plan = stage.plan("by-hand", {(TOPIC, p): replicas for p, replicas in enumerate(wanted)})
    before = time.monotonic()
    stage.document("estimate", plan, "--throttle", "-1")
    later = max(LEAST_SECONDS, math.ceil(COMMANDS * (time.monotonic() - before)))
    at, asked = f"apply --at +{later}s", time.time()
    run = _begun(stage, plan, "--at", f"+{later}s", "--throttle", "-1")
    yield same(f"{at}: its state in runs ls", "scheduled", _state(stage, run))
    code, events, _ = stage.follow("runs", "attach", run)
    began = min(_seconds(event) for event in events if event["event"] == "submitted") - asked
    yield Step(
        f"{at}: submitted after",
        f"{later} s or more",
        f"{began:.1f} s",
        began >= later,
    )
    yield same(f"{at}: how it ended", _end(ExitCode.DONE, "done"), _end(code, _state(stage, run)))
    rows = [row.replicas for row in stage.describe(TOPIC)]
    what = "added, removed and chosen by hand, as Kafka's tool describes it"
    yield same(what, format_replicas(wanted), format_replicas(rows))
    if not stage.short:
        done = stage.verified(plan)
        yield same("partitions that Kafka's tool finds completed", len(wanted), done)


def cancelled(stage: Stage) -> Iterator[Step]:
    """Stop a run while it copies: what has moved stays, what has not goes back, in its order."""
    a, b, c, d = stage.brokers[:4]
    stage.make({CANCELLED: [(c, b, a), (a, b, c)]}, CANCELLED_BYTES)
    plan = stage.plan("cancelled", {(CANCELLED, 0): (d, b, a), (CANCELLED, 1): (b, a, c)})
    run = _begun(stage, plan, "--throttle", CANCELLED_RATE)
    wait_until(lambda: _shown(stage, run)["moved_bytes"] > 0, "it copies")
    yield same("a run that copies: its state in runs ls", "running", _state(stage, run))
    code = stage.trimtab("runs", "cancel", run, "--yes").returncode
    yield same("runs cancel, its exit code", 0, code)
    code, _, _ = stage.follow("runs", "attach", run)
    ended = _end(code, _state(stage, run))
    yield same("how it ended", _end(ExitCode.INCOMPLETE, "cancelled"), ended)
    rows = [row.replicas for row in stage.describe(CANCELLED)]
    what = f"{CANCELLED}: the copy is taken back, the new order stays"
    yield same(what, format_replicas([(c, b, a), (b, a, c)]), format_replicas(rows))
    yield same("throttles that Kafka's tool shows", "none", stage.throttles())


def _begun(stage: Stage, plan: Path, *how: str) -> str:
    answer = stage.document("apply", plan, *how, *ALLOWED, "--yes", "--detach")
    return str(answer["run"])


def _end(code: int, state: str) -> str:
    return f"exit {code:d}, {state} in runs ls"


def _state(stage: Stage, run: str) -> str:
    """Return a run's state as the task list has it."""
    return next((str(r["state"]) for r in stage.document("runs", "ls") if r["run"] == run), "none")


def _shown(stage: Stage, run: str) -> Any:
    return stage.document("runs", "show", run)


def _seconds(event: Any) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()
