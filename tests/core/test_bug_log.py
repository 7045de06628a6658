"""The log of a bug can be passed on: it tells the input's shape, and nothing of its words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NoReturn

import pytest

import core.cli.main as cli
from core import bug_log, paths
from core.cli.common.command_shape import redact_command_line
from core.errors import DocumentError, ExitCode

# What the user names, and what exceptions quote, begins with a word that is nowhere in the program.
CAUSE = LookupError("zupf-cause")
OTHER = TypeError("zupf-message")
DOCUMENT = {
    "format": "trimtab.cluster/1",
    "cluster_id": "zupf-cluster",
    "brokers": [
        {"id": 1, "host": "zupf-host", "rack": "zupf-rack", "log_dirs": [{"path": "/zupf-dir"}]},
        {"id": 2, "alive": False},
    ],
    "topics": [{"name": "zupf-topic"}],
    "partitions": [
        {"topic": "zupf-topic", "partition": p, "leader": 1, "replicas": [1, 2]} for p in range(3)
    ],
    "groups": [{"id": "zupf-group", "members": [], "lag": []}],
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "zupf-folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bug_log, "_shapes", {})
    Path("zupf-file.json").write_text(json.dumps(DOCUMENT))


def logged() -> str:
    return (paths.log_dir() / "bugs.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("zupf-message"), "KeyError (of 14 characters)"),
        (ValueError("bad: zupf-message"), "ValueError (of 17 characters)"),
        (FileNotFoundError(2, "zupf-message", "/zupf-name"), "No such file or directory"),
        (DocumentError("zupf-message", detail="zupf-name"), None),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_bug_log_holds_shapes_of_the_input_but_none_of_its_text(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    expected: str | None,
) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        try:
            raise CAUSE
        except LookupError as cause:
            if isinstance(error, DocumentError):
                raise OTHER from error
            raise error from cause

    monkeypatch.setattr("core.cli.cluster.show.heat_text", broken)
    words = ["--theme", "zupf-word", "--from", "zupf-file.json", "show", "--metric=size"]
    assert cli.run(lambda _: None, words) == ExitCode.FAILED
    assert "without names or secrets" in capsys.readouterr().err
    log = logged()
    assert "zupf" not in log, "of the input nothing but its shape"
    assert str(Path.home()) not in log
    size = Path("zupf-file.json").stat().st_size
    assert (
        "command: words --theme (text of 9 characters) "
        f"--from (file of {size} bytes) show --metric=(text of 4 characters)\n" in log
    )
    assert "brokers 2, not alive 1, topics 1, partitions 3, in flight 0, replicas 6" in log
    assert "groups 1" in log
    assert f"document: form JSON, bytes {size}\n" in log
    assert re.search(r"trimtab \S+, Python 3\.\d+\.\d+\n", log)
    assert re.search(r"libraries: .*\bclick \d", log)
    assert re.search(r"\n    core/cli/cluster/show\.py:\d+ in show\n      text = heat_text\(", log)
    assert expected is None or expected in log
    assert "caused by" in log


def test_content_of_a_damaged_document_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(content: str, **_: object) -> NoReturn:
        raise ValueError(content)

    monkeypatch.setattr("core.cluster.documents.reader.parse_json", broken)
    assert cli.run(lambda _: None, ["--from", "zupf-file.json", "show"]) == ExitCode.FAILED
    assert "form JSON" in logged()
    assert "zupf" not in logged()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (["-b", "zupf:9092,b:1", "topics", "ls"], "-b (2 addresses) topics ls"),
        (
            ["plan", "check", "-", "--throttle", "50MB/s", "--allow=zupf"],
            "plan check - --throttle (number with a unit) --allow=(text of 4 characters)",
        ),
        (
            ["groups", "zupf", "--zupf", "7"],
            "groups (text of 4 characters) (text of 6 characters) (number)",
        ),
        ([], "none"),
    ],
)
def test_command_line_is_logged_with_user_text_redacted(words: list[str], shape: str) -> None:
    assert redact_command_line(cli.root, words) == {"words": shape}


def test_failing_shape_does_not_prevent_logging_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> NoReturn:
        raise KeyError("zupf")

    bug_log.note("odd", broken)
    bug_log.note("unknown", {"groups": None})
    try:
        raise RuntimeError(DOCUMENT["cluster_id"])
    except RuntimeError:
        assert str(paths.log_dir()) in bug_log.log_bug()
    assert "odd: cannot be told: KeyError\n" in logged()
    assert "unknown: groups unknown\n" in logged()
    assert "RuntimeError (of 12 characters)" in logged()
