"""What the command line prints is what docs/schemas promises, for every command with --json."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from cli_help import SCHEMAS, validator, with_option
from clusters import MB, cluster, load_of
from in_process import Hand, Trimtab
from offline import Here
from run_help import cluster as simulated
from snapshots import make_snapshot
from watch_help import record_night

from core import paths
from core.cli.load import pipeline
from core.cli.main import COMMANDS, root
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox import load_overrides
from core.cluster.sandbox.nodes import plan_nodes
from core.cluster.sandbox.sandbox import Sandbox
from core.daemons.lease import hold_lease
from core.daemons.process import Process
from core.load import load_paths as layout
from core.load.snapshot import writer as published
from core.load.snapshot.manifest import read_manifest
from core.pipeline.job import Published
from core.pipeline.ledger import Batch
from core.pipeline.rebuild import Rebuilt
from core.watch.timeline.events import Event
from core.watch.timeline.recorder import Recorder

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[3] / "docs"


def promised() -> dict[str, list[str]]:
    """Return the schemas of each command, from the table in docs/formats.md."""
    rows = re.findall(r"^\| `([a-z ]+)` \| (`.*) \|$", (DOCS / "formats.md").read_text(), re.M)
    return {command: re.findall(r"`([a-z-]+[a-z])`", names) for command, names in rows}


def schemas_of(command: str) -> list[str]:
    """Return a command's schemas; options beside them in the table begin with dashes."""
    return [name for name in promised()[command] if not name.startswith("--")]


