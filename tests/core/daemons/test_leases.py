"""Who holds the load of a cluster on this host, and when nobody needs it any more."""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from snapshots import make_snapshot

from core import files, paths
from core.cli.common.foreground import exit_cleanly_on_signals
from core.cli.main import run
from core.cluster.connect import Address
from core.daemons import supervisor as serving
from core.daemons.heartbeat import SILENT_SECONDS, Heartbeat, Readers, readers_folder
from core.daemons.lease import hold_lease, is_leased, lease_file, lease_holder
from core.daemons.process import Process, stop_signals
from core.daemons.service import Service, build_parser, run_service, work_while_read
from core.errors import ExitCode, RefusedError, TrimtabError
from core.load import daemon as background
from core.load import load_paths as layout
from core.load.snapshot import writer as published
from core.pipeline import service
from core.pipeline.ledger import Batch, Carried, Ledger
from core.watch.timeline.daemon import start_recording

HOLD = """
import sys
from pathlib import Path
from core.daemons.lease import hold_lease

with hold_lease(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def test_only_one_of_two_processes_holds_the_lease_and_is_identified_by_pid(tmp_path: Path) -> None:
    path = lease_file(tmp_path, "c", "collector")
    assert lease_holder(path) is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout.readline().strip() == "True"
        with hold_lease(path) as ours:
            assert not ours
        assert lease_holder(path) == Process.of(first.pid)
        first.stdin.close()
        first.wait(30)
    assert lease_holder(path) is None
    with hold_lease(path) as ours:
        assert ours


def test_readers_are_gone_only_after_the_grace_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("core.daemons.heartbeat.time.monotonic", lambda: now)
    beat = Heartbeat(tmp_path, "c")
    readers = Readers(tmp_path, "c", grace_seconds=60)
    now += 3600
    assert not readers.are_gone()
    beat.close()
    now += 59
    assert not readers.are_gone()
    now += 2
    assert readers.are_gone()


def test_killed_reader_no_longer_counts_as_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("core.daemons.heartbeat.time.monotonic", lambda: now)
    folder = readers_folder(tmp_path, "c")
    folder.mkdir(parents=True)
    dead = folder / "1-dead.beat"
    dead.touch()
    written = dead.stat().st_mtime
    os.utime(dead, (written, written - 2 * SILENT_SECONDS))
    readers = Readers(tmp_path, "c", grace_seconds=60)
    now += 61
    assert readers.are_gone()


def test_reader_arriving_as_the_last_process_ends_is_served(tmp_path: Path) -> None:
    served: list[bool] = []
    stop_event = threading.Event()
    readers_folder(tmp_path, "c").mkdir(parents=True)
    beat = readers_folder(tmp_path, "c") / "1-new.beat"

    def work() -> None:
        served.append(beat.exists())
        # It finds the role taken and starts nothing.
        beat.touch()
        assert is_leased(lease_file(tmp_path, "c", "collector"))
        if len(served) == 2:
            stop_event.set()

    assert work_while_read(tmp_path, "c", "collector", stop_event, work)
    assert served == [False, True]


def test_lease_can_be_taken_despite_a_concurrent_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.daemons.lease.PROBE_SECONDS", 10.0)
    path = lease_file(tmp_path, "c", "collector")
    path.parent.mkdir(parents=True)
    with path.open("a") as asking:
        fcntl.flock(asking, fcntl.LOCK_EX)
        threading.Timer(0.05, fcntl.flock, (asking, fcntl.LOCK_UN)).start()
        with hold_lease(path) as ours:
            assert ours


def work_fails(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> None:
        raise RuntimeError("Job aborted: no space left on device\nat org.apache…")

    monkeypatch.setattr(service, "_run", breaks)


def lease_fails(root: Path, _: pytest.MonkeyPatch) -> None:
    lease_file(root, "c", service.PIPELINE).mkdir(parents=True)


def readers_fail(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def present(_: Readers) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Readers, "are_present", present)
    monkeypatch.setattr(service, "_run", lambda service: service.keep_on())


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (work_fails, "Job aborted: no space left on device"),
        (lease_fails, "Is a directory"),
        (readers_fail, "Input/output error"),
    ],
)
def test_failed_pipeline_reports_the_reason_to_its_readers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fails: Callable[[Path, pytest.MonkeyPatch], None],
    words: str,
) -> None:
    monkeypatch.setattr("core.daemons.service.stop_signals", lambda detached: threading.Event())
    fails(tmp_path, monkeypatch)
    given = ("--cluster-id", "c", "--root", str(tmp_path), "--trigger", "15")
    assert service.main([*given, "--first-trigger", "2"]) == ExitCode.FAILED
    title, details = (background.pipeline_trouble(tmp_path, "c") or "\n").splitlines()
    assert title.startswith("The pipeline broke off: ")
    assert words in title
    assert words in Path(details.partition(": ")[2]).read_text()
    assert title in caplog.text


@pytest.mark.parametrize("cluster_id", ["c", "-kX9_ids-may-begin-so"])
@pytest.mark.parametrize(
    "module", ["core.load.daemon", "core.pipeline.service", "core.watch.timeline.daemon"]
)
def test_background_process_parses_the_arguments_it_is_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, cluster_id: str
) -> None:
    spawned: list[list[str]] = []

    def spawn(command: list[str], output: Path, stdin: int | None) -> Process:
        spawned.append(command)
        return Process.this()

    monkeypatch.setattr(serving, "spawn", spawn)
    address = Address("127.0.0.1:1", tmp_path / "client.properties")
    for reader in (
        background.start_load(address, cluster_id),
        start_recording(address, cluster_id),
    ):
        reader.close()
    (words,) = (command[4:] for command in spawned if command[3] == module)
    given: list[argparse.Namespace] = []

    def serve(role: str, read: argparse.Namespace, *_: object, **__: object) -> int:
        given.append(read)
        return 0

    ours = importlib.import_module(module)
    monkeypatch.setattr(
        "core.daemons.service.run_service"
        if module != "core.pipeline.service"
        else "core.pipeline.service.run_service",
        serve,
    )
    assert ours.main(words) == 0
    assert (given[0].cluster_id, given[0].root) == (cluster_id, paths.load_root())
    if module != "core.pipeline.service":
        assert (given[0].bootstrap, given[0].command_config) == (
            address.bootstrap,
            address.command_config,
        )


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return what does some work in the role of a keeper, and its exit code."""
    monkeypatch.setattr("core.daemons.service.stop_signals", lambda detached: threading.Event())
    options = build_parser("keeper").parse_args(["--cluster-id", "c", "--root", str(tmp_path)])
    log = logging.getLogger("trimtab.test-keeper")
    return lambda work, **more: run_service("keeper", options, work, log=log, **more)


