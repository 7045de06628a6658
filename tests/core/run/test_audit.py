"""The audit: a chain of lines that shows what was done, and whether anybody touched it since."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_help import Faulty, answering, cluster

from core import paths
from core.cli.main import run as command_line
from core.cluster.configs import FOLLOWER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import ExitCode
from core.run import audit
from core.run.audit import AuditError, note, read, verify
from core.run.audited_client import audited


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    return tmp_path


def entries() -> list[dict[str, Any]]:
    return [dict(line.entry) for line in read() if line.entry is not None]


def three() -> list[str]:
    """Write three entries; return the file's lines."""
    for number in range(3):
        note("c", "0101-120000", "request", kind="pause", number=number)
    return paths.audit_file().read_text().splitlines(keepends=True)


def test_audit_entry_names_the_user_host_origin_and_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SSH_CONNECTION", "10.0.0.9 50000 10.0.0.1 22")
    monkeypatch.setitem(os.environ, "SUDO_USER", "ann")
    note("c", "0101-120000", "request", kind="pause")
    (entry,) = entries()
    assert entry["who"].startswith("ann")
    assert entry["host"]
    assert entry["from"] == "ssh 10.0.0.9"
    assert entry["at"].endswith("Z")
    assert (entry["cluster_id"], entry["run"], entry["what"], entry["kind"]) == (
        "c",
        "0101-120000",
        "request",
        "pause",
    )
    assert paths.audit_file().stat().st_mode & 0o077 == 0


def test_untouched_audit_chain_verifies_as_whole() -> None:
    assert verify(read()).entries == 0
    three()
    verdict = verify(read())
    assert (verdict.problem, verdict.entries, verdict.cut) == (None, 3, False)
    assert verdict.last_hash == entries()[-1]["hash"]


def _changed(lines: list[str]) -> list[str]:
    return [lines[0], lines[1].replace('"number":1', '"number":7'), lines[2]]


def _hash_changed(lines: list[str]) -> list[str]:
    entry = json.loads(lines[1])
    return [lines[0], lines[1].replace(entry["hash"], "f" * 64), lines[2]]


def _taken_out(lines: list[str]) -> list[str]:
    return [lines[0], lines[2]]


def _first_taken_out(lines: list[str]) -> list[str]:
    return lines[1:]


def _swapped(lines: list[str]) -> list[str]:
    return [lines[0], lines[2], lines[1]]


def _garbage(lines: list[str]) -> list[str]:
    return [lines[0], "garbage\n", *lines[1:]]


def _cut_inside(lines: list[str]) -> list[str]:
    return [lines[0], lines[1][:40] + "\n", lines[2]]


@pytest.mark.parametrize(
    ("touch", "line"),
    [
        (_changed, 2),
        (_hash_changed, 2),
        (_taken_out, 2),
        (_first_taken_out, 1),
        (_swapped, 2),
        (_garbage, 2),
        (_cut_inside, 2),
    ],
)
def test_verify_reports_the_first_tampered_line(
    touch: Callable[[list[str]], list[str]], line: int
) -> None:
    paths.audit_file().parent.mkdir(parents=True)
    paths.audit_file().write_text("".join(touch(three())))
    verdict = verify(read())
    assert verdict.line == line
    assert verdict.problem is not None
    assert f"Line {line} " in verdict.problem


def test_last_line_cut_by_a_crash_is_not_tampering_and_is_mended() -> None:
    text = "".join(three())
    paths.audit_file().write_text(text[:-30])
    verdict = verify(read())
    assert (verdict.problem, verdict.cut, verdict.entries) == (None, True, 2)
    note("c", None, "request", kind="resume")
    verdict = verify(read())
    assert (verdict.problem, verdict.cut, verdict.mended, verdict.entries) == (None, False, 1, 4)
    assert [entry["what"] for entry in entries()] == ["request", "request", "mended", "request"]


def test_truncated_first_line_is_mended_too() -> None:
    paths.audit_file().parent.mkdir(parents=True)
    paths.audit_file().write_text('{"at":')
    note("c", None, "request")
    assert verify(read()).problem is None