def no_number(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def validate(command: str, text: str, schema: str | None = None) -> Any:
    """Hold what a command printed against its schema, `schema` if it has several."""
    document = json.loads(text, parse_constant=no_number)
    names = schemas_of(command)
    assert schema in names if schema else len(names) == 1, names
    validator(schema or names[0]).validate(document)
    return document


# -- the table is whole ----------------------------------------------------------------------------


def test_every_command_with_json_has_a_schema_and_is_tried_here() -> None:
    assert COMMANDS
    commands = sorted(with_option(root, "--json"))
    assert commands == list(promised())
    tried = {words for _, words, _ in OFFLINE} | set(LOAD) | {words for words, _ in SANDBOX}
    assert commands == sorted(tried | LIVE)


def test_every_schema_belongs_to_a_command() -> None:
    used = {name for command in promised() for name in schemas_of(command)}
    assert used == {path.stem for path in SCHEMAS.glob("*.json")}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_schemas(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


# -- on a saved cluster ----------------------------------------------------------------------------

OFFLINE = [
    ("plan-check", "plan check", ({"t0": [0, 1, 2]},)),
    ("plan-check", "plan check", ({"t0": [0, 2]}, "--throttle", "1MB/s")),
    ("plan-show", "plan show", ({"t0": [1, 0], "t1": [1, 3]},)),
    ("plan-diff", "plan diff", ({"t0": [1, 0], "t1": [1, 2], "t7": [1]},)),
    ("plan-suggest", "plan suggest", ()),
    ("plan-suggest", "plan suggest", ({}, "--drain", "3", "--within", "1h")),
    ("plan-impact", "plan impact", ({"t0": [3, 1], "t1": [1, 3]},)),
    ("plan-suggest-disks", "plan suggest", ({}, "--disks")),
    ("plan-rebase", "plan rebase", ({"t0": [0, 1], "t1": [3, 2], "t7": [1]},)),
    ("plan-place", "plan place", ({}, "new", "--partitions", "4")),
    ("plan-place", "plan place", ({}, "new", "--partitions", "4", "--rule", "kafka")),
    ("plan", "plan inverse", ({"t0": [1, 0], "t1": [1, 3]},)),
    ("estimate", "estimate", ({"t0": [0, 2], "t1": [3, 2]}, "--throttle", "10MB/s")),
    ("estimate", "estimate", ({"t0": [0, 2]}, "--throttle", "1MB/s")),
    ("estimate", "estimate", ({"t0": [0, 2]}, "--throttle", "-1")),
    ("estimate", "estimate", ({"t0": [0, 2]}, "--within", "1m")),
    ("estimate", "estimate", ({"t0": [0, 2]}, "--within", "1s")),
    ("estimate", "estimate", ({"t0": [1, 0]}, "--throttle", "10MB/s")),
    ("estimate-rates", "estimate", ({"t0": [0, 2], "t1": [3, 2]},)),
    ("verify", "verify", ({"t0": [0, 1], "t1": [3, 2], "t7": [1]},)),
    ("cluster", "show", ()),
]


JBOD = {
    "t-0": [{"broker": 1, "size_bytes": 9 * MB, "log_dir": "/d1"}],
    "t-1": [{"broker": 1, "size_bytes": 9 * MB, "log_dir": "/d1"}],
}


def test_of_log_dirs(saved: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suggestion between log dirs, and what is said of its plan by the other commands."""
    document = json.loads(saved.cluster.read_text())
    room = {"total_bytes": 900 * MB, "usable_bytes": 900 * MB}
    document["brokers"] = [
        {"id": 1, "alive": True, "log_dirs": [{"path": p, **room} for p in ("/d1", "/d2")]}
    ]
    row = {"topic": "t", "leader": 1, "replicas": [1], "isr": [1], "size_bytes": 9 * MB}
    document["partitions"] = [
        row | {"partition": int(name[2:]), "replica_detail": detail}
        for name, detail in JBOD.items()
    ]
    saved.write("cluster.json", document)
    words = ("plan", "suggest", "--disks", "--json")
    found = validate("plan suggest", saved.run(*words)[1], "plan-suggest-disks")
    assert (found["moves"], found["reached"]) == (1, True)
    both = validate("plan suggest", saved.run(*words, "--balance")[1], "plan-suggest")
    assert both["log_dirs"]["moves"] == 1
    assert both["plan"]["partitions"] == found["plan"]["partitions"]
    text = saved.run("plan", "suggest", "--disks", "--balance")[1]
    assert "Nothing to do between brokers: it is so already." in text
    assert "1 replica to copy within their brokers (9.0 MB); about" in text
    plan = str(saved.write("dirs.json", found["plan"]))
    validate("plan inverse", json.dumps(found["plan"]))
    assert validate("verify", saved.run("verify", plan, "--json")[1])["verified"] is False
    shown = validate("plan show", saved.run("plan", "show", plan, "--json")[1])
    assert shown["partitions"][0]["log_dirs"] == [{"broker": 1, "path": "/d2"}]
    (row,) = validate("plan diff", saved.run("plan", "diff", plan, "--json")[1])["differences"]
    assert (row["first_log_dirs"], row["second_log_dirs"]) == (["/d1"], ["/d2"])
    at = validate(
        "estimate", saved.run("estimate", plan, "--throttle", "1MB/s", "--json")[1], "estimate"
    )
    assert at["limit"] == {"broker": 1, "side": "log-dirs"}
    validate("plan impact", saved.run("plan", "impact", plan, "--json")[1])
    validate("plan check", saved.run("plan", "check", plan, "--json")[1])
    text = saved.run("plan", "suggest", "--disks")[1]
    assert "b1 /d1 200% → 100%" in text
    assert "1 replica to copy within their brokers (9.0 MB); about" in text
    monkeypatch.setattr("core.plan.estimate.quick_estimate.LAID_OUT_SECONDS", 60.0)
    hurried = ("--time-budget", "60s", "--within", "1h")
    found = validate("plan suggest", saved.run(*words, *hurried)[1], "plan-suggest-disks")
    assert 0 < found["seconds"] <= 3600
    assert "may be too low" in found["notes"][-1]
    text = saved.run("plan", "suggest", "--disks", *hurried)[1]
    assert "1 replica to copy within their brokers (9.0 MB); at least" in text
    assert "may be too low" in text


@pytest.mark.parametrize(("schema", "command", "more"), OFFLINE)
def test_on_a_saved_cluster(saved: Here, schema: str, command: str, more: Any) -> None:
    targets, *options = more or ({},)
    plan = [saved.plan(**targets)] if targets else []
    validate(command, saved.run(*command.split(), *plan, *options, "--json")[1], schema)


def test_cluster_documents() -> None:
    state = cluster(
        {"t-0": [0, 1], "t-1": [1, 2]},
        racks={0: "a"},
        size_bytes={"t-0": MB},
        disk_bytes=(10 * MB, 5 * MB),
        isr={"t-1": [1]},
    )
    load = load_of(state, {"t-0": 1.5})
    document = document_to_json(ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s))
    validate("show", json.dumps(document))


# -- load ------------------------------------------------------------------------------------------

Printed = Callable[..., str]


@pytest.fixture
def printed(trimtab: Trimtab) -> Printed:
    """Return what a command prints on stdout; it must not fail."""

    def prints(*words: str | Path) -> str:
        code, out, err = trimtab(*words)
        assert code in (0, 6), err
        return out

    return prints


class PublishedBefore:
    """A job that has nothing to do but to tell of a batch."""

    def __init__(self, batch: Published, tell: Any) -> None:
        self._batch, self._tell = batch, tell

    def once(self) -> None:
        self._tell(self._batch)

    def run(self, seconds: float, keep_on: Any) -> None:
        self._tell(Published(self._batch.batch, None))
        self._tell(self._batch)


LOAD = {
    "pipeline once": ["--root"],
    "pipeline run": ["--root"],
    "pipeline status": ["--root"],
    "pipeline rebuild": ["--yes", "--root"],
    "snapshot ls": [],
    "snapshot show": [],
    "snapshot verify": [],
}


@pytest.mark.parametrize("command", LOAD)
def test_of_load(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    layout.spool(tmp_path, "abc-DEF_1").mkdir(parents=True)
    batch = Batch("q-1", datetime(2026, 1, 1, tzinfo=UTC), True, 3, 2, 1, 0, {"negative": 1})

    @contextmanager
    def job(root: Path, cluster_id: str, tell: Any, *, quick: bool = False) -> Iterator[Any]:
        yield PublishedBefore(Published(batch, read_manifest(root, cluster_id)), tell)

    @contextmanager
    def session(*, quick: bool) -> Iterator[Any]:
        yield SimpleNamespace(spark=None)

    def rebuilt(*_: Any) -> Rebuilt:
        return Rebuilt(read_manifest(tmp_path, "abc-DEF_1"), 3, batch.began_at, 9, 1)

    monkeypatch.setattr(pipeline, "_job", job)
    monkeypatch.setattr(pipeline, "_session", session)
    monkeypatch.setattr("core.pipeline.rebuild.rebuild", rebuilt)
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    place = [*LOAD[command], str(tmp_path)] if LOAD[command] else []
    words = ["--snapshots", str(tmp_path), *command.split(), *place, "--json"]
    out = printed(*words)
    for number, handler in before.items():
        signal.signal(number, handler)
    for document in out.splitlines() if command == "pipeline run" else [out]:
        validate(command, document)


def test_pipeline_status_before_the_first_snapshot(tmp_path: Path, printed: Printed) -> None:
    layout.spool(tmp_path, "c").mkdir(parents=True)
    out = printed("pipeline", "status", "--root", tmp_path, "--json")
    assert validate("pipeline status", out)["snapshot_id"] is None


# -- a sandbox, whose nodes need not run -----------------------------------------------------------

SANDBOX = [
    ("sandbox up", []),
    ("sandbox status", []),
    ("sandbox kill", ["1"]),
    ("sandbox stop", ["1"]),
    ("sandbox start", ["1"]),
    ("sandbox fill", ["1"]),
    ("sandbox consumer", ["billing"]),
    ("sandbox skew", ["--undo"]),
    ("sandbox load", ["--detach"]),
    ("sandbox load", []),
    ("sandbox down", []),
]


@pytest.mark.parametrize(("command", "more"), SANDBOX)
def test_of_a_sandbox(
    command: str, more: list[str], monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    folder = paths.sandbox_dir("default")
    folder.mkdir(parents=True)
    nodes = plan_nodes(folder, (1, 2), racks=1, controllers=1)
    folders.write_state(
        folder, folders.SandboxState("c", "4.0.0", True, nodes, {1: Process(2**30, "x")})
    )
    monkeypatch.setattr(Sandbox, "up", lambda *words, **more: Sandbox.open("default"))
    monkeypatch.setattr(Sandbox, "start", lambda *words: None)
    monkeypatch.setattr(Sandbox, "start_workload", lambda *words: Process.this())
    monkeypatch.setattr("core.cluster.sandbox.workload.run_workload", lambda *words: None)
    monkeypatch.setattr("core.cluster.drills.sandbox_target._fill", lambda *words: True)
    with hold_lease(
        load_overrides.overrides_lease(Sandbox.open("default").overrides_path)
    ):  # as a load would
        validate(command, printed(*command.split(), *more, "--json"))


# -- what was recorded -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        ("timeline", ()),
        ("timeline-summary", ("--summary",)),
        ("cluster", ("--at", "2026-03-01T03:00:30Z")),
    ],
)
def test_of_a_timeline(schema: str, more: Any, printed: Printed) -> None:
    record_night()
    assert validate("timeline", printed("timeline", *more, "--json"), schema)


# -- on a living cluster ---------------------------------------------------------------------------

LIVE = {
    "statelog merge",  # of files: in test_cli_statelog.py
    "probe",  # in test_cli_probe.py
    *("apply", "runs attach", "runs cancel", "runs ls", "runs show"),
    *(f"runs {request}" for request in ("pause", "resume", "throttle", "skip", "retry")),
    *("runs retarget", "runs rollback"),
    *("audit ls", "audit verify", "collect", "doctor", "throttles clear", "throttles ls"),
    *("elect", "groups", "replicas verify", "timeline"),
    *("autopilot", "autopilot log", "autopilot status"),
    *("topics alter", "topics create", "topics delete", "topics describe", "topics ls"),
}


@pytest.fixture
def at(hand: Hand) -> Printed:
    """Return what a command prints on a small cluster, in this process; it must not fail."""
    hand.on(simulated({"orders": [(1, 2), (2, 3)]}, in_bytes_per_s=1.0 * MB))

    def prints(*words: str) -> str:
        code, out, err = hand(*words)
        assert code in (0, 6), err
        return out

    return prints


class StopsAfter:
    """A signal that comes once it was looked for so often."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_doctor(at: Printed) -> None:
    validate("doctor", at("doctor", "--json"))


def test_the_audit(at: Printed) -> None:
    at("elect", "--yes")
    at("topics", "create", "new", "--partitions", "1", "--rf", "1", "--yes")
    assert validate("audit ls", at("audit", "ls", "--json"))
    assert validate("audit verify", at("audit", "verify", "--json"))["problem"] is None


def test_collect(at: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("collect", "--interval", "0.1s", "--root", str(tmp_path / "load"), "--json")
    validate("collect", at(*words, "--once"), "collect-once")
    stops = StopsAfter(2)
    monkeypatch.setattr("core.cli.load.collect.stop_signals", lambda: stops)
    lines = at(*words).splitlines()
    assert lines
    for line in lines:
        validate("collect", line, "collect")


def test_recording(at: Printed, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Recorder.look

    def look_and_reorder(recorder: Recorder) -> list[Event]:
        found = looked(recorder)
        row = hand.cluster.describe_cluster().row(0)
        hand.cluster.alter_reassignments({row.tp: (row.replicas[-1], *row.replicas[:-1])})
        return found

    monkeypatch.setattr(Recorder, "look", look_and_reorder)
    stops = StopsAfter(8)
    monkeypatch.setattr("core.cli.timeline.record.stop_signals", lambda: stops)
    lines = at("timeline", "--record", "--json").splitlines()
    assert lines
    for line in lines:
        validate("timeline", line, "timeline-event")


def test_an_autopilot(at: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.cli.autopilot.autopilot.stop_signals", lambda: StopsAfter(2))
    words = (
        "--no-load",
        "autopilot",
        "--mode",
        "suggest",
        "--lasting",
        "0s",
        "--avoid",
        "sun 1:00-2:00",
    )
    lines = at(*words, "--json").splitlines()
    assert lines
    for line in lines:
        validate("autopilot", line, "autopilot-entry")
    (stands,) = validate("autopilot status", at("autopilot", "status", "--json"))
    assert (stands["mode"], stands["flying"]) == ("suggest", False)
    validate("autopilot", at("autopilot", "--json"), "autopilot-status")
    (off,) = validate("autopilot", at("autopilot", "--mode", "off", "--json"), "autopilot-off")
    assert off["cluster_id"] == stands["cluster_id"]
    told = validate("autopilot log", at("autopilot", "log", "--json"))
    assert (told[0]["what"], told[-1]["what"]) == ("switch", "switch")