def refused(_: Service) -> None:
    raise RefusedError("It may not.")


def test_error_in_service_work_sets_exit_code_and_is_reported(
    served: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[TrimtabError] = []
    assert served(refused, on_failure=failures.append) == ExitCode.REFUSED
    assert [str(error) for error in failures] == ["It may not."]
    assert "It may not." in caplog.text


def test_error_that_cannot_be_reported_is_logged_with_the_reason(
    served: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: TrimtabError) -> None:
        raise OSError(28, "No space left on device")

    assert served(refused, on_failure=full) == ExitCode.REFUSED
    assert "It may not." in caplog.text
    assert "No space left on device" in caplog.text


def test_second_process_in_a_role_exits_and_logs_the_reason(
    tmp_path: Path, served: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    worked: list[Service] = []
    with hold_lease(lease_file(tmp_path, "c", "keeper")):
        assert served(worked.append) == 0
    assert not worked
    assert "another keeper has this cluster" in caplog.text


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("detached", [True, False])
def test_only_detached_process_survives_sighup(detached: bool) -> None:
    stop_event = stop_signals(detached=detached)
    os.kill(os.getpid(), signal.SIGHUP)
    assert stop_event.wait(0 if detached else 60) is not detached


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT])
def test_signals_ignored_at_start_stay_ignored_and_stop_nothing(ignored: signal.Signals) -> None:
    signal.signal(ignored, signal.SIG_IGN)  # as nohup, or a script's background, does
    stop_event = stop_signals()
    with exit_cleanly_on_signals("the demo"):
        os.kill(os.getpid(), ignored)
    assert signal.getsignal(ignored) is signal.SIG_IGN
    assert not stop_event.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop_event.wait(60)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("first", [None, signal.SIGTERM])