def test_change_to_a_mended_line_is_detected() -> None:
    text = "".join(three())
    paths.audit_file().write_text(text[:-30])
    note("c", None, "request")
    lines = paths.audit_file().read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace("pause", "resume")
    paths.audit_file().write_text("".join(lines))
    assert verify(read()).line == 3


def test_chain_continues_after_a_line_longer_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_BLOCK", 16)
    note("c", None, "apply", moves=["t-0"] * 500)
    three()
    assert verify(read()).entries == 4
    assert verify(read()).problem is None


def test_processes_that_write_at_the_same_time_produce_one_chain(home: Path) -> None:
    script = "from core.run.audit import note\nfor n in range(20): note('c', None, 'x', n=n)"
    root = str(Path(__file__).parents[3])
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", script], env=os.environ | {"PYTHONPATH": root}
        )
        for _ in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    verdict = verify(read())
    assert (verdict.problem, verdict.entries) == (None, 60)


def test_no_partial_entry_is_left_by_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    three()
    size = paths.audit_file().stat().st_size
    real = os.write

    def full(handle: int, text: bytes) -> int:
        if len(text) > 10:
            return real(handle, text[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(AuditError, match="No space left"):
            note("c", None, "request", kind="x" * 25)
    assert paths.audit_file().stat().st_size == size
    assert verify(read()).entries == 3


# -- changes of a cluster --------------------------------------------------------------------------


def test_change_is_audited_before_it_is_submitted_and_its_answer_afterwards() -> None:
    through = Faulty(cluster({"t": [(1, 2)]}))
    seen: list[str] = []

    def record_call(real: Any, *args: Any, **more: Any) -> Any:
        seen.append(entries()[-1]["what"])
        return real(*args, **more)

    for call in ("alter_reassignments", "cancel_reassignments", "alter_configs", "elect_leaders"):
        through.replaced[call] = record_call
    client: Any = through
    client = audited(client, "c", "0101-120000")
    tp = TopicPartition("t", 0)
    client.alter_reassignments({tp: (1, 3)})
    client.cancel_reassignments([tp])
    rate = ConfigChange(Resource.broker(1), FOLLOWER_RATE, ConfigOp.SET, "5")
    client.alter_configs([rate])
    client.elect_leaders([tp])
    assert seen == ["submit", "cancel", "configs", "elect"]
    written = entries()
    assert [entry["what"] for entry in written[1::2]] == ["answer"] * 4
    assert written[0]["targets"] == {"t-0": [1, 3]}
    assert written[4]["changes"] == [["broker 1", FOLLOWER_RATE, "set", "5"]]
    assert client.describe_cluster().cluster_id, "what changes nothing is passed on"
    assert len(entries()) == 8


def test_audited_answer_names_the_changes_that_were_not_accepted() -> None:
    through = Faulty(cluster({"t": [(1, 2)]}))
    through.replaced["alter_configs"] = lambda real, changes: {
        change.resource: Fault("INVALID_CONFIG", "no") for change in changes
    }
    client: Any = through
    rate = ConfigChange(Resource.broker(1), FOLLOWER_RATE, ConfigOp.SET, "5")
    audited(client, "c", None).alter_configs([rate])
    assert entries()[-1]["faults"] == {"broker 1": "INVALID_CONFIG: no"}
    assert entries()[-1]["taken"] == 0


def test_change_that_cannot_be_audited_is_not_submitted(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("TRIMTAB_HOME", str(home / "file"))
    through = Faulty(cluster({"t": [(1, 2)]}))
    client: Any = through
    with pytest.raises(AuditError):
        audited(client, "c", None).cancel_reassignments([TopicPartition("t", 0)])
    assert "cancel_reassignments" not in through.calls


@pytest.mark.parametrize("retries", range(1, 6))
@pytest.mark.parametrize("trouble", ["no folder", "full disk"])
def test_previously_refused_change_that_cannot_be_audited_is_not_submitted(
    monkeypatch: pytest.MonkeyPatch, home: Path, retries: int, trouble: str
) -> None:
    """A try that is not written, as the one before it tells enough, needs room for its answer."""
    through = Faulty(cluster({"t": [(1, 2)]}))
    through.replaced["cancel_reassignments"] = answering("NOT_CONTROLLER")
    client: Any = through
    client = audited(client, "c", None)
    for _ in range(retries):
        client.cancel_reassignments([TopicPartition("t", 0)])
    if trouble == "no folder":
        (home / "file").write_text("")
        monkeypatch.setenv("TRIMTAB_HOME", str(home / "file"))
    else:
        disk = SimpleNamespace(f_blocks=1000, f_bavail=0, f_frsize=4096)
        monkeypatch.setattr(os, "fstatvfs", lambda handle: disk)
        monkeypatch.setattr(os, "write", _no_space)
    with pytest.raises(AuditError):
        client.cancel_reassignments([TopicPartition("t", 0)])
    assert through.calls.count("cancel_reassignments") == retries


def test_call_whose_refusal_is_no_longer_remembered_is_audited_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.run.audited_client.MAX_REMEMBERED", 2)
    through = Faulty(cluster({"t": [(1, 2)] * 3}))
    through.replaced["cancel_reassignments"] = answering("NOT_CONTROLLER")
    client: Any = through
    client = audited(client, "c", None)
    for partition in (0, 1, 2, 0):
        client.cancel_reassignments([TopicPartition("t", partition)])
    assert [entry.get("tries") for entry in entries()] == [None] * 8


@pytest.mark.parametrize(
    ("values", "written", "at_the_end"),
    [
        ("5", [None], []),
        ("5555", [None, 1, 2], [3]),
        ("55555", [None, 1, 2, 4], []),
        ("5656", [None] * 4, []),
        ("5555655", [None, 1, 2, 3, None, None, 1], []),
    ],
)
def test_repeated_setting_of_the_same_config_is_audited_ever_more_seldom(
    values: str, written: list[int | None], at_the_end: list[int]
) -> None:
    """As somebody takes it away each time; another value in between makes a change of it."""
    client = audited(cluster({"t": [(1, 2)]}), "c", None)
    for value in values:
        client.alter_configs([ConfigChange(Resource.broker(1), FOLLOWER_RATE, ConfigOp.SET, value)])

    def tries() -> list[int | None]:
        return [entry.get("tries") for entry in entries() if entry["what"] == "configs"]

    assert tries() == written
    client.close()
    assert tries() == [*written, *at_the_end]


@pytest.mark.parametrize(("retries", "expected_tries"), [(0, [None]), (3, [None, 1, 2, 3])])
def test_number_of_tries_is_audited_when_the_client_is_closed(
    retries: int, expected_tries: list[int | None]
) -> None:
    through = Faulty(cluster({"t": [(1, 2)]}))
    through.replaced["cancel_reassignments"] = answering("NOT_CONTROLLER")
    client: Any = through
    client = audited(client, "c", None)
    for _ in range(1 + retries):
        client.cancel_reassignments([TopicPartition("t", 0)])
    client.close()
    assert [
        entry.get("tries") for entry in entries() if entry["what"] == "cancel"
    ] == expected_tries


def _no_space(handle: int, text: bytes) -> int:
    raise OSError(28, "No space left on device")


# -- on the command line ---------------------------------------------------------------------------


def trimtab(*words: str) -> int:
    return command_line(lambda context: None, ["audit", *words])


def test_audit_is_listed_and_verified_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trimtab("ls") == ExitCode.DONE
    assert "Nothing has been changed" in capsys.readouterr().err
    lines = three()
    assert trimtab("ls", "--run", "0101-120000") == ExitCode.DONE
    assert capsys.readouterr().out.count("pause") == 3
    assert trimtab("verify") == ExitCode.DONE
    last = json.loads(lines[-1])["hash"]
    assert last in capsys.readouterr().out
    paths.audit_file().write_text("".join(lines[:2]))
    assert trimtab("verify") == ExitCode.DONE, "a chain does not know of what followed"
    assert trimtab("verify", "--holds", last) == ExitCode.NO
    paths.audit_file().write_text("".join(_changed(lines)))
    capsys.readouterr()
    assert trimtab("verify") == ExitCode.NO
    assert "Line 2 was changed" in capsys.readouterr().err
