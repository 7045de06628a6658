"""What is said before anything starts: disks, retention, topics to leave alone, who may fail.

What retention can save is then carried out, and put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import ExitCode
from core.units import format_bytes
from tests.acceptance.scenario import Step, same
from tests.acceptance.stage import Stage

TOPIC = "warned"
SIZE_BYTES = 2_000_000
AGED = "aged"
AGED_BYTES = 20_000_000
KEPT_MS = "86400000"


def check_warnings(stage: Stage) -> Iterator[Step]:
    """Ask what speaks against a move, and apply it without a yes: all is said, nothing starts."""
    a, b, c = stage.brokers[:3]
    stage.make({TOPIC: [(a, b)]}, SIZE_BYTES, {"retention.ms": KEPT_MS})
    plan = stage.plan("warned", {(TOPIC, 0): (c, b)})
    if not stage.short:
        yield from _of_room(stage, plan, c)
    answer = stage.trimtab("apply", plan, "--throttle", "-1")
    yield same("apply without a yes, its exit code", ExitCode.USAGE.value, answer.returncode)
    for sentence in (
        "Until it ends, delete none of these topics and add no partitions to them.",
        "Producers that do not retry may fail as 1 leader changes.",
    ):
        seen = "is said" if sentence in answer.stderr else "is not"
        yield same(f"before it asks: {sentence}", "is said", seen)
    (row,) = stage.describe(TOPIC)
    yield same("replicas then", (a, b), row.replicas)


def _of_room(stage: Stage, plan: Path, full: int) -> Iterator[Step]:
    """Ask of a saved picture on which a broker is `full`, and nothing is produced."""
    saved = stage.write("saved", _quiet(stage.document("show"), full=full))
    check = stage.document("--from", saved, "plan", "check", plan, offline=True)
    texts = [f["sentence"] for f in check["findings"] if f["id"] == "disk" and not f["allowed"]]
    yield Step(
        f"plan check, with 1 MB free on broker {full}",
        f"refused: disk, broker {full}",
        " ".join(texts) or "nothing about its disk",
        not check["ok"] and bool(texts) and texts[0].startswith(f"Broker {full} has 1.0 MB free"),
    )
    size = stage.document("plan", "show", plan)["bytes"]
    options = ("plan", "impact", plan, "--retention", "1s")
    shrinking = stage.document("--from", saved, *options, offline=True)["shrinking"]
    most = 0 if shrinking is None else shrinking["most_bytes"]
    yield same("plan impact: a retention of 1 s saves", *map(_up_to, (size, most)))


def shortened(stage: Stage) -> Iterator[Step]:
    """Let a run lower retention first: little is left to copy, and retention is as it was."""
    a, b, c = stage.brokers[:3]
    # Old records go with whole segments.
    configs = {"retention.ms": KEPT_MS, "segment.bytes": "1048576"}
    stage.make({AGED: [(a, b)]}, AGED_BYTES, configs)
    plan = stage.plan("aged", {(AGED, 0): (c, b)})
    before = stage.document("plan", "show", plan)["bytes"]
    code, events, _ = stage.follow(
        *("apply", plan, "--retention", "1s", "--throttle", "-1", "--allow", "rack-spread", "--yes")
    )
    yield same("apply --retention 1s, its exit code", ExitCode.DONE.value, code)
    shown = stage.document("runs", "show", events[-1]["run"])
    left = shown["total_bytes"]
    what = f"to copy, of {format_bytes(before)}, once old records had gone"
    yield Step(what, "a tenth at most", format_bytes(left), left <= before / 10)
    story = [event["kind"] for event in shown["story"]]
    steps = ("retention_lowered", "retention_awaited", "submitted", "moved", "retention_restored")
    kinds = [kind for kind in story if kind in steps]
    yield same("its story", ", ".join(steps), ", ".join(kinds))
    journal = [
        f"{change['before']}, {' '.join(change['during'])}, {change['after']} as before"
        for change in shown["configs"]
        if (change["name"], change["config"]) == (AGED, "retention.ms")
    ]
    expected = f"{KEPT_MS}, 1000, set as before"
    yield same("its retention in the journal", expected, "; ".join(journal))
    config_text = stage.configs("topics", AGED)
    kept = KEPT_MS if f"retention.ms={KEPT_MS} " in config_text else config_text.strip()
    yield same("its retention, as Kafka's tool shows it", KEPT_MS, kept)
    yield same("partitions that Kafka's tool finds completed", 1, stage.verified(plan))


def _quiet(document: Any, *, full: int) -> Any:
    """Return a cluster document to which nothing is produced, with 1 MB free on one broker.

    Its log dirs lie on one disk, as all of a sandbox do.
    """
    for broker in document["brokers"]:
        for log_dir in broker["log_dirs"]:
            if broker["id"] == full:
                log_dir["usable_bytes"] = 1_000_000
    for partition in document["partitions"]:
        partition["in_bytes_per_s"] = 0.0
    return document


def _up_to(size_bytes: int) -> str:
    return f"up to {format_bytes(size_bytes)}"