@pytest.mark.parametrize("meanwhile", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_do_not_interrupt_cleanup(
    first: signal.Signals | None, meanwhile: signal.Signals
) -> None:
    done: list[str] = []

    def stop_brokers() -> None:
        os.kill(os.getpid(), meanwhile)  # the terminal goes away as they stop
        done.append("brokers")

    with suppress(SystemExit), exit_cleanly_on_signals("the demo") as cleanup:
        cleanup.callback(done.append, "runs")
        cleanup.callback(stop_brokers)
        if first is not None:
            os.kill(os.getpid(), first)
            pytest.fail("it goes on")
    assert done == ["brokers", "runs"]


def test_simulated_cluster_needs_no_collector_or_pipeline() -> None:
    assert background.start_load(Address("sim:/nowhere"), "c") is None
    assert not readers_folder(paths.load_root(), "c").exists()


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(lambda _: None, list(words))
    output = capsys.readouterr()
    return code, output.out, output.err


def test_snapshot_commands_list_and_show_published_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_snapshot(tmp_path, make_snapshot("0001-1"))
    published.write_snapshot(tmp_path, make_snapshot("0001-2"))
    place = ("--snapshots", str(tmp_path))
    code, out, _ = command(capsys, *place, "snapshot", "ls", "--json")
    assert code == 0
    assert [line["snapshot_id"] for line in json.loads(out)] == ["0001-2", "0001-1"]
    code, out, _ = command(capsys, *place, "snapshot", "show")
    assert code == 0
    assert "0001-2" in out
    assert "örders-1" in out
    assert "10 read, 7 accepted, 1 duplicate, 2 late, quarantined: 2 negative" in out
    code, out, _ = command(capsys, *place, "snapshot", "show", "0001-1", "--json")
    assert json.loads(out)["format"] == "trimtab.snapshot/1"
    code, _, err = command(capsys, *place, "snapshot", "show", "nope")
    assert code == 2
    assert "There is no snapshot nope" in err


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_one_damaged_manifest_is_named_and_remaining_snapshots_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: list[str]
) -> None:
    for name in ("0001-1", "0001-2", "0001-3"):
        published.write_snapshot(tmp_path, make_snapshot(name))
    bad = layout.snapshots(tmp_path, "abc-DEF_1") / "0001-2" / "manifest.json"
    bad.write_text('{"format": ')
    code, out, err = command(capsys, "--snapshots", str(tmp_path), "snapshot", "ls", *as_json)
    assert code == 0
    assert "0001-3" in out
    assert "0001-1" in out
    assert "0001-2" not in out
    assert "0001-2" in err
    assert "is not JSON" in err
    assert len(err.splitlines()) == 1


def test_snapshot_of_a_higher_format_is_refused_with_upgrade_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    layout.current(tmp_path, "abc-DEF_1").write_text('{"format": "trimtab.snapshot/9"}')
    code, out, err = command(capsys, "--snapshots", str(tmp_path), "snapshot", "show")
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "Install a trimtab that reads trimtab.snapshot/9." in err


