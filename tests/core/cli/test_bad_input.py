"""What a user may get wrong on one machine: a clear message, what to do next, the exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import Trimtab

from core.errors import ExitCode

pytestmark = pytest.mark.long

BROKERS = [{"id": id, "alive": True} for id in range(4)]


def row(topic: str, partition: int, *replicas: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "leader": replicas[0],
        "replicas": list(replicas),
        "isr": list(replicas),
        "size_bytes": 1_000_000,
        "in_bytes_per_s": 10.0,
        "out_bytes_per_s": 10.0,
    }


def cluster() -> dict[str, Any]:
    return {
        "format": "trimtab.cluster/1",
        "cluster_id": "saved",
        "fetched_at": "2026-01-01T12:00:00Z",
        "brokers": BROKERS,
        "topics": [{"name": "t", "id": "t-id", "min_insync": 1}],
        "partitions": [row("t", 0, 0, 1), row("t", 1, 1, 2)],
    }


@pytest.fixture(autouse=True)
def here(trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a saved cluster and a good plan, and a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    Path("cluster.json").write_text(json.dumps(cluster()))
    Path("good.json").write_text(plan(target("t", 0, [2, 1])))
    return tmp_path


@pytest.fixture
def refused(trimtab: Trimtab) -> Callable[..., str]:
    """Run words that must fail with a code; returns the message, checked for what all share."""

    def check(code: ExitCode, *words: str) -> str:
        answer, out, err = trimtab(*words)
        assert (answer, out) == (code, "")
        assert "Traceback" not in err
        assert "this is a bug" not in err
        lines = err.splitlines()
        assert lines[0].startswith("trimtab: ")
        assert 2 <= len(lines) <= 4, err
        return err

    return check


def plan(*rows: object) -> str:
    return json.dumps({"version": 1, "partitions": rows})


def target(topic: object, partition: object, replicas: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": replicas}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read", id="missing"),
        pytest.param(b"\xff\x00\xfe", "is not text", id="binary"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(plan(), "has no partitions", id="nothing"),
        pytest.param(plan(target("t", 0, [99, 1])), "broker 99", id="unknown broker"),
        pytest.param(
            plan(target("t\x1b]0;x\x07", 0, [2, 1])), "a topic's name", id="control characters"
        ),
    ],
)
@pytest.mark.parametrize("words", [("plan", "check"), ("estimate",), ("plan", "show")])
def test_invalid_plan_file_is_refused(
    refused: Callable[..., str],
    words: tuple[str, ...],
    content: str | bytes | None,
    message: str,
) -> None:
    if content is not None:
        Path("p.json").write_bytes(content.encode() if isinstance(content, str) else content)
    err = refused(ExitCode.USAGE, "--from", "cluster.json", *words, "p.json")
    assert message in err
    assert "\x1b" not in err


def test_superfluous_argument_is_quoted_without_control_characters(
    trimtab: Trimtab,
) -> None:
    code, out, err = trimtab("plan", "check", "a.json", "b\x1b]0;x\x07")
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.endswith("Error: Got unexpected extra argument (b\ufffd]0;x\ufffd)\n")


@pytest.mark.parametrize("word", ["a\0b", "a\ud800b"], ids=["NUL", "no character"])
@pytest.mark.parametrize(
    "words",
    [
        ["--from", "?", "show"],
        ["--from", "cluster.json", "plan", "check", "?"],
        ["--from", "cluster.json", "show", "--json", "-o", "?"],
        ["--command-config", "?", "-b", "127.0.0.1:1", "show"],
        ["--snapshots", "?", "--from", "cluster.json", "show"],
        ["statelog", "merge", "?"],
    ],
)
def test_arguments_with_nul_or_surrogate_characters_are_refused(
    refused: Callable[..., str], words: list[str], word: str
) -> None:
    err = refused(ExitCode.USAGE, *(word if each == "?" else each for each in words))
    assert "Invalid argument" in err


def test_file_with_a_non_utf_8_name_is_read(
    trimtab: Trimtab,
) -> None:
    Path("a\udcff.json").write_text(plan(target("t", 0, [2, 1])))
    code, out, _ = trimtab("--from", "cluster.json", "plan", "show", "a\udcff.json")
    assert (code, "t-0" in out) == (ExitCode.DONE, True)


def partition(**changed: object) -> str:
    return json.dumps(cluster() | {"partitions": [row("t", 0, 0, 1) | changed]})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(cluster())[:150], "is not JSON"),
        (json.dumps(cluster() | {"format": "trimtab.cluster/2"}), "trimtab.cluster/2"),
        (json.dumps(cluster() | {"topics": [{"name": "t\x1b[31m"}]}), "not a topic's name"),
        (partition(leader="x"), "not a whole number"),
        (partition(in_bytes_per_s=float("inf")), "out of range"),
        (partition(in_bytes_per_s=1e300), "out of range"),
    ],
)
def test_invalid_cluster_document_is_refused(
    refused: Callable[..., str], content: str, message: str
) -> None:
    Path("bad.json").write_text(content)
    assert message in refused(ExitCode.USAGE, "--from", "bad.json", "show")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["estimate", "good.json", "--throttle", "50"], "50,000,000 bytes a second"),
        (["estimate", "good.json", "--throttle", "50MB"], "Not a rate"),
        (["estimate", "good.json", "--throttle", ""], "--throttle is empty"),
        (["estimate", "good.json", "--throttle", "0MB/s"], "moves nothing"),
        (["estimate", "good.json", "--within", "tomorrow"], "Not a time"),
        (["estimate", "good.json", "--within", ""], "--within is empty"),
        (["estimate", "good.json", "--within", "0"], "must be positive"),
        (["plan", "check", "good.json", "--throttle", ""], "--throttle is empty"),
        (["plan", "check", "good.json", "--allow", "frobnicate"], "it is no check"),
        (["show", "--json", "-o", "missing/x.json"], "Cannot write missing/x.json"),
        (["show", "--json", "-o", "."], "Cannot write"),
        (["apply", "good.json"], "needs a live cluster"),
        (["throttles", "ls"], "needs a live cluster"),
        (["runs", "show", "zzz"], "No run here matches 'zzz'"),
        (["runs", "cancel", "", "--yes"], "No run is given."),
    ],
)
def test_invalid_arguments_are_refused(
    refused: Callable[..., str], words: list[str], message: str
) -> None:
    assert message in refused(ExitCode.USAGE, "--from", "cluster.json", *words)


@pytest.mark.parametrize(
    ("bootstrap", "code", "message"),
    [
        ("localhost", ExitCode.USAGE, "Not an address"),
        ("localhost:99999", ExitCode.USAGE, "Not an address"),
        ("http://localhost:9092", ExitCode.USAGE, "Not an address"),
        ("sim:/nope", ExitCode.UNREACHABLE, "does not answer"),
    ],
)
def test_invalid_or_unreachable_address_is_reported(
    refused: Callable[..., str], bootstrap: str, code: ExitCode, message: str
) -> None:
    assert message in refused(code, "-b", bootstrap, "show")


def test_unwritable_output_file_leaves_no_partial_file(
    refused: Callable[..., str], here: Path
) -> None:
    (here / "taken").mkdir()
    before = sorted(here.iterdir())
    refused(ExitCode.USAGE, "--from", "cluster.json", "show", "--json", "-o", "taken")
    assert sorted(here.iterdir()) == before


def test_trimtab_home_that_is_no_folder_is_named(
    refused: Callable[..., str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(here / "good.json"))
    assert "TRIMTAB_HOME" in refused(ExitCode.FAILED, "sandbox", "status")


# -- streams: in a process of its own, as they are closed or full ---------------------------------


def shell(command: str) -> subprocess.CompletedProcess[str]:
    trimtab = f'"{sys.executable}" -P -m tui'
    return subprocess.run(
        ["bash", "-c", command.replace("TRIMTAB", trimtab)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        pytest.param("show --json > /dev/full", 1, "No space left", id="stdout is full"),
        pytest.param("show >&-", 0, "", id="no stdout"),
        pytest.param("plan check - <&-", 2, "The plan on stdin is empty", id="no stdin"),
        pytest.param("plan check zzz 2>&-", 2, "", id="no stderr"),
        pytest.param("plan check zzz 2> /dev/full", 2, "", id="stderr is full"),
    ],
)
def test_closed_or_full_streams_cause_no_traceback(command: str, code: int, message: str) -> None:
    done = shell(f"TRIMTAB --from cluster.json {command}")
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--from cluster.json show", 0),
        ("--from cluster.json verify good.json --json", 6),
        ("doctor", 6),
        ("doctor --help", 0),
    ],
)
def test_closed_output_does_not_change_the_exit_code(here: Path, words: str, code: int) -> None:
    java = f"JAVA_HOME={here}"  # so that the doctor misses something
    done = shell(
        f"{{ {java} TRIMTAB {words}; echo $? > code; }} 2> err | true;"
        f" {java} TRIMTAB {words} >&- 2>> err; echo $? >> code"
    )
    assert (done.stdout, done.stderr, (here / "err").read_text()) == ("", "", "")
    assert (here / "code").read_text().split() == [str(code), str(code)]


def test_reader_that_closes_the_pipe_early_is_no_failure() -> None:
    document = cluster()
    document["partitions"] = [row("t", partition, 0, 1) for partition in range(2000)]
    Path("cluster.json").write_text(json.dumps(document))
    done = shell("TRIMTAB --from cluster.json show --json | head -1; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("{\n0\n", "")


def test_json_of_show_can_be_piped_into_the_from_option() -> None:
    done = shell(
        "TRIMTAB --from cluster.json show --json | TRIMTAB --from /dev/stdin show --json"
        " | diff - <(TRIMTAB --from cluster.json show --json)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


STDIN = [
    pytest.param("- show --json", "cluster.json", 0, "", id="cluster"),
    pytest.param("cluster.json plan check -", "good.json", 0, "", id="plan"),
    pytest.param("- show", "empty", 2, "The document on stdin is empty", id="no cluster"),
    pytest.param("- show", "good.json", 2, "on stdin is not a cluster document", id="a plan"),
    pytest.param("cluster.json estimate -", "empty", 2, "plan on stdin is empty", id="no plan"),
    pytest.param("cluster.json plan check -", "binary", 2, "on stdin is not text", id="binary"),
    pytest.param("- plan show -", "good.json", 2, "cannot both come from stdin", id="both"),
    pytest.param("cluster.json plan diff - -", "good.json", 2, "cannot both", id="two plans"),
    pytest.param("cluster.json plan diff good.json -", "good.json", 0, "", id="the other plan"),
    pytest.param("- show", None, 2, "The document on stdin is empty", id="closed"),
]


@pytest.mark.parametrize(("words", "stdin", "code", "message"), STDIN)
def test_dash_as_a_file_name_reads_stdin(
    trimtab: Trimtab,
    words: str,
    stdin: str | None,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("binary").write_bytes(b"\xff\x00\xfe")
    Path("empty").touch()
    given = None if stdin is None else io.TextIOWrapper(io.BytesIO(Path(stdin).read_bytes()))
    monkeypatch.setattr("sys.stdin", given)
    answer, _, err = trimtab("--from", *words.split())
    assert (answer, message in err, "bug" in err) == (code, True, False), err


def test_the_dashboard_on_a_document_from_stdin_needs_a_terminal() -> None:
    done = shell("TRIMTAB --from - < cluster.json")
    assert (done.returncode, "The dashboard needs a terminal" in done.stderr) == (2, True)


def test_arrow_document_is_recognized_by_its_file_name_and_on_stdin(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab("--from", "cluster.json", "show", "-o", "now.arrow")[0] == 0
    arrow = io.BytesIO(Path("now.arrow").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(arrow))
    code, out, err = trimtab("--from", "-", "show")
    assert (code, err, "topic" in out) == (0, "", True)
    assert out == trimtab("--from", "now.arrow", "show")[1]


def test_ascii_option_makes_printed_text_ascii(trimtab: Trimtab) -> None:
    words = ("--from", "cluster.json", "show")
    plain, drawn = (trimtab(*more, *words)[1] for more in ((), ("--ascii",)))
    assert not plain.isascii()
    assert (drawn.isascii(), "?" in drawn) == (True, "?" in plain)


def test_non_utf_8_terminal_shows_unencodable_characters_as_question_marks() -> None:
    done = shell("PYTHONIOENCODING=latin-1 TRIMTAB --from cluster.json show")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("? b0 in 2.0")
