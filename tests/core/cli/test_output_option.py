"""`-o FILE` is on every command that answers a question, and writes what would be printed."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from cli_help import with_option

from core.cli.main import root, run

ANSWERS = {
    *("show", "doctor", "estimate", "verify", "plan check", "plan diff", "plan inverse"),
    *("plan show", "plan suggest", "plan place", "plan rebase", "plan impact"),
    *("statelog merge", "pipeline status", "runs ls", "runs report"),
    *("runs retry", "runs rollback", "runs show", "snapshot ls", "snapshot show", "throttles ls"),
    "timeline",
    *("groups", "replicas verify", "topics describe", "topics ls"),
}


def test_every_command_that_answers_a_question_has_it() -> None:
    assert isinstance(root, click.Group)
    assert set(with_option(root, "-o")) == ANSWERS


@pytest.mark.parametrize("words", [["doctor"], ["runs", "ls"]])
def test_the_file_holds_the_document_and_nothing_is_printed(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    answer = tmp_path / "answer.json"
    run(lambda context: None, [*words, "--json", "-o", str(answer)])
    assert capsys.readouterr().out == ""
    json.loads(answer.read_text())


def test_the_text_goes_into_the_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.txt"
    run(lambda context: None, ["doctor", "-o", str(answer)])
    assert capsys.readouterr().out == ""
    assert "python" in answer.read_text()
