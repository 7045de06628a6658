"""`-o FILE` is on every command that answers a question, and writes what would be printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from cli_help import with_option
from clusters import cluster
from in_process import Trimtab

from core.cli.common.output import write_data
from core.cli.main import root
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.cluster.documents.reader import read_document

ANSWERS = {
    *("show", "doctor", "estimate", "verify", "plan check", "plan diff", "plan inverse"),
    *("plan show", "plan suggest", "plan place", "plan rebase", "plan impact"),
    *("statelog merge", "pipeline status", "runs ls", "runs report"),
    *("runs retry", "runs rollback", "runs show", "snapshot ls", "snapshot show"),
    *("snapshot verify", "throttles ls"),
    "timeline",
    *("groups", "replicas verify", "topics describe", "topics ls"),
}


def test_every_command_that_answers_a_question_has_it() -> None:
    assert isinstance(root, click.Group)
    assert set(with_option(root, "-o")) == ANSWERS


@pytest.mark.parametrize("words", [["doctor"], ["runs", "ls"]])
def test_the_file_holds_the_document_and_nothing_is_printed(
    trimtab: Trimtab, words: list[str], tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    assert trimtab(*words, "--json", "-o", answer)[1] == ""
    json.loads(answer.read_text())


def test_the_text_goes_into_the_file_too(trimtab: Trimtab, tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    assert trimtab("doctor", "-o", answer)[1] == ""
    assert "python" in answer.read_text()


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    place, link, dangling = tmp_path / "there" / "a.json", tmp_path / "a", tmp_path / "b"
    place.parent.mkdir()
    place.write_text("old")
    link.symlink_to(place)
    dangling.symlink_to("there/b.json")
    write_data("new", link)
    write_data("new too", dangling)
    assert (link.is_symlink(), place.read_text()) == (True, "new")
    assert (dangling.is_symlink(), (place.parent / "b.json").read_text()) == (True, "new too")


def test_a_cluster_document_as_arrow_is_written_as_any_file_is(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    place, link = tmp_path / "there" / "a.arrow", tmp_path / "b.arrow"
    place.parent.mkdir()
    place.touch(0o640)
    link.symlink_to(place)
    document = tmp_path / "a.json"
    held = ClusterDocument(cluster({"t-0": (1, 2)}), np.zeros(1), np.zeros(1))
    document.write_text(json.dumps(document_to_json(held)))
    words = ("--from", document, "show", "--json", "-o")
    assert trimtab(*words, link)[0] == 0
    assert (link.is_symlink(), place.stat().st_mode & 0o777) == (True, 0o640)
    assert read_document(place).state.replicas(0) == (1, 2)
    assert trimtab(*words, tmp_path / "nowhere" / "c.arrow")[0] == 2


def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path) -> None:
    private = tmp_path / "private.json"
    private.touch(0o600)
    shared = tmp_path / "shared.json"
    shared.touch()
    shared.chmod(0o664)
    for place in (private, shared):
        write_data("new", place)
    assert (private.stat().st_mode & 0o777, shared.stat().st_mode & 0o777) == (0o600, 0o664)


@pytest.mark.parametrize("how", ["w", "a"])
def test_what_stdout_is_already_is_written_to_and_not_replaced(tmp_path: Path, how: str) -> None:
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
