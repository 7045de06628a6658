"""Where answers go: `-o FILE`, a pipe whose reader has gone, and warnings on stderr."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import click
import numpy as np
import pytest
from cli_help import with_option
from clusters import cluster as pictured
from clusters import tp
from in_process import Hand, Trimtab, audited
from run_help import cluster, plan_of

from core.cli.common.output import write_data, write_text
from core.cli.main import root
from core.cluster.configs import LEADER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.cluster.documents.reader import read_document
from core.errors import UsageError
from core.plan.formats.plan_file import format_plan_file


def test_output_file_is_replaced_whole_and_no_temporary_file_remains(tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    output.write_text("old")
    write_text("new", output)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert output.read_text() == "new"


@pytest.mark.parametrize("name", ["missing/plan.json", "file/plan.json", "folder"])
def test_unwritable_output_path_is_refused_and_leaves_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="Cannot write"):
        write_text("new", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text("new", pipe)
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()


class _Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("topics create new --partitions 2 --rf 2", "create topics"),
        ("topics alter orders --partitions 2", "add partitions"),
        ("topics alter orders --set retention.ms=600000", "configs"),
        ("elect", "elect"),
        ("throttles clear broker:1", "clear"),
    ],
)
def test_closed_output_pipe_does_not_prevent_a_change(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, words: str, what: str, stream: str
) -> None:
    living = cluster({"orders": [(1, 2)]}, leaders={tp("orders-0"): 2})
    rate = ConfigChange(Resource.broker(1), LEADER_RATE, ConfigOp.SET, "1000000")
    living.alter_configs([rate])
    monkeypatch.setattr("core.cli.common.output.discard_output", lambda stream=1: None)
    monkeypatch.setattr(f"sys.{stream}", _Gone())
    code, _, _ = hand.on(living)(*words.split(), "--yes")
    assert (code, audited()[:1]) == (0, [what])


@pytest.mark.parametrize(
    "words",
    [
        *("topics ls", "topics describe", "groups", "throttles ls", "runs ls"),
        "snapshot ls --cluster-id c-1",
    ],
)
def test_empty_answer_replaces_the_previous_output_file(
    hand: Hand, tmp_path: Path, words: str
) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("an older answer")
    hand.on(cluster({}))
    _, _, err = hand(*words.split())
    assert hand(*words.split(), "-o", str(answer)) == (0, "", "")
    assert answer.read_text() == err
    assert err.startswith(("No", "There is no"))


def test_apply_that_starts_no_run_reports_it_as_json(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.runs.launch.connect", hand.connect)
    living = cluster({"orders": [(1, 2)]})
    plan = tmp_path / "plan.json"
    plan.write_text(format_plan_file(plan_of(living, {("orders", 0): (1, 3)})))
    living = cluster({"orders": [(1, 3)]})
    code, out, err = hand.on(living)("apply", str(plan), "--detach", "--json")
    assert code == 0, err
    assert (code, json.loads(out)) == (0, {"run": None})
    assert "Nothing to do" in err


ANSWERS = {
    *("show", "doctor", "estimate", "verify", "plan check", "plan diff", "plan inverse"),
    *("plan show", "plan suggest", "plan place", "plan rebase", "plan impact"),
    *("statelog merge", "pipeline status", "runs ls", "runs report"),
    *("runs retry", "runs rollback", "runs show", "snapshot ls", "snapshot show"),
    *("snapshot verify", "throttles ls"),
    "timeline",
    *("groups", "replicas verify", "topics describe", "topics ls"),
}


def test_every_command_with_an_answer_has_the_output_option() -> None:
    assert isinstance(root, click.Group)
    assert set(with_option(root, "-o")) - {"bug-report"} == ANSWERS  # which writes an archive


@pytest.mark.parametrize("words", [["doctor"], ["runs", "ls"]])
def test_json_output_file_holds_the_document_and_nothing_is_printed(
    trimtab: Trimtab, words: list[str], tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    assert trimtab(*words, "--json", "-o", answer)[1] == ""
    json.loads(answer.read_text())


def test_text_answer_is_written_to_the_output_file_and_not_printed(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.txt"
    assert trimtab("doctor", "-o", answer)[1] == ""
    assert "python" in answer.read_text()


def test_symbolic_link_is_kept_and_its_target_is_written(tmp_path: Path) -> None:
    place, link, dangling = tmp_path / "there" / "a.json", tmp_path / "a", tmp_path / "b"
    place.parent.mkdir()
    place.write_text("old")
    link.symlink_to(place)
    dangling.symlink_to("there/b.json")
    write_data("new", link)
    write_data("new too", dangling)
    assert (link.is_symlink(), place.read_text()) == (True, "new")
    assert (dangling.is_symlink(), (place.parent / "b.json").read_text()) == (True, "new too")


def test_arrow_output_keeps_link_and_file_mode_like_any_output_file(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    place, link = tmp_path / "there" / "a.arrow", tmp_path / "b.arrow"
    place.parent.mkdir()
    place.touch(0o640)
    link.symlink_to(place)
    document = tmp_path / "a.json"
    held = ClusterDocument(pictured({"t-0": (1, 2)}), np.zeros(1), np.zeros(1))
    document.write_text(json.dumps(document_to_json(held)))
    words = ("--from", document, "show", "--json", "-o")
    assert trimtab(*words, link)[0] == 0
    assert (link.is_symlink(), place.stat().st_mode & 0o777) == (True, 0o640)
    assert read_document(place).state.replicas(0) == (1, 2)
    assert trimtab(*words, tmp_path / "nowhere" / "c.arrow")[0] == 2


def test_file_mode_is_kept_when_an_existing_file_is_written(tmp_path: Path) -> None:
    private = tmp_path / "private.json"
    private.touch(0o600)
    shared = tmp_path / "shared.json"
    shared.touch()
    shared.chmod(0o664)
    for place in (private, shared):
        write_data("new", place)
    assert (private.stat().st_mode & 0o777, shared.stat().st_mode & 0o777) == (0o600, 0o664)


@pytest.mark.parametrize("how", ["w", "a"])
def test_file_that_is_already_stdout_is_written_to_and_not_replaced(
    tmp_path: Path, how: str
) -> None:
    place = tmp_path / "printed"
    place.write_text("before\n")
    stdout = tmp_path / "stdout"  # as /dev/stdout, which a mistake must not replace
    stdout.symlink_to("/dev/fd/1")
    words = [sys.executable, "-P", "-m", "tui", "doctor", "--json", "-o", str(stdout)]
    with place.open(how) as out:
        inode = os.fstat(out.fileno()).st_ino
        subprocess.run(words, stdout=out, check=False)
    assert place.stat().st_ino == inode
    assert stdout.is_symlink()
    json.loads(place.read_text().removeprefix("before\n" if how == "a" else ""))


WARNS = """
import logging
from core.cli.common.output import (say_warnings)
say_warnings()
logging.getLogger("trimtab.record").warning("groups: %s", "no\\x1b[2J")
logging.getLogger("trimtab.record").info("nothing that matters")
"""


BROKEN = """
import sys
class Full:
    def write(self, text): raise OSError(28, "No space left on device")
    def flush(self): pass
sys.stderr = Full()
"""


def test_warning_that_cannot_be_printed_does_not_end_the_process() -> None:
    words = [sys.executable, "-c", f"{BROKEN}{WARNS}print('on')"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == "on\n"


def test_warning_is_printed_with_its_control_characters_replaced() -> None:
    done = subprocess.run([sys.executable, "-c", WARNS], check=True, capture_output=True, text=True)
    assert done.stderr == "trimtab: groups: no\ufffd[2J\n"