def test_pipeline_status_shows_trouble_and_record_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = command(capsys, "pipeline", "status", "--root", str(tmp_path))
    assert code == 2
    assert "collect" in err
    published.write_snapshot(tmp_path, make_snapshot())
    files.write_text(layout.trouble(tmp_path, "abc-DEF_1"), "Java is missing.\n")
    code, out, _ = command(capsys, "pipeline", "status", "--root", str(tmp_path), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["pipeline_pid"] is None
    assert document["trouble"] == "Java is missing."
    assert document["counts"]["quarantined"] == {"negative": 2}


def test_pipeline_status_reads_snapshots_published_in_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    layout.spool(here, "abc-DEF_1").mkdir(parents=True)
    there.mkdir()
    manifest = published.write_snapshot(there, make_snapshot())
    words = ("pipeline", "status", "--root", str(here), "--json")
    assert json.loads(command(capsys, *words)[1])["snapshot_id"] is None
    status = json.loads(command(capsys, "--snapshots", str(there), *words)[1])
    assert (status["snapshot_id"], status["root"]) == (manifest.snapshot_id, str(here))


def test_pipeline_status_counts_waiting_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, at = "abc-DEF_1", datetime(2026, 3, 1, 12, tzinfo=UTC)
    hour = layout.spool(tmp_path, cluster) / "date=2026-03-01" / "hour=12"
    hour.mkdir(parents=True)
    layout.incoming(tmp_path).mkdir()
    for name in ("taken", "begun", "new"):
        (hour / f"{name}.parquet").touch()
    (layout.incoming(tmp_path) / f"cluster={cluster}-landed.parquet").touch()
    (layout.incoming(tmp_path) / "cluster=other-landed.parquet").touch()
    ledger = Ledger(layout.batches(tmp_path, cluster))
    ledger.complete(Batch("q-1", at, (f"file:{hour}/taken.parquet",), Carried()))
    ledger.complete(Batch("q-2", at, (f"file:{hour}/begun.parquet",)))
    # Published after they came: what a publish says of time says nothing of what it read.
    published.write_snapshot(tmp_path, make_snapshot(published_at=datetime.now(UTC)))
    code, out, _ = command(capsys, "pipeline", "status", "--root", str(tmp_path), "--json")
    assert code == 0
    assert json.loads(out)["waiting_segments"] == 3


def test_pipeline_status_all_lists_every_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("pipeline", "status", "--all", "--root", str(tmp_path))
    assert json.loads(command(capsys, *words, "--json")[1]) == []
    layout.spool(tmp_path, "waits").mkdir(parents=True)
    published.write_snapshot(tmp_path, make_snapshot())
    statuses = json.loads(command(capsys, *words, "--json")[1])
    assert [status["cluster_id"] for status in statuses] == ["abc-DEF_1", "waits"]
    header, first, second = command(capsys, *words)[1].splitlines()
    assert header.split()[0] == "cluster"
    assert first.split()[0] == "abc-DEF_1"
    assert "none yet" in second


GARBAGE = (
    b"",
    b"{",
    b"[]",
    b"[1]",
    b"{}",
    b"null",
    b"7",
    b"\xff\xfe\x00",
    b'{"clusters": 1, "format": 3}',
    b'{"clusters": [1, "c"]}',
    b'{"key": 1, "began_at": "2026-03-01", "units": [5], "carried": {"windows": [3]}}',
    b'{"key": "q", "began_at": "2026-03-01T12:00+00:00", "units": [5], "carried": null}',
    b'{"pid": "x", "started": [], "format": "trimtab.snapshot/1", "counts": 4}',
)


@pytest.mark.parametrize("garbage", [*GARBAGE, None])
def test_pipeline_status_handles_any_damaged_file_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], garbage: bytes | None
) -> None:
    """`None` is the file's own first half, as a full disk leaves it."""
    at = datetime.now(UTC)
    segment = layout.spool(tmp_path, "c") / "date=2026-01-01" / "hour=00" / "1.parquet"
    segment.parent.mkdir(parents=True)
    segment.touch()
    ledger = Ledger(layout.batches(tmp_path, "c"))
    ledger.complete(Batch("q-1", at, (f"file:{segment}",), Carried()))
    published.write_snapshot(tmp_path, make_snapshot(cluster_id="c", published_at=at))
    layout.trouble(tmp_path, "c").parent.mkdir(parents=True)
    layout.trouble(tmp_path, "c").write_text("It broke off.")
    with hold_lease(lease_file(tmp_path, "c", "pipeline")):
        kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != segment]
        assert len(kept) > 5
        for path in kept:
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2] if garbage is None else garbage)
            code, out, err = command(capsys, "pipeline", "status", "--root", str(tmp_path))
            assert (code, bool(err)) in ((0, False), (2, True)), (path, err)
            assert "Traceback" not in out + err
            assert "bug" not in err, (path, err)
            path.write_bytes(whole)


@pytest.mark.parametrize("part", ["pyspark", "pandas"])
@pytest.mark.parametrize("words", [["pipeline", "once"], ["pipeline", "run"]])
def test_missing_pyspark_or_pandas_is_reported_with_the_extra_to_install(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    part: str,
) -> None:
    layout.spool(tmp_path, "c").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, part, None)
    code, _, err = command(capsys, *words, "--root", str(tmp_path), "--cluster-id", "c")
    assert code == 1
    assert part in err
    assert "its extra `pipeline`" in err
    assert len(err.splitlines()) == 2


def test_just_started_collector_and_pipeline_can_be_stopped() -> None:
    reader = background.start_load(Address("127.0.0.1:1"), "just-started")
    assert len(reader.started) == 2
    reader.stop()
    assert not any(process.alive for process in reader.started)
