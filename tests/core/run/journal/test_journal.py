"""The journal: what it keeps, who may write, and which files it refuses."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clusters import NOON
from full_disk import files_of_at_most
from run_help import MB, Faulty, Start, cluster, submitted, unreachable

from core.cluster.connect import Address
from core.cluster.metadata import TopicPartition
from core.plan.plan import Move, Plan
from core.run.journal.journal import (
    FORMAT,
    KEPT_SAMPLES,
    Journal,
    JournalError,
    journal_path,
    refuse_network,
)
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "0101-120000.run"


def test_records_are_read_as_they_were_written(path: Path) -> None:
    with Journal.create(path) as journal:
        first = journal.write(NOON, Kind.CREATED, {"run": "r", "text": "naïve"})
        second = journal.write(NOON + timedelta(seconds=1.5), Kind.WAITING, {"why": ""})
        assert journal.records() == (first, second)
        assert journal.records(after=first.seq) == (second,)
    with Journal.open(path) as again:
        assert again.records() == (first, second)


def test_journal_returns_requests_of_another_process(path: Path) -> None:
    with Journal.create(path) as journal, Journal.open(path) as other:
        other.ask(NOON, "cancel", {"who": "ann"})
        (request,) = journal.requests()
        assert (request.kind, request.payload) == ("cancel", {"who": "ann"})
        assert journal.requests(after=request.seq) == ()


def test_number_of_kept_samples_is_bounded(path: Path) -> None:
    with Journal.create(path) as journal:
        for number in range(KEPT_SAMPLES + 30):
            journal.sample(NOON + timedelta(seconds=number), {"n": number})
        samples = journal.samples()
    assert len(samples) == KEPT_SAMPLES
    assert samples[-1].payload == {"n": KEPT_SAMPLES + 29}


def test_every_journal_write_is_synced_to_disk(path: Path) -> None:
    with Journal.create(path):
        pass
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
    with Journal.open(path) as journal:
        assert journal._database.execute("PRAGMA synchronous").fetchone() == (2,)


def test_samples_are_written_without_a_disk_sync_and_records_with_one(path: Path) -> None:
    with Journal.create(path) as journal:
        statements: list[str] = []
        journal._database.set_trace_callback(statements.append)
        journal.sample(NOON, {"n": 1})
        journal.write(NOON, Kind.WAITING, {"why": "x"})
        journal._database.set_trace_callback(None)
    words = ("synchronous", "INSERT INTO samples", "INSERT INTO records", "COMMIT")
    operations = [next((w for w in words if w in statement), "") for statement in statements]
    modes = [statement.split()[-1] for statement in statements if "synchronous" in statement]
    assert [word for word in operations if word] == [
        *("synchronous", "INSERT INTO samples", "COMMIT", "synchronous"),
        "INSERT INTO records",
    ]
    assert modes == ["NORMAL", "FULL"]


def test_failed_sample_write_leaves_records_synced(path: Path) -> None:
    with Journal.create(path) as journal:
        with pytest.raises(TypeError):
            journal.sample(NOON, {"n": object()})
        journal._database.execute("ALTER TABLE samples RENAME TO gone")
        with pytest.raises(JournalError):
            journal.sample(NOON, {"n": 1})
        assert not journal._database.in_transaction
        assert journal._database.execute("PRAGMA synchronous").fetchone() == (2,)


def test_only_its_owner_may_read_the_journal(path: Path) -> None:
    Journal.create(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_journal_of_an_existing_run_is_never_overwritten(path: Path) -> None:
    Journal.create(path).close()
    with pytest.raises(FileExistsError):
        Journal.create(path)


def test_unknown_record_kind_is_reported_as_written_by_a_newer_trimtab(path: Path) -> None:
    with Journal.create(path) as journal:
        journal._insert("records", NOON, "teleported", {})
        with pytest.raises(JournalError, match=r"newer trimtab.*teleported") as refused:
            journal.records()
    assert "damaged" not in str(refused.value)


def test_journal_format_number_matches_the_present_record_kinds(path: Path) -> None:
    """Whoever adds a kind of record, or a meaning to one, gives the format the next number."""
    kinds = hashlib.sha256(",".join(kind.value for kind in Kind).encode()).hexdigest()[:8]
    assert (FORMAT, kinds) == (3, "4078cc08")


def test_journal_of_the_first_format_is_read_and_upgraded_once_it_is_written_to(path: Path) -> None:
    with Journal.create(path) as journal:
        journal.write(NOON, Kind.WAITING, {"why": "first"})
    _of_format(path, 1)
    with Journal.open(path) as journal:
        assert [record.kind for record in journal.records()] == [Kind.WAITING]
        assert _format(path) == 1
        journal.prove_writable()
    assert _format(path) == FORMAT


def _of_format(path: Path, number: int) -> None:
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {number}")
    database.close()


def _format(path: Path) -> int:
    database = sqlite3.connect(path)
    (number,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return int(number)


def _newer(path: Path) -> None:
    _of_format(path, FORMAT + 1)


def _someone_elses(path: Path) -> None:
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE something (x)")
    database.close()


def _text(path: Path) -> None:
    path.write_text("not a journal at all, but long enough to look like a file " * 50)


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_newer, "written by a newer trimtab: it has format 4"),
        (_someone_elses, "not a run journal"),
        (_text, "damaged"),
        (_truncated, "damaged"),
        (Path.unlink, "no run journal"),
    ],
)
def test_newer_foreign_damaged_or_missing_journal_file_is_refused(
    path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    with Journal.create(path) as journal:
        for _ in range(200):
            journal.write(NOON, Kind.WAITING, {"why": "x" * 100})
    spoil(path)
    with pytest.raises(JournalError, match=says), Journal.open(path) as journal:
        journal.check()


def test_journal_with_a_damaged_page_inside_is_refused(path: Path) -> None:
    with Journal.create(path) as journal:
        for _ in range(200):
            journal.write(NOON, Kind.WAITING, {"why": "x" * 100})
    content = bytearray(path.read_bytes())
    content[8192:12288] = b"\xff" * 4096
    path.write_bytes(content)
    with Journal.open(path) as journal, pytest.raises(JournalError, match="damaged"):
        journal.check()


def test_journal_cannot_be_created_at_an_unwritable_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be made"):
        Journal.create(tmp_path / "file" / "runs" / "r.run")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("36 27 0:40 / {0} rw - nfs4 server:/export rw", True),
        ("36 27 0:40 / {0} rw - cifs //server/share rw", True),
        ("36 27 0:40 / {0} rw - fuse.sshfs host: rw", True),
        ("36 27 0:40 / {0} rw - ext4 /dev/sda1 rw", False),
        ("36 27 0:40 / /elsewhere rw - nfs4 server:/export rw", False),
    ],
)
def test_journal_on_a_network_file_system_is_refused(
    tmp_path: Path, line: str, refused: bool
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n{line.format(tmp_path.resolve())}\n")
    if refused:
        with pytest.raises(JournalError, match="network file system"):
            refuse_network(tmp_path, mounts)
    else:
        refuse_network(tmp_path, mounts)


def test_cluster_ids_and_run_names_cannot_escape_their_folder() -> None:
    path = journal_path("../../etc", "../passwd")
    assert ".." not in path.parts


def test_run_survives_an_unreachable_cluster_and_a_full_disk_at_the_same_time(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=60 * MB)
    through = Faulty(client)
    run = start(client, {("t", 0): (3, 2)}, through=through)
    run.until(submitted)
    refused: list[Kind] = []
    write = Journal.write

    def full(journal: Journal, at: Any, kind: Kind, payload: Any) -> Any:
        refused.append(kind)
        if len(refused) < 3:
            raise JournalError("The journal cannot be written: disk is full.")
        monkeypatch.setattr(Journal, "write", write)
        through.replaced = {}
        return write(journal, at, kind, payload)

    through.replaced = {"fetch_reassignments": unreachable}
    monkeypatch.setattr(Journal, "write", full)
    assert run.runner.run() is Outcome.DONE
    assert refused == [Kind.WAITING] * 3
    assert run.replicas() == {"t-0": (3, 2)}


# -- a full disk -----------------------------------------------------------------------------------


def test_no_run_starts_if_its_journal_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    with files_of_at_most(1024), pytest.raises(JournalError, match="cannot be made") as refused:
        Journal.create(tmp_path / "r.run")
    assert "No run starts without its journal" in (refused.value.detail or "")


@pytest.mark.parametrize(
    ("room", "says"),
    [(0, "cannot be made"), (16_000, "cannot be made"), (64_000, "cannot be written")],
    ids=["nothing fits", "its tables do not", "its first record does not"],
)
def test_journal_that_does_not_fit_on_the_disk_leaves_no_file(
    room: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one would be taken for a damaged journal ever after."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    plan = Plan.of(Move(TopicPartition("t", p), (1,), (2,)) for p in range(1000))
    asked = Address("sim:none"), "c", plan, RunOptions(1), None
    with files_of_at_most(room), pytest.raises(JournalError, match=says):
        create_journal(*asked, at=NOON)
    assert not list(journal_path("c", "any").parent.iterdir())
    with create_journal(*asked, at=NOON) as journal:
        assert journal.path.name == "0101-120000.run"


def test_journal_reports_a_full_disk_and_is_writable_once_there_is_room(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "r.run") as journal:
        written = [journal.write(NOON, Kind.WAITING, {"why": "first"})]

        def fill() -> None:
            while True:
                written.append(journal.write(NOON, Kind.WAITING, {"why": "x" * 1000}))

        with files_of_at_most(64 * 1024), pytest.raises(JournalError, match="cannot be written"):
            fill()
        written.append(journal.write(NOON, Kind.WAITING, {"why": "last"}))
        assert journal.records() == tuple(written)
        journal.check()
