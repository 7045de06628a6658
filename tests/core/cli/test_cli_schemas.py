"""What the command line prints is what docs/schemas promises, for every command with --json."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from cli_help import with_option
from clusters import MB
from in_process import Hand, Trimtab
from json_schemas import SCHEMAS, check_answer, promised
from offline import Here
from run_help import cluster as simulated
from snapshots import make_snapshot

from core import paths
from core.cli.load import pipeline, pipeline_job
from core.cli.main import root
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox.nodes import plan_nodes
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import overrides_lease
from core.daemons.lease import hold_lease
from core.daemons.process import Process
from core.load import load_paths as layout
from core.load.collector.collector import Collector
from core.load.snapshot import writer as published
from core.load.snapshot.format import Counts
from core.load.snapshot.manifest import read_manifest
from core.pipeline.publish import Heading, Published
from core.pipeline.rebuild import Rebuilt
from core.watch.timeline.events import Event
from core.watch.timeline.recorder import Recorder

# -- the table is whole ----------------------------------------------------------------------------


def test_every_command_with_json_has_a_schema() -> None:
    assert sorted(with_option(root, "--json")) == list(promised())


def test_every_schema_belongs_to_a_command() -> None:
    used = {name for schemas in promised().values() for name in schemas}
    assert used == {path.stem for path in SCHEMAS.glob("*.json")}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_valid_json_schemas(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_answer_that_does_not_match_its_schema_is_refused() -> None:
    check_answer(("runs", "ls", "--json"), "[]")
    with pytest.raises(jsonschema.ValidationError):
        check_answer(("-b", "b:9092", "runs", "ls", "--json"), '{"runs": []}')
    with pytest.raises(AssertionError, match="NaN is not JSON"):
        check_answer(("show", "--json"), "NaN")


# -- on a saved cluster ----------------------------------------------------------------------------

JBOD = {
    "t-0": [{"broker": 1, "size_bytes": 9 * MB, "log_dir": "/d1"}],
    "t-1": [{"broker": 1, "size_bytes": 9 * MB, "log_dir": "/d1"}],
}


def test_answers_about_log_dir_plans_match_their_schemas(
    saved: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    words = ("plan", "suggest", "--disks")
    _, suggestion = saved.json(*words)
    assert (suggestion["moves"], suggestion["reached"]) == (1, True)
    _, both = saved.json(*words, "--balance")
    assert both["log_dirs"]["moves"] == 1
    assert both["plan"]["partitions"] == suggestion["plan"]["partitions"]
    text = saved.run(*words, "--balance")[1]
    assert "Nothing to do between brokers: it is so already." in text
    assert "1 replica to copy within their brokers (9.0 MB); about" in text
    plan = str(saved.write("dirs.json", suggestion["plan"]))
    assert saved.json("verify", plan)[1]["verified"] is False
    _, shown = saved.json("plan", "show", plan)
    assert shown["partitions"][0]["log_dirs"] == [{"broker": 1, "path": "/d2"}]
    (row,) = saved.json("plan", "diff", plan)[1]["differences"]
    assert (row["first_log_dirs"], row["second_log_dirs"]) == (["/d1"], ["/d2"])
    _, at = saved.json("estimate", plan, "--throttle", "1MB/s")
    assert at["limit"] == {"broker": 1, "side": "log-dirs"}
    for command in ("inverse", "impact", "check"):
        saved.json("plan", command, plan)
    text = saved.run(*words)[1]
    assert "b1 /d1 200% → 100%" in text
    assert "1 replica to copy within their brokers (9.0 MB); about" in text
    monkeypatch.setattr("core.plan.estimate.rate_table.PLACEMENT_SECONDS", 60.0)
    hurried = ("--time-budget", "60s", "--within", "1h")
    _, suggestion = saved.json(*words, *hurried)
    assert 0 < suggestion["seconds"] <= 3600
    assert "may be too low" in suggestion["notes"][-1]
    text = saved.run(*words, *hurried)[1]
    assert "1 replica to copy within their brokers (9.0 MB); at least" in text
    assert "may be too low" in text


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "diff"),
        ("plan", "inverse"),
        ("estimate", "--throttle", "-1"),
        ("estimate", "--within", "1s"),
    ],
)
def test_plan_diff_inverse_and_estimate_answers_match_their_schemas(
    saved: Here, words: tuple[str, ...]
) -> None:
    assert saved.json(*words, saved.plan(t0=[1, 0], t1=[1, 3]))


# -- load ------------------------------------------------------------------------------------------


class PublishedBefore:
    """A job that has nothing to do but to tell of a batch."""

    def __init__(self, batch: Published, publish: Any) -> None:
        self._batch, self._publish = batch, publish

    def once(self) -> None:
        self._publish([self._batch])

    def run(self, seconds: float, keep_on: Any) -> None:
        self._publish([replace(self._batch, snapshot=None)])
        self._publish([self._batch])


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
def test_load_command_answers_match_their_schemas(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trimtab: Trimtab
) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    layout.spool(tmp_path, "abc-DEF_1").mkdir(parents=True)
    at, counts = datetime(2026, 1, 1, tzinfo=UTC), Counts(3, 2, 1, 0, {"negative": 1})
    batch = Published("q-1", "abc-DEF_1", counts, at, Heading("000001-00000001", 1, at, at, counts))

    @contextmanager
    def job(
        root: Path, cluster_id: str, publish: Any, choice: Any, *, quick: bool = False
    ) -> Iterator[Any]:
        yield PublishedBefore(batch, publish)

    @contextmanager
    def session(*, quick: bool) -> Iterator[Any]:
        yield SimpleNamespace(spark=None)

    def rebuilt(*_: Any) -> Rebuilt:
        return Rebuilt(read_manifest(tmp_path, "abc-DEF_1"), 3, at, 9, 1)

    monkeypatch.setattr(pipeline, "open_job", job)
    monkeypatch.setattr(pipeline_job, "open_job", job)
    monkeypatch.setattr(pipeline, "spark_session", session)
    monkeypatch.setattr("core.pipeline.rebuild.rebuild", rebuilt)
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    place = (*LOAD[command], tmp_path) if LOAD[command] else ()
    code, out, err = trimtab("--snapshots", tmp_path, *command.split(), *place, "--json")
    for number, handler in before.items():
        signal.signal(number, handler)
    assert (code, bool(out)) == (0, True), err


def test_pipeline_status_has_no_snapshot_id_before_the_first_snapshot(
    tmp_path: Path, trimtab: Trimtab
) -> None:
    layout.spool(tmp_path, "c").mkdir(parents=True)
    _, out, _ = trimtab("pipeline", "status", "--root", tmp_path, "--json")
    assert json.loads(out)["snapshot_id"] is None


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
def test_sandbox_command_answers_match_their_schemas(
    command: str, more: list[str], monkeypatch: pytest.MonkeyPatch, trimtab: Trimtab
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
    monkeypatch.setattr("core.cluster.drills.full_disk.fill_and_wait", lambda *words: True)
    with hold_lease(overrides_lease(Sandbox.open("default").overrides_path)):  # as a load would
        code, out, err = trimtab(*command.split(), *more, "--json")
    assert (code, bool(out)) == (0, True), err


# -- on a living cluster ---------------------------------------------------------------------------


@pytest.fixture
def living(hand: Hand) -> Hand:
    return hand.on(simulated({"orders": [(1, 2), (2, 3)]}, in_bytes_per_s=1.0 * MB))


class StopsAfter:
    """A signal that comes once it was looked for so often."""

    def __init__(self, poll_count: int) -> None:
        self._left = poll_count

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_audit_answers_match_their_schemas(living: Hand) -> None:
    living("elect", "--yes")
    living("topics", "create", "new", "--partitions", "1", "--rf", "1", "--yes")
    assert living.json("audit", "ls")
    assert living.json("audit", "verify")["problem"] is None


def test_collect_answers_match_their_schemas(
    living: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled = Collector.poll
    monkeypatch.setattr(
        Collector, "poll", lambda self: (living.cluster.advance(10), polled(self))[1]
    )
    words = ("collect", "--interval", "0.1s", "--root", str(tmp_path / "load"), "--json")
    assert living(*words, "--once")[1]
    stops = StopsAfter(2)
    monkeypatch.setattr("core.cli.load.collect.stop_signals", lambda: stops)
    assert living(*words)[1]


def test_timeline_record_answers_match_their_schemas(
    living: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Recorder.look

    def look_and_reorder(recorder: Recorder) -> list[Event]:
        living.cluster.advance(10)
        events = looked(recorder)
        row = living.cluster.describe_cluster().row(0)
        living.cluster.alter_reassignments({row.tp: (row.replicas[-1], *row.replicas[:-1])})
        return events

    monkeypatch.setattr(Recorder, "look", look_and_reorder)
    stops = StopsAfter(30)
    monkeypatch.setattr("core.cli.timeline.record.stop_signals", lambda: stops)
    _, out, err = living("timeline", "--record", "--json")
    assert out, err


def test_autopilot_answers_match_their_schemas(
    living: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.autopilot.autopilot.stop_signals", lambda: StopsAfter(2))
    words = ("autopilot", "--mode", "suggest", "--lasting", "0s", "--avoid", "sun 1:00-2:00")
    assert living("--no-load", *words, "--json")[1]
    (stands,) = living.json("autopilot", "status")
    assert (stands["mode"], stands["flying"]) == ("suggest", False)
    assert living.json("autopilot") == [stands]
    (off,) = living.json("autopilot", "--mode", "off")
    assert off["cluster_id"] == stands["cluster_id"]
    decided = living.json("autopilot", "log")
    assert (decided[0]["what"], decided[-1]["what"]) == ("switch", "switch")
